"""A lab's own data and circuit on the cluster: rows of a bucket train a circuit's file, and new rows are predicted."""

import os
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from qcnn.components.resources import IMAGE
from qcnn.results.export import load_predictor
from qcnn.results.model_folder import describe
from qcnn.storage.copies import local_copy, local_file, new_file_copy
from tests.cluster.launchers import Launchers
from tests.cluster.programs import Qcnn

CIRCUIT = """OPENQASM 3.0;
include "stdgates.inc";
input float[64] turn;
input float[64] join;
qubit[4] q;
bit[2] c;
ry(turn) q[0];
crx(join) q[0], q[2];
crx(join) q[1], q[3];
c[0] = measure q[2];
c[1] = measure q[3];
"""


def table(rows: int, seed: int) -> pd.DataFrame:
    random = np.random.default_rng(seed)
    found = pd.DataFrame(random.normal(size=(rows, 3)), columns=["a", "b", "c"])
    found["label"] = np.where(found["a"] * found["b"] > 0, 1, -1)
    return found


def test_own_rows_train_an_own_circuit_and_new_rows_are_predicted(
    launchers: Launchers, qcnn: Qcnn, bucket: str, tmp_path: Path
) -> None:
    server = f"STORAGE_EMULATOR_HOST={os.environ['STORAGE_EMULATOR_HOST']}"
    pods = ("--image", IMAGE, "--cpu", "500m", "--memory", "3Gi", "--env", server)
    for name, found in {"rows.csv": table(60, 1), "new.csv": table(30, 2).drop(columns="label")}.items():
        with new_file_copy(f"{bucket}/{name}") as path:
            found.to_csv(path, index=False)
    (circuit := tmp_path / "mine.qasm").write_text(CIRCUIT)
    words = ("--data", f"{bucket}/rows.csv", "--encoding", "ry", "--model", str(circuit), "--qubits", "4")
    submit = ("submit", "--target", "tfjob", "--name", launchers.identity.run, "--output", bucket, *pods)
    followed = qcnn(*submit, *words, "--epochs", "3", "--follow")
    assert re.search(r"^\[worker 0\] epoch 3/3: ", followed, re.MULTILINE), followed
    (job,) = re.findall(r"^TFJob (\S+) is created", followed, re.MULTILINE)

    qcnn("predict", "--target", "tfjob", job, "--data", f"{bucket}/new.csv", "--output", f"{bucket}/new.parquet")
    with local_copy(f"{bucket}/{job}/model") as folder, local_file(f"{bucket}/new.parquet") as path:
        _, experiment = describe(folder)
        here = load_predictor(folder)
        predicted = pd.read_parquet(path)
    assert experiment.model.startswith("mine.qasm#")
    assert experiment.options.max_samples == 60
    rows = table(30, 2)
    expected = here.predict(here.layout.inputs({name: rows[name].to_numpy() for name in ("a", "b", "c")}))
    assert predicted["prediction"].to_numpy() == pytest.approx(expected, abs=1e-6)

    qcnn("delete", job, "--yes")


def test_a_file_of_this_machine_is_refused_before_anything_is_created(qcnn: Qcnn, bucket: str, tmp_path: Path) -> None:
    table(20, 3).to_csv(path := tmp_path / "rows.csv", index=False)
    words = ("--data", str(path), "--encoding", "ry", "--qubits", "4", "--output", bucket, "--image", IMAGE)
    refused = qcnn("submit", "--target", "tfjob", *words, code=2)
    assert refused.splitlines()[-1].startswith("error: data: ")
