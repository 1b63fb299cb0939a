"""Runs with failed training jobs or drivers."""

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from qcnn.pipelines.compiler import compile_qcnn
from qcnn.pipelines.kubeflow import KUBEFLOW
from qcnn.targets.kubeflow.runs import RunPoller, follow
from tests.kfp.cluster import steps_log, tfjobs
from tests.kfp.conftest import SMALL, FinishedRun, Kubeflow, until

# An empty volume hides the code of the image in the training pods.
_BROKEN: dict[str, dict[str, object]] = {"/opt/qcnn": {"emptyDir": {}}}


@pytest.fixture
def failed(kubeflow: Kubeflow, tmp_path: Path) -> FinishedRun:
    if "KUBECONFIG" not in os.environ:
        pytest.skip("requires KUBECONFIG to list the TFJobs of a run")
    settings = yaml.safe_load(Path(kubeflow.pod).read_text()) if kubeflow.pod else {}
    broken = tmp_path / "broken.yaml"
    broken.write_text(yaml.safe_dump({**settings, "volumes": _BROKEN}))
    return FinishedRun(*kubeflow.submit("broken", *SMALL, "--pod", str(broken), "--wait"))


def test_failed_tfjob_is_replaced_on_retry_and_deleted_with_run(kubeflow: Kubeflow, failed: FinishedRun) -> None:
    assert failed.done.returncode == 1
    assert "train: failed (worker 0 ended with exit code 1: " in failed.done.stdout
    assert "error: worker 0 ended with exit code 1: " in steps_log(failed.run)
    (train,) = [part for part in _parts(kubeflow, failed.run) if part["name"] == "train"]
    assert (train["state"], train["exit_code"], train["duration"] > 0) == ("failed", 2, True)
    # The step's own lines, without those of executors, end with the error.
    logged = kubeflow.run_command("logs", "--target", "kubeflow", failed.run).stdout.splitlines()
    assert logged[-1].startswith("[train] error: worker 0 ended with exit code 1: ")
    assert not [line for line in logged if "KFP Executor" in line or "argo=true" in line]
    ((first, name),) = tfjobs(failed.run).items()

    client = kubeflow.backend.client
    client._run_api.run_service_retry_run(failed.run)
    counts = []

    def list_tfjobs() -> dict[str, str]:
        found = tfjobs(failed.run)
        counts.append(len(found))
        return found

    until(list_tfjobs, lambda found: bool(found) and first not in found)
    assert max(counts) == 1
    assert follow(RunPoller(kubeflow.backend, failed.run), lambda run: (), print).state == "FAILED"
    assert list(tfjobs(failed.run).values()) == [name]

    client.delete_run(failed.run)
    until(lambda: tfjobs(failed.run), lambda found: not found)


def test_wait_reports_failed_driver(kubeflow: Kubeflow, tmp_path: Path) -> None:
    package = tmp_path / "qcnn.yaml"
    compile_qcnn(KUBEFLOW, package, kubeflow.image)
    pipeline, *platform = yaml.safe_load_all(package.read_text())
    # Only the driver of a task resolves its inputs.
    inputs = pipeline["root"]["dag"]["tasks"]["generate-data"]["inputs"]["parameters"]
    inputs["qubits"] = {"componentInputParameter": "nothing"}
    package.write_text(yaml.safe_dump_all([pipeline, *platform]))
    run, done = kubeflow.submit("driver", "--qubits", "4", "--package", str(package), "--wait")
    assert done.returncode == 1
    assert "generate-data-driver: failed" in done.stdout
    message = rf"error: run: step generate-data-driver failed(, see its log| \(.+\))\. Given: {run}"
    assert re.fullmatch(message, done.stderr.splitlines()[-1])


def test_status_reports_image_that_cannot_be_pulled(kubeflow: Kubeflow) -> None:
    if "KUBECONFIG" not in os.environ:
        pytest.skip("requires KUBECONFIG to read pods")
    run, _ = kubeflow.submit("unpullable", *SMALL, "--image", "none.invalid/qcnn:1")
    parts = until(lambda: _parts(kubeflow, run), lambda parts: any(part["reason"] for part in parts))
    assert {(part["name"], part["state"]) for part in parts} == {("generate-data", "pending")}
    assert "none.invalid/qcnn:1" in parts[0]["reason"]
    assert kubeflow.run_command("terminate", run).returncode == 0


def test_wait_reports_missing_service_account(kubeflow: Kubeflow) -> None:
    if "KUBECONFIG" not in os.environ:
        pytest.skip("requires KUBECONFIG to read the Workflow")
    _, done = kubeflow.submit("absent", *SMALL, "--service-account", "absent", "--wait")
    assert done.returncode == 1
    assert 'serviceaccount "absent" not found' in done.stderr.splitlines()[-1]


def _parts(kubeflow: Kubeflow, run: str) -> list[dict[str, Any]]:
    """Return the steps of a run in the output of qcnn status."""
    done = kubeflow.run_command("status", "--target", "kubeflow", run, "--format", "json")
    assert done.returncode == 0, done.stderr
    return list(json.loads(done.stdout)["parts"])
