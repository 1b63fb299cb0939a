"""Parts of the first epoch: python -m benchmarks.first_epoch. Prints Markdown.

Each row is a new process that runs `qcnn.trainer.loop.train`. The first epoch is the time from the start of tracing to
the end of validation, without imports. CPU seconds are those of the whole process. Wall-clock seconds are fewer if a
second core is idle, because compilation uses both.
"""

import argparse
import dataclasses
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any
from unittest import mock

from tabulate import tabulate

from benchmarks.frameworks.launch import run_command
from benchmarks.startup_time.parts import record_tracing

EPOCHS = 8
_SAMPLES = 1000
# For `deep` on 16 qubits: a step takes a quarter of a second.
_FEW_SAMPLES = 80


@dataclasses.dataclass(frozen=True)
class Row:
    """A network and its simulator."""

    model: str
    qubits: int
    simulator: str

    @property
    def fields(self) -> dict[str, Any]:
        """Fields of the experiment."""
        samples = _FEW_SAMPLES if (self.model, self.qubits) == ("deep", 16) else _SAMPLES
        return {**dataclasses.asdict(self), "rounds": -(-samples // self.qubits)}


ROWS = (
    *(Row("hybrid", qubits, "lightcone") for qubits in (8, 16, 23, 24, 64, 256, 1024)),
    Row("hybrid", 8, "statevector"),
    *(Row("deep", qubits, "statevector") for qubits in (8, 12, 16)),
)


def measure(row: Row) -> dict[str, float]:
    """Train in a separate process, and return the values that `train_once` prints."""
    return run_command([sys.executable, "-m", "benchmarks.first_epoch", "--train", json.dumps(row.fields)])


def train_once(fields: dict[str, Any]) -> None:
    """Train, and print CPU seconds by part, seconds of later epochs and number of operations as JSON."""
    from qcnn.process.library_loading import load_tensorflow, start_compiler

    load_tensorflow()
    start_compiler()
    from qcnn import data
    from qcnn.experiment.parsing import from_mapping
    from qcnn.trainer.loop import train
    from qcnn.trainer.state import TrainingState

    epochs: list[tuple[float, float]] = []
    epoch = TrainingState.epoch

    def timed(training: Any, *arguments: Any) -> Any:
        start = time.process_time(), time.perf_counter()
        result = epoch(training, *arguments)
        epochs.append((time.process_time() - start[0], time.perf_counter() - start[1]))
        return result

    options = {"checkpoint_seconds": 5.0, "profile_batches": ""}
    config = from_mapping({"workers": 1, "strategy": "none", "epochs": EPOCHS, **fields, "options": options})
    with (
        tempfile.TemporaryDirectory() as folder,
        record_tracing() as programs,
        mock.patch.object(TrainingState, "epoch", timed),
    ):
        train(config, data.generate(config), Path(folder))
    later = statistics.median(cpu for cpu, _ in epochs[1:])
    traced = sum(seconds for seconds, _ in programs)
    print(
        json.dumps(
            {
                "operations": sum(_operations(program.graph.as_graph_def()) for _, program in programs),
                "tracing": traced,
                "compiling": epochs[0][0] - traced - later,
                "first": epochs[0][0],
                "wall_clock": epochs[0][1],
                "later": statistics.median(seconds for _, seconds in epochs[1:]),
            }
        )
    )


def _operations(graph: Any) -> int:
    return len(graph.node) + sum(len(inner.node_def) for inner in graph.library.function)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Measure the first epoch. Prints Markdown.")
    parser.add_argument("--train", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.train:
        train_once(json.loads(arguments.train))
        return
    rows = []
    for row in ROWS:
        measured = measure(row)
        seconds = (f"{measured[name]:.2f}" for name in ("tracing", "compiling", "first", "wall_clock"))
        name = f"{row.model} n = {row.qubits:,}, {row.simulator}"
        rows.append((name, f"{measured['operations']:,.0f}", *seconds, f"{measured['later']:.3g}"))
    columns = ("", "operations", "tracing", "compiling", "first epoch", "wall-clock", "later epoch")
    print(tabulate(rows, columns, tablefmt="github", disable_numparse=True))


if __name__ == "__main__":
    main()
