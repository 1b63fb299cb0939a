"""Submission, prediction and deletion with role qcnn-user and outputs in a bucket."""

import os
import re
from pathlib import Path

import pytest

from qcnn import data
from qcnn.components.resources import IMAGE
from qcnn.experiment.parsing import from_mapping
from qcnn.jobs.kubernetes.api import JOBS, PODS
from qcnn.jobs.tfjob.engine import TFJOBS
from qcnn.results import evaluate
from qcnn.results.model_folder import describe
from qcnn.storage.copies import local_copy
from tests.cluster.launchers import Launchers
from tests.cluster.programs import Qcnn

FIELDS = {"qubits": 4, "rounds": 10, "epochs": 5, "seed": 3}
_MSE = re.compile(r"^mse (\d\.\d{6}), sign accuracy \S+ over \d+ samples$", re.MULTILINE)


def test_submit_and_predict_match_local_evaluation(launchers: Launchers, qcnn: Qcnn, bucket: str) -> None:
    server = f"STORAGE_EMULATOR_HOST={os.environ['STORAGE_EMULATOR_HOST']}"
    pods = ("--image", IMAGE, "--cpu", "200m", "--memory", "3Gi", "--env", server)
    flags = [argument for name, value in FIELDS.items() for argument in (f"--{name}", str(value))]
    submit = ("submit", "--target", "tfjob", "--name", launchers.identity.run, "--output", bucket, *pods, *flags)
    followed = qcnn(*submit, "--follow")
    assert re.search(r"^\[worker 0\] epoch 5/5: ", followed, re.MULTILINE), followed
    (name,) = re.findall(r"^TFJob (\S+) is created", followed, re.MULTILINE)
    assert f"TFJob {name} has already succeeded" in qcnn(*submit, "--follow")
    assert len(launchers.wait_until(TFJOBS, bool)) == 1

    predicted = qcnn("predict", "--target", "tfjob", name)
    with local_copy(f"{bucket}/{name}/model") as folder:
        _, experiment = describe(folder)
        local = evaluate.evaluate(folder, data.load_or_generate(None, experiment))
    assert experiment == from_mapping(FIELDS)
    (mse,) = _MSE.findall(predicted)
    assert float(mse) == pytest.approx(local.metrics["mse"], abs=1e-6)
    rows = re.findall(r"^ +(\d+) +(-?\d\.\d{4}) +(-?1) +(-?\d\.\d{4})$", predicted, re.MULTILINE)
    expected = zip(*local.columns.values(), strict=True)
    assert rows == [(str(row[0]), f"{row[1]:.4f}", str(row[2]), f"{row[3]:.4f}") for row in expected][:10]
    # A repeated command prints the predictions of the existing Job.
    assert "has already succeeded" in (again := qcnn("predict", "--target", "tfjob", name))
    assert _MSE.findall(again) == [mse]

    assert all(launchers.wait_until(resource, bool) for resource in (TFJOBS, JOBS, PODS))
    shown = qcnn("delete", name, "--yes")
    assert {line.split()[0] for line in shown.splitlines()} >= {"TFJob", "Pod", "Job"}
    for resource in (TFJOBS, JOBS, PODS):
        launchers.wait_until(resource, lambda objects: not objects)


def test_read_only_output_is_single_line_error(launchers: Launchers, qcnn: Qcnn, tmp_path: Path) -> None:
    # Every namespace has this ConfigMap, and its volumes are read-only.
    (pod := tmp_path / "pod.yaml").write_text("volumes: {/nowhere: {configMap: {name: kube-root-ca.crt}}}")
    pods = ("--image", IMAGE, "--memory", "3Gi", "--cpu", "200m", "--pod", str(pod))
    arguments = (*pods, "--output", "/nowhere", "--qubits", "4")
    following = qcnn.start("submit", "--target", "tfjob", "--name", launchers.identity.run, *arguments, "--follow")
    assert following.exit_code() == 1, following.output
    (error,) = [line for line in following.errors if "ended with exit code" in line]
    assert "Read-only file system" in error
    qcnn("delete", "--run", launchers.identity.run, "--yes")


def test_predict_with_missing_model_shows_pod_error(qcnn: Qcnn, bucket: str) -> None:
    server = f"STORAGE_EMULATOR_HOST={os.environ['STORAGE_EMULATOR_HOST']}"
    pods = ("--image", IMAGE, "--cpu", "200m", "--memory", "3Gi", "--env", server)
    shown = qcnn("predict", "--target", "tfjob", "--model", f"{bucket}/none", *pods, code=2)
    assert shown.splitlines()[-1].startswith("error: predict 0 ended with exit code 2: ")
