"""Seconds of a training step against qubits and batch: python -m benchmarks.scaling. Draws the plot of the documents.

Each point is a process of its own: the median of a step of at least 5 epochs, at batch 32 unless another one is given.
"""

import sys
from pathlib import Path

from matplotlib import rc_context
from matplotlib.figure import Figure
from tabulate import tabulate

from benchmarks.simulators import Measured, measure

BATCH = 32
LONG_RING = 23
LINES: dict[str, tuple[str, str, tuple[int, ...]]] = {
    "hybrid, lightcone": ("hybrid", "lightcone", (8, 12, 16, 23, 32, 64, 128, 256, 512, 1024)),
    "hybrid, statevector": ("hybrid", "statevector", (8, 10, 12, 14, 16, 18)),
    "deep, statevector": ("deep", "statevector", (8, 10, 12, 14, 16, 18)),
}
BATCHES = (32, 128, 512, 2048, 8192, 32768)
_OUTPUT = Path(__file__).parents[1] / "docs" / "images" / "scaling.svg"


def milliseconds(model: str, qubits: int, simulator: str, batch: int = BATCH) -> float:
    """Measure a step."""
    found = measure("ours", model, str(qubits), "--simulator", simulator, "--batch", str(batch))
    if not isinstance(found, Measured):
        sys.exit(f"{model} with {qubits} qubits: {found}")
    return 1e3 * found.step


def plot(by_qubits: dict[str, list[tuple[int, float]]], by_batch: list[tuple[int, float]]) -> Figure:
    """Draw both, on logarithmic axes."""
    figure = Figure(figsize=(9, 3.4), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    for name, points in by_qubits.items():
        left.plot(*zip(*points, strict=True), marker="o", markersize=3, label=name)
    right.plot(*zip(*by_batch, strict=True), marker="o", markersize=3)
    left.set(xlabel="qubits, at batch 32", ylabel="ms a training step")
    right.set(xlabel=f"batch, at {LONG_RING} qubits")
    left.legend(fontsize="small")
    for axes in (left, right):
        axes.set(xscale="log", yscale="log")
        axes.grid(alpha=0.3)
    return figure


def main() -> None:
    """Measure, print the tables and draw the plot."""
    by_qubits = {
        name: [(n, milliseconds(model, n, simulator)) for n in qubits]
        for name, (model, simulator, qubits) in LINES.items()
    }
    by_batch = [(batch, milliseconds("hybrid", LONG_RING, "lightcone", batch)) for batch in BATCHES]
    for name, points in (*by_qubits.items(), (f"hybrid, lightcone, {LONG_RING} qubits, by batch", by_batch)):
        cells = [[f"{value:.3g}" for _, value in points]]
        print(f"{name}, ms a step:\n\n{tabulate(cells, [str(n) for n, _ in points], tablefmt='github')}\n")
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "qcnn"}):
        plot(by_qubits, by_batch).savefig(_OUTPUT, metadata={"Date": None})
    print(f"drawn: {_OUTPUT.name}")


if __name__ == "__main__":
    main()
