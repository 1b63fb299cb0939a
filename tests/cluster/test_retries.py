"""Launchers restarted by KFP, and new launchers for a failed job."""

import pytest

from qcnn.errors import TrainingError
from qcnn.jobs.kubernetes.launch import launch
from qcnn.jobs.tfjob.engine import TFJOBS
from qcnn.process.exit_codes import ABANDONED
from tests.cluster.launchers import Launchers, job


def _uid(launchers: Launchers) -> str:
    (found,) = launchers.wait_until(TFJOBS, bool)
    return str(found["metadata"]["uid"])


def test_permanent_error_is_retrained_only_by_new_launch(launchers: Launchers) -> None:
    failing = job("raise SystemExit('out of luck')", replicas={"worker": 1})
    launchers.start(failing).exit_code()
    first = _uid(launchers)
    for _ in range(2):
        with pytest.raises(TrainingError, match=r"^worker 0 ended with exit code 1: out of luck\. Given: "):
            launch(launchers.training(failing), launchers.namespace, retried=True)
        assert _uid(launchers) == first
    with pytest.raises(TrainingError, match="out of luck"):
        launch(launchers.training(failing), launchers.namespace)
    assert _uid(launchers) != first


def test_abandoned_job_is_retrained_by_retried_step(launchers: Launchers) -> None:
    abandoned = job(f"raise SystemExit({ABANDONED})", replicas={"worker": 1})
    launchers.start(abandoned).exit_code()
    first = _uid(launchers)
    with pytest.raises(TrainingError):
        launch(launchers.training(abandoned), launchers.namespace, retried=True)
    assert _uid(launchers) != first
