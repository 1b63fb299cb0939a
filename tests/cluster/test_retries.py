"""A launcher that a backend starts again by itself, and one that a person does."""

import pytest

from qcnn.errors import TrainingError
from qcnn.jobs.tfjob.launch import launch
from qcnn.jobs.tfjob.manifest import TFJOBS
from qcnn.startup import ABANDONED
from tests.cluster.launchers import Launchers, job


def _uid(launchers: Launchers) -> str:
    (found,) = launchers.until(TFJOBS, bool)
    return str(found["metadata"]["uid"])


def test_what_failed_by_its_own_fault_is_trained_again_only_where_somebody_asks(launchers: Launchers) -> None:
    failing = job("raise SystemExit('out of luck')", replicas={"worker": 1})
    launchers.start(failing).ends()
    first = _uid(launchers)
    for _ in range(2):
        with pytest.raises(TrainingError, match=r"^worker 0 ended with exit code 1: out of luck\. Given: "):
            launch(launchers.manifest(failing), launchers.namespace, retried=True)
        assert _uid(launchers) == first
    with pytest.raises(TrainingError, match="out of luck"):
        launch(launchers.manifest(failing), launchers.namespace)
    assert _uid(launchers) != first


def test_what_its_launcher_left_is_trained_again(launchers: Launchers) -> None:
    left = job(f"raise SystemExit({ABANDONED})", replicas={"worker": 1})
    launchers.start(left).ends()
    first = _uid(launchers)
    with pytest.raises(TrainingError):
        launch(launchers.manifest(left), launchers.namespace, retried=True)
    assert _uid(launchers) != first
