"""Step of a Keras model with a circuit, of qcnn and other frameworks: python -m benchmarks.layer.

Prints Markdown. `--rows layers-8` selects rows. The circuit has one feature per qubit and 6 layers, and is before two
Dense layers. A step is compiled, without `fit`: forward pass, gradient and Adam update of 32 samples. The processes of
the frameworks alternate, and the median of all rounds counts. `make frameworks` and `make setup EXTRA=tfq` install the
other frameworks.
"""

import argparse
import os
import statistics

from tabulate import tabulate

from benchmarks.own_data import TIME_LIMIT, Measured, measure

ROWS = [f"layers-{qubits}" for qubits in (4, 8, 12)]
OWN = "qcnn.QuantumLayer"
# Module of each framework.
FRAMEWORKS = {
    OWN: "keras_layer",
    "TFQ PQC": "tutorial",
    "PennyLane lightning": "lightning",
    "PennyLane default.qubit, JAX": "pennylane_jax",
}


def row(name: str, rounds: int) -> tuple[list[str], list[str], float]:
    """Measure a row, and return its cells of both tables and the largest difference between losses.

    Args:
        name: Model and qubits, joined by a hyphen.
        rounds: Number of processes of each framework.
    """
    model, qubits = name.split("-")
    results: dict[str, list[Measured]] = {framework: [] for framework in FRAMEWORKS}
    for _ in range(rounds):
        for framework, module in FRAMEWORKS.items():
            if result := measure(module, model, qubits, "--features"):
                results[framework].append(result)
    steps = {framework: statistics.median(each.step for each in done) for framework, done in results.items() if done}
    losses = [done[0].losses for done in results.values() if done]
    milliseconds, ratios = [f"{model} {qubits}"], [f"{model} {qubits}"]
    for framework in FRAMEWORKS:
        step = steps.get(framework)
        milliseconds.append(f"{1e3 * step:.3g}" if step else f"none in {TIME_LIMIT / 60:g} min")
        ratios.append(f"{step / steps[OWN]:.3g} x" if step and OWN in steps else "")
    return milliseconds, ratios, max(max(each) - min(each) for each in zip(*losses, strict=False))


def main() -> None:
    """Print milliseconds per step and ratios."""
    parser = argparse.ArgumentParser(description="Compare Keras models with a circuit. Prints Markdown.")
    parser.add_argument("--rows", default=",".join(ROWS), help="Rows to measure, separated by commas. Default: all.")
    parser.add_argument("--rounds", type=int, default=3, help="Processes of each framework. Default: 3.")
    arguments = parser.parse_args()
    if unknown := set(arguments.rows.split(",")) - set(ROWS):
        parser.error(f"--rows: must be one or more of {','.join(ROWS)}. Given: {','.join(sorted(unknown))}")
    steps, ratios, differences = zip(*(row(name, arguments.rounds) for name in arguments.rows.split(",")), strict=True)
    print(f"Milliseconds per step of 32 samples, median of {arguments.rounds} processes, on {os.cpu_count()} cores:\n")
    print(tabulate(steps, ["network", *FRAMEWORKS], tablefmt="github", disable_numparse=True))
    print("\nRatio to qcnn.QuantumLayer:\n")
    print(tabulate(ratios, ["network", *FRAMEWORKS], tablefmt="github", disable_numparse=True))
    print(f"\nLosses of the first steps differ by at most {max(differences):.0e}.")


if __name__ == "__main__":
    main()
