"""Make tests/golden/NAME, what this tree writes: `python -m tests.golden.make NAME`.

Later trees read it, so it is never made again; what is written differently one day gets a folder of its own.
"""

import csv
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from qcnn.errors import ConfigError

GOLDEN = Path(__file__).parent
# Where it is made: experiments and metadata name files by their whole paths, which say nothing of a machine so.
_PLACE = Path("/tmp/golden")
# In bytes: the graph of a network under noise, for others to serve, is larger, and is left out.
_LARGEST = 2**16
_KEPT = (
    *("run.json", "generate-data/executor_output.json", "generate-data/dataset/*", "train/training/**/*"),
    *("export-weights/executor_output.json", "export-weights/model/**/*"),
    *("evaluate/executor_output.json", "evaluate/metrics", "evaluate/confusion", "evaluate/predictions/*"),
)
_KEPT_OF_STUDY = (
    *("study.json", "*/run.json", "*/train/training/history.csv", "*/train/training/checkpoints/epoch-000002.npz"),
    "select-best/results.csv",
)
_SMALL: dict[str, Any] = {"qubits": 4, "epochs": 3, "batch_size": 8, "workers": 1, "strategy": "none", "seed": 7}
_OPTIONS: dict[str, Any] = {"profile_batches": ""}
_RUNS: dict[str, dict[str, Any]] = {
    "excitations": {**_SMALL, "rounds": 10, "options": {**_OPTIONS, "export_checkpoint": "both"}},
    "rows": {
        **{**_SMALL, "data": "rows.csv", "encoding": "ry", "model": "circuit.qasm"},
        "options": {**_OPTIONS, "noise": {"depolarizing": {"one": 0.001, "two": 0.01}, "readout": 0.02}},
    },
}
_CIRCUIT = """OPENQASM 3.0;
include "stdgates.inc";
input float[64] a;
input float[64] b;
input float[64] c;
qubit[4] q;
bit[2] m;
ry(a) q[0];
ry(b) q[1];
rx(c) q[2];
cx q[0], q[1];
cx q[2], q[3];
cx q[1], q[2];
ry(a) q[2];
ry(b) q[3];
m[0] = measure q[2];
m[1] = measure q[3];
"""


def main(name: str) -> None:
    """Make a folder of this name.

    Raises:
        ConfigError: there is one.
    """
    target = GOLDEN / name
    if target.exists():
        raise ConfigError(f"name: must be new, as what is golden is never changed. Given: {name}")
    _PLACE.mkdir()
    try:
        _make(target)
    finally:
        shutil.rmtree(_PLACE)


def _make(target: Path) -> None:
    (_PLACE / "circuit.qasm").write_text(_CIRCUIT)
    _write_rows(_PLACE / "rows.csv")
    for run, words in _RUNS.items():
        made = _type("run", words)
        _write_inputs(made / "evaluate" / "predictions" / "predictions.csv", _PLACE / "inputs.csv")
        _qcnn("predict", str(made), "--data", "inputs.csv", "--output", "predicted.csv")
        _copy(made, target / run, _KEPT)
        for table in ("inputs.csv", "predicted.csv"):
            shutil.copy(_PLACE / table, target / run)
    made = _type("study", {**_RUNS["excitations"], "epochs": 2}, "--grid", "learning_rate=0.01,0.1")
    _copy(made, target / "study", _KEPT_OF_STUDY)


def _type(command: str, words: Mapping[str, Any], *flags: str) -> Path:
    """Type a command with an experiment; return the folder that it makes."""
    (_PLACE / "words.yaml").write_text(json.dumps(words))
    _qcnn(command, "--runs", "runs", "--config", "words.yaml", *flags)
    return max((_PLACE / "runs").iterdir(), key=lambda made: made.stat().st_ctime_ns)


def _qcnn(*words: str) -> None:
    subprocess.run([sys.executable, "-m", "qcnn.cli", *words], cwd=_PLACE, check=True)


def _write_rows(path: Path) -> None:
    """Write 40 points of the plane and on which side of a line each is."""
    points = np.random.default_rng(7).uniform(-1, 1, (40, 2))
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["x", "y", "label"])
        writer.writerows((x, y, 1 if x + y > 0 else -1) for x, y in points.tolist())


def _write_inputs(predictions: Path, path: Path) -> None:
    """Write the samples of a table of predictions, without what is known of them."""
    with predictions.open(newline="") as file, path.open("w", newline="") as written:
        csv.writer(written).writerows(row[:-2] for row in csv.reader(file))


def _copy(made: Path, target: Path, patterns: tuple[str, ...]) -> None:
    for path in _files(made, patterns):
        copy = target / path.relative_to(made)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)


def _files(folder: Path, patterns: tuple[str, ...]) -> Iterator[Path]:
    files = (path for pattern in patterns for path in folder.glob(pattern) if path.is_file())
    return (path for path in files if path.stat().st_size <= _LARGEST)


if __name__ == "__main__":
    main(*sys.argv[1:])
