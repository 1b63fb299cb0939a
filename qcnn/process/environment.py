"""Process environment: detection of Kubernetes pods, output folders and trial ID on Vertex AI.

Folders: google.cloud.aiplatform_v1, CustomJobSpec.base_output_directory. IDs of the job and its trial:
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
from qcnn.monitoring.validation_metrics import VAL_LOSS

# Flags of a worker that default to a variable of Vertex AI.
FOLDERS = {"workdir": "AIP_CHECKPOINT_DIR", "logs": "AIP_TENSORBOARD_LOG_DIR", "export": "AIP_MODEL_DIR"}

_JOB, _TRIAL = "CLOUD_ML_JOB_ID", "CLOUD_ML_TRIAL_ID"
_MOUNTED, _BUCKET = "/gcs/", "gs://"
# File and maximum number of reports (cloudml-hypertune 0.1.0.dev6, hypertune/hypertune.py).
_REPORTS = "CLOUD_ML_HP_METRIC_FILE"
_DEFAULT_REPORTS = "/tmp/hypertune/output.metrics"
_MAX_REPORTS = 100

# Addresses of TPUs, as TensorFlow reads them (tensorflow/python/tpu/client/client.py).
TPU_VARIABLES = ("KUBE_GOOGLE_CLOUD_TPU_ENDPOINTS", "TPU_NAME")

# Kubernetes sets it in every container ("Accessing the Kubernetes API from a Pod").
_API_SERVER = "KUBERNETES_SERVICE_HOST"


def in_pod(environment: Mapping[str, str]) -> bool:
    """Return whether this process runs in a Kubernetes pod, which has a separate network namespace."""
    return _API_SERVER in environment


def has_tpu(environment: Mapping[str, str]) -> bool:
    """Return whether TensorFlow would search for a TPU, which it does not without an address."""
    return any(name in environment for name in TPU_VARIABLES)


def requested_gpus(environment: Mapping[str, str]) -> int:
    """Return the number of GPUs that the job requested for this process.

    Raises:
        ConfigError: If the variable is not a number.
    """
    value = environment.get(GPUS_VARIABLE, "0")
    if not (value.isascii() and value.isdecimal()):
        raise ConfigError(f"{GPUS_VARIABLE}: must be an integer, at least 0. Given: {value}")
    return int(value)


def address(text: str, environment: Mapping[str, str]) -> str:
    """Return the URI of a folder. On Vertex AI, a path below /gcs becomes a bucket URI.

    The mount at /gcs (gcsfuse) can neither rename folders nor lock files.
    """
    if _JOB in environment and text.startswith(_MOUNTED):
        return _BUCKET + text.removeprefix(_MOUNTED)
    return text


class HyperparameterReporter:
    """Reporter of a validation metric of each epoch to the tuner, if this process is a trial.

    The file contains the last reports as JSON lines, in the format of cloudml-hypertune.

    Args:
        environment: Environment variables of the process.
        metric: One of `qcnn.monitoring.validation_metrics.SELECTION_METRICS`. Epochs without it are not reported.
    """

    def __init__(self, environment: Mapping[str, str], metric: str = VAL_LOSS) -> None:
        self._metric = metric
        self._trial = environment.get(_TRIAL)
        self._path = Path(environment.get(_REPORTS, _DEFAULT_REPORTS))
        self._lines: collections.deque[str] = collections.deque(maxlen=_MAX_REPORTS)

    def listen(self, kind: str, **values: Any) -> None:
        """Report the metric if the event is the end of an epoch."""
        if self._trial is None or kind != "epoch" or values[self._metric] is None:
            return
        report = {
            "timestamp": time.time(),
            "trial": self._trial,
            self._metric: str(float(values[self._metric])),
            "global_step": str(values["epoch"]),
        }
        self._lines.append(json.dumps(report, sort_keys=True) + "\n")
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._path.write_text("".join(self._lines), encoding="utf-8")
