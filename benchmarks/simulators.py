"""Step time of the simulators and of other frameworks: python -m benchmarks.simulators.

Prints Markdown. `--rows hybrid-8,deep-8` selects networks. Only one process runs at a time. All processes train the
same network from the same weights on the same batches. A step is forward pass, gradient and Adam update.
`make frameworks` installs the other frameworks.
"""

import argparse
import dataclasses
import functools
import os
import subprocess
import sys
from typing import TypeAlias

from tabulate import tabulate

from benchmarks.frameworks.launch import launch
from benchmarks.frameworks.network import EPOCH_STEPS

EPOCHS = 50
# Time limit of a process, in seconds.
TIME_LIMIT = 1800
PUBLISHED = (
    "TensorFlow Quantum was not measured at 24 qubits. Its tutorial reports 5 minutes per epoch of 1,000 samples with "
    "23 qubits, on 32 nodes with 512 vCPUs."
)
# Without --lightcone alone: its steps are not faster than with --blocks, and compilation takes at least twice as long.
FRAMEWORKS = {
    "TFQ": ("tutorial",),
    "tensorcircuit": ("tensorcircuit",),
    "tensorcircuit, blocks": ("tensorcircuit", "--blocks"),
    "tensorcircuit, light cone": ("tensorcircuit", "--blocks", "--lightcone"),
    "lightning": ("lightning",),
}
_TENSORCIRCUIT = ("tensorcircuit", "tensorcircuit, blocks", "tensorcircuit, light cone")


@dataclasses.dataclass(frozen=True)
class Row:
    """Network, simulator of qcnn, frameworks that can run the network, and minimum speedups."""

    model: str
    qubits: int
    simulator: str
    frameworks: tuple[str, ...] = tuple(FRAMEWORKS)
    min_tfq_speedup: float | None = None
    min_tensorcircuit_speedup: float | None = None


_WITHOUT_LIGHTCONE = ("TFQ", "tensorcircuit", "tensorcircuit, blocks", "lightning")
ROWS = {
    "hybrid-8": Row("hybrid", 8, "lightcone", min_tfq_speedup=20, min_tensorcircuit_speedup=1),
    "hybrid-12": Row("hybrid", 12, "lightcone", min_tfq_speedup=60, min_tensorcircuit_speedup=6),
    "hybrid-16": Row("hybrid", 16, "lightcone", min_tfq_speedup=400, min_tensorcircuit_speedup=8),
    # With state vectors of 24 qubits, a step takes minutes or exceeds the memory.
    "hybrid-24": Row("hybrid", 24, "lightcone", ("tensorcircuit, light cone",), min_tensorcircuit_speedup=10),
    "statevector-12": Row("hybrid", 12, "statevector", _WITHOUT_LIGHTCONE, 6, 1),
    "statevector-16": Row("hybrid", 16, "statevector", _WITHOUT_LIGHTCONE, 2.5, 1),
    "deep-8": Row("deep", 8, "statevector_cpu", min_tfq_speedup=10, min_tensorcircuit_speedup=1),
    "deep-16": Row("deep", 16, "statevector_cpu", min_tfq_speedup=10, min_tensorcircuit_speedup=4),
    "statevector-deep-16": Row("deep", 16, "statevector", min_tfq_speedup=2.5, min_tensorcircuit_speedup=1),
}


@dataclasses.dataclass(frozen=True)
class Measured:
    """Seconds to the end of the first step, seconds per later step, and losses of the first steps."""

    first: float
    step: float
    losses: tuple[float, ...]

    @property
    def training(self) -> float:
        """Seconds of a training run on 1,000 samples."""
        return self.first + EPOCHS * EPOCH_STEPS * self.step


# Result of each process of a row, or the reason why it is missing.
Results: TypeAlias = dict[str, Measured | str]


# Rows that differ only in the simulator of qcnn share the results of the other frameworks.
@functools.cache
def measure(module: str, *arguments: str) -> Measured | str:
    """Run the process of a framework, and return its result, or the reason if it fails."""
    print(f"measuring {module} {' '.join(arguments)}", file=sys.stderr, flush=True)
    try:
        result = launch(module, *arguments, timeout=TIME_LIMIT)
    except subprocess.TimeoutExpired:
        return f"> {TIME_LIMIT / 60:g} min"
    except subprocess.CalledProcessError as error:
        return f"failed ({error.returncode})"
    return Measured(result["compile_seconds"], result["median_step_seconds"], tuple(result["losses"]))


def measure_row(row: Row, simulator: str, batch: int, repeats: int) -> Results:
    """Measure qcnn and all other frameworks of a row, one after another.

    Args:
        row: Network and frameworks.
        simulator: Simulator of qcnn.
        batch: Batch size.
        repeats: Minimum number of steps of a framework, and of epochs of qcnn.
    """
    network = (row.model, str(row.qubits), "--batch", str(batch), "--repeats", str(repeats))
    own = measure("qcnn_step", *network, "--simulator", simulator)
    return {
        "qcnn": own,
        **{name: measure(FRAMEWORKS[name][0], *network, *FRAMEWORKS[name][1:]) for name in row.frameworks},
    }


def speedup(results: Results, frameworks: tuple[str, ...], minimum: float | None) -> str:
    """Return the speedup of a step over the fastest of the given frameworks, and the minimum speedup.

    Args:
        results: Results of a row.
        frameworks: Names of the frameworks.
        minimum: Minimum speedup, if there is one.
    """
    own = results["qcnn"]
    steps = [result.step for name in frameworks if isinstance(result := results.get(name), Measured)]
    if not steps or not isinstance(own, Measured):
        return ""
    return f"{min(steps) / own.step:.3g} x" + (f" (minimum {minimum:g})" if minimum else "")


def loss_difference(results: Results) -> float:
    """Return the largest difference between the losses of two processes."""
    losses = [result.losses for result in results.values() if isinstance(result, Measured)]
    return max((max(step) - min(step) for step in zip(*losses, strict=False)), default=0.0)


def table(results: dict[str, Results], attribute: str, scale: float) -> str:
    """Return a table with a row per network and a column per framework.

    Args:
        results: Results by title of the row.
        attribute: Attribute of `Measured` to print.
        scale: Factor of its values.
    """
    names = ["qcnn", *FRAMEWORKS]

    def cell(result: Measured | str) -> str:
        if isinstance(result, str):
            return result
        value = scale * getattr(result, attribute)
        return f"{value:.3g}" if value < 100 else f"{value:,.0f}"

    rows = [[row, *(cell(measured.get(name, "")) for name in names)] for row, measured in results.items()]
    return tabulate(rows, ["", *names], tablefmt="github", disable_numparse=True)


def main() -> None:
    """Print the tables of step time, compilation time, training time and speedups."""
    parser = argparse.ArgumentParser(description="Compare training steps. Prints Markdown.")
    parser.add_argument("--rows", default=",".join(ROWS), help="Rows to measure, separated by commas. Default: all.")
    parser.add_argument("--simulator", help="Simulator of qcnn. Default: that of the row.")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument(
        "--repeats", type=int, default=5, help="Minimum number of steps of a framework, and of epochs of qcnn."
    )
    arguments = parser.parse_args()
    unknown = set(arguments.rows.split(",")) - set(ROWS)
    if unknown:
        parser.error(f"--rows: must be one or more of {','.join(ROWS)}. Given: {','.join(sorted(unknown))}")
    results, speedups = {}, []
    for name in arguments.rows.split(","):
        row = ROWS[name]
        simulator = arguments.simulator or row.simulator
        title = f"{row.model} n = {row.qubits}, {simulator}"
        measured = results[title] = measure_row(row, simulator, arguments.batch, arguments.repeats)
        groups = (
            (("TFQ",), row.min_tfq_speedup),
            (_TENSORCIRCUIT, row.min_tensorcircuit_speedup),
            (("lightning",), None),
        )
        speedups.append([title, *(speedup(measured, frameworks, minimum) for frameworks, minimum in groups)])
    print(f"Training step at batch {arguments.batch} on {os.cpu_count()} cores, milliseconds (median):\n")
    print(table(results, "step", 1e3))
    print("\nSpeedup of a step; for tensorcircuit-ng, over its fastest variant:\n")
    print(tabulate(speedups, ["", "TFQ", "tensorcircuit-ng", "lightning"], tablefmt="github"))
    print("\nSeconds to the end of the first step, compilation included:\n")
    print(table(results, "first", 1))
    print(f"\nSeconds of a training run: first step, and {EPOCHS} epochs of {EPOCH_STEPS} steps (1,000 samples):\n")
    print(table(results, "training", 1))
    print(
        f"\n{PUBLISHED}\nLosses of the first steps differ by at most {max(map(loss_difference, results.values())):.0e}."
    )


if __name__ == "__main__":
    main()
