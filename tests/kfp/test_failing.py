"""Trainings that fail, and what becomes of their runs."""

import os
from pathlib import Path

import pytest
import yaml

from qcnn.pipelines.compiler import compile_qcnn
from qcnn.pipelines.kubeflow import KUBEFLOW
from qcnn.targets.kubeflow.client import connect
from qcnn.targets.kubeflow.runs import RunPoller, follow
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
    assert follow(RunPoller(client, kubeflow.backend, failed.run), (), print).state == "FAILED"
    assert list(tfjobs(failed.run).values()) == [name]

    client.delete_run(failed.run)
    until(lambda: tfjobs(failed.run), lambda there: not there)


def test_waiting_names_the_step_whose_driver_failed(kubeflow: Kubeflow, tmp_path: Path) -> None:
    package = tmp_path / "qcnn.yaml"
    compile_qcnn(KUBEFLOW, package, kubeflow.image)
    pipeline, *platform = yaml.safe_load_all(package.read_text())
    # What a task is given is looked for by its driver alone.
    given = pipeline["root"]["dag"]["tasks"]["generate-data"]["inputs"]["parameters"]
    given["qubits"] = {"componentInputParameter": "nothing"}
    package.write_text(yaml.safe_dump_all([pipeline, *platform]))
    run, done = kubeflow.submit("--qubits", "4", "--package", str(package), "--wait", "--run-name", "driver")
    assert done.returncode == 1
    assert "generate-data-driver: failed" in done.stdout.splitlines()
    said = f"error: run: step generate-data-driver failed, see its log. Given: {run}"
    assert done.stderr.splitlines()[-1] == said
