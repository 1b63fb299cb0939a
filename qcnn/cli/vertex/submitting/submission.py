"""How a pipeline is run on Vertex AI, as flags, checked before anything is asked."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence

from qcnn.cli.vertex.service.runs import EXPERIMENT_LABEL
from qcnn.errors import ConfigError
from qcnn.storage.uri import in_bucket

EXPERIMENT = "qcnn"
# cloud.google.com/resource-manager/docs/labels-overview: keys begin with a letter, 64 labels in all.
_LABEL = re.compile(r"([a-z][a-z0-9_-]{0,62})=([a-z0-9_-]{0,63})")
_MOST_LABELS = 64
# vertex-ai/docs/experiments: what names an experiment; as the value of a label it is at most 63 characters long.
_EXPERIMENT = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
_ACCOUNT = re.compile(r"[^@\s]+@[^@\s]+\.[^@\s]+")
_NETWORK = re.compile(r"projects/[^/\s]+/global/networks/[^/\s]+")
_NAME_LENGTH = 128


@dataclasses.dataclass(frozen=True)
class Submission:
    """How a pipeline is run on Vertex AI; what is None is left to it.

    Raises:
        ConfigError: one of these is malformed.
    """

    pipeline_root: str
    experiment: str = EXPERIMENT
    run_name: str | None = None
    service_account: str | None = None
    network: str | None = None
    labels: Sequence[str] = ()
    caching: bool | None = None

    def __post_init__(self) -> None:
        root = in_bucket(self.pipeline_root)
        if root is None or root.scheme != "gs":
            raise ConfigError(f"pipeline root: must be gs://BUCKET/FOLDER. Given: {self.pipeline_root}")
        if self.run_name is not None and not 1 <= len(self.run_name) <= _NAME_LENGTH:
            raise ConfigError(f"run name: must have 1 to {_NAME_LENGTH} characters. Given: {self.run_name}")
        _check("experiment", self.experiment, _EXPERIMENT, "1 to 63 small letters, digits and hyphens")
        account = "an account's address, NAME@PROJECT.iam.gserviceaccount.com"
        _check("service account", self.service_account, _ACCOUNT, account)
        _check("network", self.network, _NETWORK, "projects/NUMBER/global/networks/NAME")
        self.all_labels()

    def all_labels(self) -> dict[str, str]:
        """Return the labels of the run: those that are given, and those by which it is found again.

        Raises:
            ConfigError: one is malformed, or they are too many.
        """
        found = {**dict(map(_label, self.labels)), EXPERIMENT_LABEL: self.experiment}
        if len(found) > _MOST_LABELS:
            raise ConfigError(f"label: there may be {_MOST_LABELS}, ours among them. Given: {len(found)}")
        return found


def _check(name: str, value: str | None, form: re.Pattern[str], allowed: str) -> None:
    if value is not None and not form.fullmatch(value):
        raise ConfigError(f"{name}: must be {allowed}. Given: {value}")


def _label(text: str) -> tuple[str, str]:
    found = _LABEL.fullmatch(text)
    if not found:
        raise ConfigError(
            "label: must be KEY=VALUE, each at most 63 small letters, digits, underscores and hyphens, the key "
            f"beginning with a letter. Given: {text}"
        )
    if found[1] == EXPERIMENT_LABEL:
        raise ConfigError(f"label: {EXPERIMENT_LABEL} is what --experiment sets. Given: {text}")
    return found[1], found[2]
