"""What a person gives the pods of a job: read from a file and validated, before any cluster is asked."""

from collections.abc import Mapping
from typing import Any

import pydantic

from components.train.job import Pod
from trainer.errors import ConfigError

_ADAPTER = pydantic.TypeAdapter(Pod)
# What each field accepts, where the validator's own words would not do.
_ALLOWED = {
    "pull_policy": "one of Always, IfNotPresent, Never",
    "cpu": "a quantity such as 2 or 500m",
    "memory": "a quantity such as 2Gi",
    "gpus": "an integer, at least 0",
    "pull_secrets": "a list of the names of secrets",
    "environment": "a mapping of names to text (numbers in quotation marks)",
    "secrets": "a mapping of variables to SECRET/KEY",
    "volumes": "a mapping of paths to the sources of volumes, as in a pod's spec",
    "node_selector": "a mapping of labels to text",
    "tolerations": "a list of tolerations, as in a pod's spec",
    "labels": "a mapping of labels to text",
}


def pod_settings(values: Mapping[str, Any]) -> Pod:
    """Validate the settings of a job's pods; `image` is the only one without a default.

    Raises:
        ConfigError: one line with the first that is wrong, its value and what is allowed.
    """
    try:
        return _ADAPTER.validate_python(dict(values))
    except pydantic.ValidationError as error:
        first = error.errors(include_url=False)[0]
    field, *within = map(str, first["loc"])
    name = ".".join(("pod", field, *within))
    if first["type"] == "missing":
        raise ConfigError(f"{name}: must be given. Given: none")
    if first["type"] == "unexpected_keyword_argument":
        keys = ", ".join(Pod.__dataclass_fields__)
        raise ConfigError(f"{name}: unknown key; the keys are {keys}. Given: {first['input']!r}")
    raise ConfigError(f"{name}: must be {_ALLOWED.get(field, 'text')}. Given: {first['input']!r}")
