"""Progress of training in the status of a TrainJob, where the cluster has Kubeflow Trainer's feature TrainJobStatus.

Trainer (v2.3, pkg/runtime/framework/plugins/trainjobstatus) gives the process a URL, a certificate and a token.
"""

import datetime
import json
import logging
import ssl
import threading
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

logger = logging.getLogger("qcnn")

URL_VARIABLE = "KUBEFLOW_TRAINER_SERVER_URL"
_CERTIFICATE, _TOKEN = "KUBEFLOW_TRAINER_SERVER_CA_CERT", "KUBEFLOW_TRAINER_SERVER_TOKEN"
# Minimum seconds between two updates, and timeout of an update in seconds.
_INTERVAL, _TIMEOUT = 5.0, 10.0
_METRICS = ("train_loss", "val_loss")


class TrainJobReporter:
    """Context manager that reports epochs to the status of the TrainJob of this process, in a separate thread.

    An update that fails is replaced by the next one. Training never fails because of an update. At its end, it waits
    for the update of the last epoch, so that a complete job has a complete status.
    """

    def __init__(self, environment: Mapping[str, str], epochs: int) -> None:
        self._environment = environment
        self._epochs = epochs
        self._last: dict[str, Any] = {}
        # Numbers of the last epoch and of the last update.
        self._ended = self._sent = 0
        self._changed = threading.Condition()
        self._is_requested = URL_VARIABLE in environment
        if self._is_requested:
            threading.Thread(target=self._run, name="TrainJob status", daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        if self._is_requested and not error:
            with self._changed:
                self._changed.wait_for(lambda: self._sent == self._ended, timeout=_INTERVAL + _TIMEOUT)

    def listen(self, kind: str, **values: Any) -> None:
        """Report the progress if the event is the end of an epoch."""
        if kind == "epoch":
            with self._changed:
                self._last, self._ended = values, self._ended + 1
                self._changed.notify_all()

    def _run(self) -> None:
        warned = False
        pause = threading.Event()
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._sent < self._ended)
                values, number = self._last, self._ended
            try:
                self._send(trainer_status(values, self._epochs))
            except (OSError, KeyError, ValueError) as error:
                if not warned:
                    logger.warning("the status of the TrainJob cannot be updated (%s)", error)
                warned = True
            with self._changed:
                self._sent = number
                self._changed.notify_all()
            pause.wait(_INTERVAL)

    def _send(self, status: Mapping[str, Any]) -> None:
        token = Path(self._environment[_TOKEN]).read_text(encoding="utf-8")
        request = urllib.request.Request(
            self._environment[URL_VARIABLE],
            json.dumps({"trainerStatus": status}).encode(),
            {"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
        )
        context = ssl.create_default_context(cafile=self._environment[_CERTIFICATE])
        with urllib.request.urlopen(request, timeout=_TIMEOUT, context=context):
            pass


def trainer_status(values: Mapping[str, Any], epochs: int) -> dict[str, Any]:
    """Return the status after an epoch (v1alpha1 TrainerStatus).

    Args:
        values: Values of the event of the epoch.
        epochs: Number of epochs of the experiment.
    """
    now = datetime.datetime.now(datetime.UTC)
    metrics = {"epoch": str(values["epoch"]), **{name: repr(float(values[name])) for name in _METRICS}}
    return {
        "progressPercentage": min(100, int(100 * values["epoch"] / epochs)),
        "estimatedRemainingSeconds": max(0, round(values["seconds_left"])),
        "metrics": [{"name": name, "value": value} for name, value in metrics.items()],
        "lastUpdatedTime": f"{now:%Y-%m-%dT%H:%M:%SZ}",
    }
