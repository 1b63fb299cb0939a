"""From an experiment's words to the error of its predictions, with the commands of a person, in a real bucket."""

import os
import re
from pathlib import Path

import pytest

from qcnn import data
from qcnn.components.resources import IMAGE
from qcnn.experiment_io import from_mapping
from qcnn.jobs.kubernetes.api import JOBS, PODS
from qcnn.jobs.tfjob.manifest import TFJOBS
from qcnn.results import evaluate
from qcnn.results.model_folder import describe
from qcnn.storage.copies import local_copy
from tests.cluster.launchers import Launchers
from tests.cluster.programs import Qcnn

WORDS = {"qubits": 4, "rounds": 10, "epochs": 5, "seed": 3}
_MSE = re.compile(r"^mse (\d\.\d{6}), sign accuracy \S+ over \d+ samples$", re.MULTILINE)


def test_what_is_submitted_is_trained_once_and_predicts_as_here(launchers: Launchers, qcnn: Qcnn, bucket: str) -> None:
    server = f"STORAGE_EMULATOR_HOST={os.environ['STORAGE_EMULATOR_HOST']}"
    pods = ("--image", IMAGE, "--cpu", "500m", "--memory", "3Gi", "--env", server)
    words = [word for name, value in WORDS.items() for word in (f"--{name}", str(value))]
    submit = ("submit", "--target", "tfjob", "--name", launchers.identity.run, "--output", bucket, *pods, *words)
    followed = qcnn(*submit, "--follow")
    assert re.search(r"^\[worker 0\] epoch 5/5: ", followed, re.MULTILINE), followed
    (name,) = re.findall(r"^TFJob (\S+) is created", followed, re.MULTILINE)
    assert f"TFJob {name} has already succeeded" in qcnn(*submit, "--follow")
    assert len(launchers.until(TFJOBS, bool)) == 1

    predicted = qcnn("predict", "--target", "tfjob", name)
    with local_copy(f"{bucket}/{name}/model") as folder:
        _, experiment = describe(folder)
        here = evaluate.evaluate(folder, data.load_or_generate(None, experiment))
    assert experiment == from_mapping(WORDS)
    (mse,) = _MSE.findall(predicted)
    assert float(mse) == pytest.approx(here.metrics["mse"], abs=1e-6)
    rows = re.findall(r"^ +(\d+) +(-?\d\.\d{4}) +(-?1) +(-?\d\.\d{4})$", predicted, re.MULTILINE)
    expected = zip(*here.columns.values(), strict=True)
    assert rows == [(str(row[0]), f"{row[1]:.4f}", str(row[2]), f"{row[3]:.4f}") for row in expected][:10]
    # Once more, the same Job answers.
    assert "has already succeeded" in (again := qcnn("predict", "--target", "tfjob", name))
    assert _MSE.findall(again) == [mse]

    shown = qcnn("delete", name, "--yes")
    assert {line.split()[0] for line in shown.splitlines()} >= {"TFJob", "Pod", "Job"}
    left = [found for resource in (TFJOBS, JOBS, PODS) for found in launchers.api.find(resource)]
    assert not [found for found in left if found["metadata"]["name"].startswith(launchers.identity.run[:10])]


def test_a_training_that_cannot_write_ends_in_one_line(launchers: Launchers, qcnn: Qcnn, tmp_path: Path) -> None:
    # Of what every namespace has, this alone can be mounted, and never be written.
    (pod := tmp_path / "pod.yaml").write_text("volumes: {/nowhere: {configMap: {name: kube-root-ca.crt}}}")
    given = ("--image", IMAGE, "--memory", "3Gi", "--cpu", "500m", "--pod", str(pod))
    words = (*given, "--output", "/nowhere", "--qubits", "4")
    following = qcnn.start("submit", "--target", "tfjob", "--name", launchers.identity.run, *words, "--follow")
    assert following.ends() == 1, following.output
    (error,) = [line for line in following.errors if "ended with exit code" in line]
    assert "Read-only file system" in error
    qcnn("delete", "--run", launchers.identity.run, "--yes")


def test_a_model_that_is_not_there_is_said_with_the_code_of_who_looked(qcnn: Qcnn, bucket: str) -> None:
    server = f"STORAGE_EMULATOR_HOST={os.environ['STORAGE_EMULATOR_HOST']}"
    pods = ("--image", IMAGE, "--cpu", "500m", "--memory", "3Gi", "--env", server)
    shown = qcnn("predict", "--target", "tfjob", "--model", f"{bucket}/none", *pods, code=2)
    assert shown.splitlines()[-1].startswith("error: predict 0 ended with exit code 2: ")
