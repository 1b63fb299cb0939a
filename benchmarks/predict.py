"""Rows a second, and memory, of predictions for files: python -m benchmarks.predict [ROWS ...].

A trained network of 23 qubits; each measurement is a process of its own. Seconds are those of reading, predicting and
writing, after the model was loaded; on a busy machine those of the processor tell more than those of the clock.
"""

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from tabulate import tabulate

from qcnn import data
from qcnn.experiment_io import from_mapping
from qcnn.startup import load_tensorflow
from qcnn.tables import ENDINGS
from qcnn.tables.table import new_table

QUBITS = 23
# Of the repeats of the smaller file the median is shown.
ROWS, REPEATS = (10**6, 10**7), 3
_PIECE = 10**5


def make_model(folder: Path) -> None:
    """Train a network for a few epochs, and export it."""
    load_tensorflow()
    from qcnn.results import export
    from qcnn.trainer.loop import train

    config = from_mapping({"qubits": QUBITS, "rounds": 10, "epochs": 3, "strategy": "none", "workers": 1})
    train(config, data.generate(config), folder / "training")
    export.export(folder / "training", folder / "model")


def make_table(path: Path, rows: int) -> None:
    """Write excitations with their labels."""
    random = np.random.default_rng(0)
    with new_table(str(path)) as write:
        for _ in range(rows // _PIECE):
            angle = random.uniform(-np.pi, np.pi, _PIECE)
            label = data.label_of(angle.astype(np.float32))
            write({"qubit": random.integers(0, QUBITS, _PIECE), "angle": angle, "label": label})


def predict(model: Path, table: Path, output: Path) -> list[float]:
    """Return seconds by the clock and of the processor that predictions take, and the peak of memory in MB."""
    load_tensorflow()
    from qcnn.results.batch_prediction import predict_table
    from qcnn.results.export import load_predictor
    from qcnn.results.predictions import PredictionFiles
    from qcnn.tables.table import open_table

    predictor = load_predictor(model)
    clock, processor = time.perf_counter(), time.process_time()
    with open_table(str(table)) as opened:
        predict_table(predictor, opened, PredictionFiles(str(table), str(output)), lambda more: None)
    seconds = [time.perf_counter() - clock, time.process_time() - processor]
    return [*seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3]


def measure(folder: Path, ending: str, rows: int) -> list[object]:
    """Return format, rows, millions of rows a second by clock and processor, and MB of memory and of the file."""
    table = folder / f"data{ending}"
    make_table(table, rows)
    repeats = REPEATS if rows <= ROWS[0] else 1
    command = [sys.executable, "-m", "benchmarks.predict", "--one", str(folder / "model"), str(table)]
    found = [
        json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1])
        for _ in range(repeats)
    ]
    clock, processor, memory = map(statistics.median, zip(*found, strict=True))
    return [ending[1:], rows, rows / clock / 1e6, rows / processor / 1e6, memory, table.stat().st_size / 1e6]


def main() -> None:
    """Print a row for each format and number of rows."""
    parser = argparse.ArgumentParser()
    parser.add_argument("rows", nargs="*", type=int, default=ROWS)
    parser.add_argument("--one", nargs=2, type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.one:
        model, table = asked.one
        print(json.dumps(predict(model, table, table.with_stem("output"))))
        return
    header = ["format", "rows", "million rows/s", "million rows/s of processor", "peak memory, MB", "file, MB"]
    with tempfile.TemporaryDirectory() as name:
        make_model(Path(name))
        made = [measure(Path(name), ending, rows) for rows in asked.rows for ending in ENDINGS]
    print(tabulate(made, header, floatfmt=("", "", ".2f", ".2f", ".0f", ".0f")))


if __name__ == "__main__":
    main()
