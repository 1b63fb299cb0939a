"""Custom data and a custom circuit on the cluster: training and prediction."""

import os
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from qcnn.components.resources import IMAGE
from qcnn.results.model_folder import describe
from qcnn.results.predictor import load_predictor
from qcnn.storage.copies import local_copy, local_file, new_file_copy
from tests.cluster.launchers import Launchers, every_engine
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

# Rows enter gates, in each layer again.
REUPLOADING = """OPENQASM 3.0;
include "stdgates.inc";
input float[64] x0;
input float[64] x1;
input float[64] x2;
input float[64] turn;
input float[64] scale;
qubit[3] q;
bit[1] c;
rx(x0) q[0];
rx(x1) q[1];
rx(x2) q[2];
cx q[0], q[1];
ry(turn) q[1];
cx q[1], q[2];
rz(scale*x0) q[2];
rx(x0*x1) q[2];
c[0] = measure q[2];
"""


def table(rows: int, seed: int) -> pd.DataFrame:
    random = np.random.default_rng(seed)
    data = pd.DataFrame(random.normal(size=(rows, 3)), columns=["a", "b", "c"])
    data["label"] = np.where(data["a"] * data["b"] > 0, 1, -1)
    return data


@every_engine
@pytest.mark.parametrize(
    ("content", "options"),
    [
        (CIRCUIT, ("--encoding", "ry", "--qubits", "4")),
        (REUPLOADING, ("--encoding", "circuit", "--inputs", "x0,x1,x2")),
    ],
    ids=["rows as rotations", "rows in gates"],
)
def test_training_and_prediction_with_custom_data_and_circuit(
    launchers: Launchers, qcnn: Qcnn, bucket: str, tmp_path: Path, content: str, options: tuple[str, ...]
) -> None:
    server = f"STORAGE_EMULATOR_HOST={os.environ['STORAGE_EMULATOR_HOST']}"
    pods = ("--image", IMAGE, "--cpu", "200m", "--memory", "3Gi", "--env", server)
    for name, data in {"rows.csv": table(60, 1), "new.csv": table(30, 2).drop(columns="label")}.items():
        with new_file_copy(f"{bucket}/{name}") as path:
            data.to_csv(path, index=False)
    (circuit := tmp_path / "mine.qasm").write_text(content)
    fields = ("--data", f"{bucket}/rows.csv", "--model", str(circuit), *options)
    engine = launchers.engine
    submit = ("submit", "--target", engine.engine, "--name", launchers.identity.run, "--output", bucket, *pods)
    followed = qcnn(*submit, *fields, "--epochs", "3", "--follow")
    assert re.search(r"^\[worker 0\] epoch 3/3: ", followed, re.MULTILINE), followed
    (job,) = re.findall(rf"^{engine.name} (\S+) is created", followed, re.MULTILINE)

    qcnn("predict", "--target", engine.engine, job, "--data", f"{bucket}/new.csv", "--output", f"{bucket}/new.parquet")
    with local_copy(f"{bucket}/{job}/model") as folder, local_file(f"{bucket}/new.parquet") as path:
        _, experiment = describe(folder)
        predictor = load_predictor(folder)
        predicted = pd.read_parquet(path)
    assert experiment.model.startswith("mine.qasm#")
    assert experiment.options.max_samples == 60
    rows = table(30, 2)
    expected = predictor.predict(predictor.layout.inputs({name: rows[name].to_numpy() for name in ("a", "b", "c")}))
    assert predicted["prediction"].to_numpy() == pytest.approx(expected, abs=1e-6)

    qcnn("delete", job, "--yes")


def test_submit_with_local_data_file_is_config_error(qcnn: Qcnn, bucket: str, tmp_path: Path) -> None:
    table(20, 3).to_csv(path := tmp_path / "rows.csv", index=False)
    arguments = ("--data", str(path), "--encoding", "ry", "--qubits", "4", "--output", bucket, "--image", IMAGE)
    output = qcnn("submit", "--target", "tfjob", *arguments, code=2)
    assert output.splitlines()[-1].startswith("error: data: ")
