"""The simulators beside what a user would take instead: python -m benchmarks.simulators [--rows hybrid-8,deep-8].

Prints Markdown. Each process has the machine to itself and trains the same network from the same weights on the
same batches; a step is forward, gradient and Adam. `make peers` makes the peers' environment.
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
# Seconds of a process, its compilation and all its steps included.
TIME_LIMIT = 1800
PUBLISHED = (
    "TensorFlow Quantum at 24 qubits cannot be run here; its tutorial's published figure is 23 qubits, 5 minutes an "
    "epoch of 1,000 samples on 32 nodes with 512 vCPUs."
)
# Left out: the light cone by single gates takes as long for a step and at least twice as long to compile.
PEERS = {
    "TFQ": ("tutorial",),
    "tensorcircuit": ("tensorcircuit",),
    "tensorcircuit, blocks": ("tensorcircuit", "--blocks"),
    "tensorcircuit, light cone": ("tensorcircuit", "--blocks", "--lightcone"),
    "lightning": ("lightning",),
}
_TENSORCIRCUIT = ("tensorcircuit", "tensorcircuit, blocks", "tensorcircuit, light cone")


@dataclasses.dataclass(frozen=True)
class Row:
    """A network, the simulator of ours, the peers that can run it, and the ratios that must be reached."""

    model: str
    qubits: int
    simulator: str
    peers: tuple[str, ...] = tuple(PEERS)
    tfq_floor: float | None = None
    tensorcircuit_floor: float | None = None


_FORCED = ("TFQ", "tensorcircuit", "tensorcircuit, blocks", "lightning")
ROWS = {
    "hybrid-8": Row("hybrid", 8, "lightcone", tfq_floor=20, tensorcircuit_floor=1),
    "hybrid-12": Row("hybrid", 12, "lightcone", tfq_floor=60, tensorcircuit_floor=6),
    "hybrid-16": Row("hybrid", 16, "lightcone", tfq_floor=400, tensorcircuit_floor=8),
    # With whole states of 24 qubits one step takes minutes, or more memory than there is.
    "hybrid-24": Row("hybrid", 24, "lightcone", ("tensorcircuit, light cone",), tensorcircuit_floor=10),
    "statevector-12": Row("hybrid", 12, "statevector", _FORCED, 6, 1),
    "statevector-16": Row("hybrid", 16, "statevector", _FORCED, 2.5, 1),
    "deep-8": Row("deep", 8, "statevector", tfq_floor=10, tensorcircuit_floor=1),
    "deep-16": Row("deep", 16, "statevector", tfq_floor=2.5, tensorcircuit_floor=1),
}


@dataclasses.dataclass(frozen=True)
class Measured:
    """What one process took, in seconds, and the losses of its first steps."""

    first: float
    step: float
    losses: tuple[float, ...]

    @property
    def training(self) -> float:
        """Seconds to the end of a training of 1,000 samples."""
        return self.first + EPOCHS * EPOCH_STEPS * self.step


# What every process of a row took, or why that is not known.
Results: TypeAlias = dict[str, Measured | str]


# Rows that differ only in our simulator share the peers' processes.
@functools.cache
def measure(module: str, *arguments: str) -> Measured | str:
    """Run a process; if it fails return why, so that the others are still measured."""
    print(f"measuring {module} {' '.join(arguments)}", file=sys.stderr, flush=True)
    try:
        reported = launch(module, *arguments, timeout=TIME_LIMIT)
    except subprocess.TimeoutExpired:
        return f"> {TIME_LIMIT / 60:g} min"
    except subprocess.CalledProcessError as error:
        return f"failed ({error.returncode})"
    return Measured(reported["compile_seconds"], reported["median_step_seconds"], tuple(reported["losses"]))


def measure_row(row: Row, simulator: str, batch: int, repeats: int) -> Results:
    """Measure ours and every peer of a row, one after the other."""
    network = (row.model, str(row.qubits), "--batch", str(batch), "--repeats", str(repeats))
    ours = measure("ours", *network, "--simulator", simulator)
    return {"ours": ours, **{name: measure(PEERS[name][0], *network, *PEERS[name][1:]) for name in row.peers}}


def ratio(results: Results, peers: tuple[str, ...], floor: float | None) -> str:
    """Return how many times as long the fastest of these peers takes for a step, and the floor."""
    ours = results["ours"]
    steps = [found.step for name in peers if isinstance(found := results.get(name), Measured)]
    if not steps or not isinstance(ours, Measured):
        return ""
    return f"{min(steps) / ours.step:.3g} x" + (f" (floor {floor:g})" if floor else "")


def drift(results: Results) -> float:
    """Return the largest difference between the losses of two processes."""
    losses = [found.losses for found in results.values() if isinstance(found, Measured)]
    return max((max(step) - min(step) for step in zip(*losses, strict=False)), default=0.0)


def table(results: dict[str, Results], attribute: str, scale: float) -> str:
    """Return one row a network and one column a process."""
    names = ["ours", *PEERS]

    def cell(found: Measured | str) -> str:
        if isinstance(found, str):
            return found
        value = scale * getattr(found, attribute)
        return f"{value:.3g}" if value < 100 else f"{value:,.0f}"

    rows = [[row, *(cell(measured.get(name, "")) for name in names)] for row, measured in results.items()]
    return tabulate(rows, ["", *names], tablefmt="github", disable_numparse=True)


def main() -> None:
    """Print the tables of step, compilation and whole training, and the ratios."""
    parser = argparse.ArgumentParser(description="Compare training steps; prints Markdown.")
    parser.add_argument("--rows", default=",".join(ROWS), help="rows to measure (default: all)")
    parser.add_argument("--simulator", help="of ours, in place of each row's")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--repeats", type=int, default=5, help="steps of a peer, and epochs of ours, at least")
    arguments = parser.parse_args()
    unknown = set(arguments.rows.split(",")) - set(ROWS)
    if unknown:
        parser.error(f"--rows: one or more of {','.join(ROWS)}. Given: {','.join(sorted(unknown))}")
    results, ratios = {}, []
    for name in arguments.rows.split(","):
        row = ROWS[name]
        simulator = arguments.simulator or row.simulator
        title = f"{row.model} n = {row.qubits}, {simulator}"
        measured = results[title] = measure_row(row, simulator, arguments.batch, arguments.repeats)
        theirs = (("TFQ",), row.tfq_floor), (_TENSORCIRCUIT, row.tensorcircuit_floor), (("lightning",), None)
        ratios.append([title, *(ratio(measured, peers, floor) for peers, floor in theirs)])
    print(f"Training step at batch {arguments.batch} on {os.cpu_count()} cores, milliseconds (median):\n")
    print(table(results, "step", 1e3))
    print("\nHow many times as long a step of theirs takes; of tensorcircuit-ng, the best:\n")
    print(tabulate(ratios, ["", "TFQ", "tensorcircuit-ng", "lightning"], tablefmt="github"))
    print("\nTo the end of the first step, compiling included, seconds:\n")
    print(table(results, "first", 1))
    print(f"\nTo the end of a training, seconds: that and {EPOCHS} epochs x {EPOCH_STEPS} steps (1,000 samples):\n")
    print(table(results, "training", 1))
    print(f"\n{PUBLISHED}\nLosses of the first steps differ by at most {max(map(drift, results.values())):.0e}.")


if __name__ == "__main__":
    main()
