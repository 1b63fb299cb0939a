"""What a process is told by its environment: whether it is in a pod; on Vertex AI where to write, and for whom.

Folders: google.cloud.aiplatform_v1, CustomJobSpec.base_output_directory. Identity of the job and its trial:
"Distributed training" and "Overview of hyperparameter tuning" (cloud.google.com/vertex-ai/docs/training).
"""

import collections
import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from qcnn.errors import ConfigError
from qcnn.monitoring.logs import GPUS_VARIABLE

# The flags of a worker that need not be given there, by the variable that says the same.
FOLDERS = {"workdir": "AIP_CHECKPOINT_DIR", "logs": "AIP_TENSORBOARD_LOG_DIR", "export": "AIP_MODEL_DIR"}
# What the losses of a trial are called where they are reported.
METRIC = "val_loss"

_JOB, _TRIAL = "CLOUD_ML_JOB_ID", "CLOUD_ML_TRIAL_ID"
_MOUNTED, _BUCKET = "/gcs/", "gs://"
# cloudml-hypertune 0.1.0.dev6, hypertune/hypertune.py: where reports go, and how many of them are kept.
_REPORTS = "CLOUD_ML_HP_METRIC_FILE"
_DEFAULT_REPORTS = "/tmp/hypertune/output.metrics"
_MOST_REPORTS = 100

# Kubernetes tells every container where its API server is ("Accessing the Kubernetes API from a Pod").
_API_SERVER = "KUBERNETES_SERVICE_HOST"


def in_pod(environment: Mapping[str, str]) -> bool:
    """Return whether this process is in a pod of Kubernetes, whose network is its own."""
    return _API_SERVER in environment


def requested_gpus(environment: Mapping[str, str]) -> int:
    """Return the number of GPUs that the job requested for this process.

    Raises:
        ConfigError: the variable holds no number.
    """
    value = environment.get(GPUS_VARIABLE, "0")
    if not (value.isascii() and value.isdecimal()):
        raise ConfigError(f"{GPUS_VARIABLE}: must be an integer, at least 0. Given: {value}")
    return int(value)


def address(text: str, environment: Mapping[str, str]) -> str:
    """Return the address of a folder; on Vertex AI a bucket is written to itself, not through its mount at /gcs.

    The mount (gcsfuse) neither renames folders nor locks files.
    """
    if _JOB in environment and text.startswith(_MOUNTED):
        return _BUCKET + text.removeprefix(_MOUNTED)
    return text


class HyperparameterReporter:
    """Reports the validation loss of each epoch to the tuner that this process is a trial of; nothing if it is none.

    The file holds the last reports, a line of JSON each, in the format of cloudml-hypertune.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._trial = environment.get(_TRIAL)
        self._path = Path(environment.get(_REPORTS, _DEFAULT_REPORTS))
        self._lines: collections.deque[str] = collections.deque(maxlen=_MOST_REPORTS)

    def listen(self, kind: str, **values: Any) -> None:
        """Take note of an event of the training."""
        if self._trial is None or kind != "epoch":
            return
        report = {
            "timestamp": time.time(),
            "trial": self._trial,
            METRIC: str(float(values[METRIC])),
            "global_step": str(values["epoch"]),
        }
        self._lines.append(json.dumps(report, sort_keys=True) + "\n")
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._path.write_text("".join(self._lines), encoding="utf-8")
