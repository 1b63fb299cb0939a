"""Trainings that fail, and what becomes of their runs."""

import dataclasses
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import tenacity
import yaml

from cli.backend import connect
from cli.following import Asking, follow
from tests.kfp.cluster import steps_log, tfjobs
from tests.kfp.conftest import SMALL, Kubeflow

# It hides the image's own code from the pods of the training.
_BROKEN: dict[str, dict[str, object]] = {"/opt/qcnn": {"emptyDir": {}}}


@dataclasses.dataclass(frozen=True)
class Failed:
    """A run whose training has failed."""

    run: str
    done: subprocess.CompletedProcess[str]


@pytest.fixture
def failed(kubeflow: Kubeflow, tmp_path: Path) -> Failed:
    if "KUBECONFIG" not in os.environ:
        pytest.skip("KUBECONFIG is not set: nothing to see the TFJobs of a run by")
    settings = yaml.safe_load(Path(kubeflow.pod).read_text()) if kubeflow.pod else {}
    broken = tmp_path / "broken.yaml"
    broken.write_text(yaml.safe_dump({**settings, "volumes": _BROKEN}))
    return Failed(*kubeflow.submit(*SMALL, "--pod", str(broken), "--wait", "--run-name", "broken"))


def test_a_training_that_fails_is_replaced_when_its_run_is_retried_and_deleted_with_it(
    kubeflow: Kubeflow, failed: Failed
) -> None:
    assert failed.done.returncode == 1
    assert "train: failed\n" in failed.done.stdout
    assert "error: worker 0 ended with exit code 1: " in steps_log(failed.run)
    ((first, name),) = tfjobs(failed.run).items()

    client = connect(kubeflow.backend)
    client._run_api.run_service_retry_run(failed.run)
    at_once = []

    def replaced() -> bool:
        there = tfjobs(failed.run)
        at_once.append(len(there))
        return bool(there) and first not in there

    _until(replaced)
    assert max(at_once) == 1
    assert follow(Asking(client, kubeflow.backend, failed.run), (), print).state == "FAILED"
    assert list(tfjobs(failed.run).values()) == [name]

    client.delete_run(failed.run)
    _until(lambda: not tfjobs(failed.run))


def _until(holds: Callable[[], bool]) -> None:
    """Ask until something holds, which takes a backend a minute."""
    retrying = tenacity.Retrying(
        retry=tenacity.retry_if_result(lambda found: not found),
        wait=tenacity.wait_fixed(1),
        stop=tenacity.stop_after_delay(240),
    )
    retrying(holds)
