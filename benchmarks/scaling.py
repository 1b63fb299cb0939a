"""Step time by number of qubits and batch size: python -m benchmarks.scaling.

Plots docs/images/scaling.svg. Each point is measured in a separate process: the median step time of at least 5 epochs,
at batch 32 or a given batch.
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
    """Measure the milliseconds of a training step.

    Args:
        model: "hybrid" or "deep".
        qubits: Number of qubits.
        simulator: Name of the simulator.
        batch: Batch size.
    """
    measured = measure("qcnn_step", model, str(qubits), "--simulator", simulator, "--batch", str(batch))
    if not isinstance(measured, Measured):
        sys.exit(f"{model} with {qubits} qubits: {measured}")
    return 1e3 * measured.step


def plot(by_qubits: dict[str, list[tuple[int, float]]], by_batch: list[tuple[int, float]]) -> Figure:
    """Plot milliseconds per step on logarithmic axes.

    Args:
        by_qubits: Points (qubits, milliseconds) by name of the curve.
        by_batch: Points (batch size, milliseconds).
    """
    figure = Figure(figsize=(9, 3.4), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    for name, points in by_qubits.items():
        left.plot(*zip(*points, strict=True), marker="o", markersize=3, label=name)
    right.plot(*zip(*by_batch, strict=True), marker="o", markersize=3)
    left.set(xlabel="qubits, at batch 32", ylabel="ms per training step")
    right.set(xlabel=f"batch, at {LONG_RING} qubits")
    left.legend(fontsize="small")
    for axes in (left, right):
        axes.set(xscale="log", yscale="log")
        axes.grid(alpha=0.3)
    return figure


def main() -> None:
    """Measure, print the tables and save the plot."""
    by_qubits = {
        name: [(n, milliseconds(model, n, simulator)) for n in qubits]
        for name, (model, simulator, qubits) in LINES.items()
    }
    by_batch = [(batch, milliseconds("hybrid", LONG_RING, "lightcone", batch)) for batch in BATCHES]
    for name, points in (*by_qubits.items(), (f"hybrid, lightcone, {LONG_RING} qubits, by batch", by_batch)):
        cells = [[f"{value:.3g}" for _, value in points]]
        print(f"{name}, ms per step:\n\n{tabulate(cells, [str(n) for n, _ in points], tablefmt='github')}\n")
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "qcnn"}):
        plot(by_qubits, by_batch).savefig(_OUTPUT, metadata={"Date": None})
    print(f"saved: {_OUTPUT.name}")


if __name__ == "__main__":
    main()
