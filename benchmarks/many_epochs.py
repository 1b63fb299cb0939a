"""Cost of an epoch after many: python -m benchmarks.many_epochs [--epochs 20000]. Prints Markdown.

Trains 4 qubits in one process with TensorBoard events and checkpoints. Each row is the mean of 100 epochs.
"""

import argparse
import tempfile
import time
from pathlib import Path

from tabulate import tabulate

from qcnn.process.library_loading import load_tensorflow, start_compiler

POSITIONS = (100, 1_000, 5_000, 20_000)
WINDOW = 100
FIELDS = {"qubits": 4, "rounds": 20, "strategy": "none", "workers": 1}


class _Observer:
    """Observer that measures the epochs before each position."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._began = 0.0, 0.0
        self.rows: list[list[object]] = []

    def __call__(self, kind: str, **values: float) -> None:
        if kind != "epoch":
            return
        now = time.perf_counter(), time.process_time()
        if values["epoch"] + WINDOW - 1 in POSITIONS:
            self._began = now
        elif values["epoch"] in POSITIONS:
            seconds, cpu_seconds = (end - start for end, start in zip(now, self._began, strict=True))
            epochs = WINDOW - 1
            newest = max((self._folder / "checkpoints").glob("epoch-*.npz"))
            kilobytes = newest.stat().st_size / 1e3, _resident_megabytes()
            self.rows.append([int(values["epoch"]), epochs / seconds, 1e3 * cpu_seconds / epochs, *kilobytes])


def _resident_megabytes() -> float:
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) / 1e3


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Measure the cost of an epoch after many. Prints Markdown.")
    parser.add_argument("--epochs", type=int, default=max(POSITIONS), help="Number of epochs.")
    epochs = parser.parse_args().epochs
    load_tensorflow()
    start_compiler()
    from qcnn import data
    from qcnn.experiment.parsing import from_mapping
    from qcnn.trainer.loop import train

    config = from_mapping({**FIELDS, "epochs": epochs, "options": {"profile_batches": ""}})
    with tempfile.TemporaryDirectory() as folder:
        observer = _Observer(Path(folder))
        train(config, data.generate(config), Path(folder), observer=observer)
    columns = ("epoch", "epochs per second", "CPU ms per epoch", "checkpoint, kB", "memory, MB")
    print(tabulate(observer.rows, columns, tablefmt="github", floatfmt=("", ".0f", ".1f", ".1f", ".0f")))


if __name__ == "__main__":
    main()
