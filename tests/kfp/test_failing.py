"""Trainings that fail, and what becomes of their runs."""

import os
from pathlib import Path

import pytest
import yaml

from cli.kubeflow.backend import connect
from cli.kubeflow.follow import Asking, follow
from tests.kfp.cluster import steps_log, tfjobs
from tests.kfp.conftest import SMALL, Ended, Kubeflow, until

# It hides the image's own code from the pods of the training.
_BROKEN: dict[str, dict[str, object]] = {"/opt/qcnn": {"emptyDir": {}}}


@pytest.fixture
def failed(kubeflow: Kubeflow, tmp_path: Path) -> Ended:
    if "KUBECONFIG" not in os.environ:
        pytest.skip("KUBECONFIG is not set: nothing to see the TFJobs of a run by")
    settings = yaml.safe_load(Path(kubeflow.pod).read_text()) if kubeflow.pod else {}
    broken = tmp_path / "broken.yaml"
    broken.write_text(yaml.safe_dump({**settings, "volumes": _BROKEN}))
    return Ended(*kubeflow.submit(*SMALL, "--pod", str(broken), "--wait", "--run-name", "broken"))


def test_a_training_that_fails_is_replaced_when_its_run_is_retried_and_deleted_with_it(
    kubeflow: Kubeflow, failed: Ended
) -> None:
    assert failed.done.returncode == 1
    assert "train: failed\n" in failed.done.stdout
    assert "error: worker 0 ended with exit code 1: " in steps_log(failed.run)
    ((first, name),) = tfjobs(failed.run).items()

    client = connect(kubeflow.backend)
    client._run_api.run_service_retry_run(failed.run)
    at_once = []

    def look() -> dict[str, str]:
        there = tfjobs(failed.run)
        at_once.append(len(there))
        return there

    until(look, lambda there: bool(there) and first not in there)
    assert max(at_once) == 1
    assert follow(Asking(client, kubeflow.backend, failed.run), (), print).state == "FAILED"
    assert list(tfjobs(failed.run).values()) == [name]

    client.delete_run(failed.run)
    until(lambda: tfjobs(failed.run), lambda there: not there)
