"""Create the artifacts of this version in tests/golden/NAME: `python -m tests.golden.make NAME`.

Later versions must read these artifacts, so a folder is never changed. A new format gets a new folder.
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

from qcnn.data.samples import ROW
from qcnn.errors import ConfigError

GOLDEN = Path(__file__).parent
# Folder of the runs. Experiments and metadata contain absolute paths, which must not depend on the machine.
_WORK_FOLDER = Path("/tmp/golden")
# Maximum file size in bytes. The SavedModel of a noisy network is larger and is not copied.
_MAX_BYTES = 2**16
_RUN_FILES = (
    *("run.json", "generate-data/executor_output.json", "generate-data/dataset/*", "train/training/**/*"),
    *("export-weights/executor_output.json", "export-weights/model/**/*"),
    *("evaluate/executor_output.json", "evaluate/metrics", "evaluate/confusion", "evaluate/predictions/*"),
)
_STUDY_FILES = (
    *("study.json", "*/run.json", "*/train/training/history.csv", "*/train/training/checkpoints/epoch-000002.npz"),
    *("select-best/results.csv", "select-best/executor_output.json"),
)
_SMALL: dict[str, Any] = {"qubits": 4, "epochs": 3, "batch_size": 8, "workers": 1, "strategy": "none", "seed": 7}
# A checkpoint after each epoch.
_OPTIONS: dict[str, Any] = {"profile_batches": "", "checkpoint_seconds": 1e-9}
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
    """Create a folder.

    Raises:
        ConfigError: If it exists.
    """
    target = GOLDEN / name
    if target.exists():
        raise ConfigError(f"name: must be new, because golden files are never changed. Given: {name}")
    _WORK_FOLDER.mkdir()
    try:
        _make(target)
    finally:
        shutil.rmtree(_WORK_FOLDER)


def _make(target: Path) -> None:
    (_WORK_FOLDER / "circuit.qasm").write_text(_CIRCUIT)
    _write_rows(_WORK_FOLDER / "rows.csv")
    for run, words in _RUNS.items():
        run_folder = _run_command("run", words)
        _write_inputs(run_folder / "evaluate" / "predictions" / "predictions.csv", _WORK_FOLDER / "inputs.csv")
        _qcnn("predict", str(run_folder), "--data", "inputs.csv", "--output", "predicted.csv")
        _copy(run_folder, target / run, _RUN_FILES)
        for table in ("inputs.csv", "predicted.csv"):
            shutil.copy(_WORK_FOLDER / table, target / run)
    run_folder = _run_command("study", {**_RUNS["excitations"], "epochs": 2}, "--grid", "learning_rate=0.01,0.1")
    _copy(run_folder, target / "study", _STUDY_FILES)


def _run_command(command: str, words: Mapping[str, Any], *flags: str) -> Path:
    """Run a command with an experiment and return the folder that it creates."""
    (_WORK_FOLDER / "words.yaml").write_text(json.dumps(words))
    _qcnn(command, "--runs", "runs", "--config", "words.yaml", *flags)
    return max((_WORK_FOLDER / "runs").iterdir(), key=lambda run_folder: run_folder.stat().st_ctime_ns)


def _qcnn(*words: str) -> None:
    subprocess.run([sys.executable, "-m", "qcnn.cli", *words], cwd=_WORK_FOLDER, check=True)


def _write_rows(path: Path) -> None:
    """Write 40 points of a plane, labeled by the side of a line."""
    points = np.random.default_rng(7).uniform(-1, 1, (40, 2))
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["x", "y", "label"])
        writer.writerows((x, y, 1 if x + y > 0 else -1) for x, y in points.tolist())


def _write_inputs(predictions: Path, path: Path) -> None:
    """Write the samples of a prediction table without row numbers, labels and predictions."""
    with predictions.open(newline="") as file, path.open("w", newline="") as written:
        header, *rows = csv.reader(file)
        first = header.index(ROW) + 1 if ROW in header else 0
        csv.writer(written).writerows(row[first:-2] for row in (header, *rows))


def _copy(run_folder: Path, target: Path, patterns: tuple[str, ...]) -> None:
    for path in _files(run_folder, patterns):
        copy = target / path.relative_to(run_folder)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)


def _files(folder: Path, patterns: tuple[str, ...]) -> Iterator[Path]:
    files = (path for pattern in patterns for path in folder.glob(pattern) if path.is_file())
    return (path for path in files if path.stat().st_size <= _MAX_BYTES)


if __name__ == "__main__":
    main(*sys.argv[1:])
