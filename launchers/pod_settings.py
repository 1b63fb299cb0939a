"""What a person gives the pods of a job: read from a file and validated, before any cluster is asked."""

import logging
from collections.abc import Mapping
from typing import Any

import pydantic

from launchers.job import Pod
from launchers.secrecy import secrets_in
from trainer.errors import ConfigError

logger = logging.getLogger("qcnn")

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
    """Validate the settings of a job's pods; `image` is the only one without a default. Warn of secrets among them.

    Raises:
        ConfigError: one line with the first that is wrong, its value and what is allowed.
    """
    try:
        pod = _ADAPTER.validate_python(dict(values))
    except pydantic.ValidationError as error:
        raise _refused(error) from None
    for name in secrets_in(pod.environment):
        logger.warning(
            "warning: pod.environment: %s looks like a secret, which everybody who may look at the job can read there; "
            "keep it in a Secret, and name that in the pod's settings: secrets: {%s: SECRET/KEY}",
            *(name, name),
        )
    return pod


def _refused(error: pydantic.ValidationError) -> ConfigError:
    """Return one line with the first setting that is wrong."""
    first = error.errors(include_url=False)[0]
    field, *within = map(str, first["loc"])
    name = ".".join(("pod", field, *within))
    if first["type"] == "missing":
        return ConfigError(f"{name}: must be given. Given: none")
    if first["type"] == "unexpected_keyword_argument":
        keys = ", ".join(Pod.__dataclass_fields__)
        return ConfigError(f"{name}: unknown key; the keys are {keys}. Given: {first['input']!r}")
    return ConfigError(f"{name}: must be {_ALLOWED.get(field, 'text')}. Given: {first['input']!r}")
