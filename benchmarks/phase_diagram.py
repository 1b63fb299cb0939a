"""Phase diagram that a network predicts: python -m benchmarks.phase_diagram [--qubits 9].

Trains examples/cluster_ising.yaml with several seeds, and prints the accuracy over the diagram of each seed. Plots the
diagram of the seed of the example to docs/images/phase-diagram.svg. For comparison, the string order of the same ground
states is classified with the best threshold, which is the accuracy of an order parameter at this size.
"""

import argparse
from pathlib import Path

import numpy as np
from tabulate import tabulate

from benchmarks.held_out import train_and_evaluate
from qcnn.circuits.chains import chain_of
from qcnn.circuits.chains.cluster_ising import string_order
from qcnn.data import Samples
from qcnn.model.signs import signs_match
from qcnn.process.library_loading import load_tensorflow
from qcnn.results import plots
from qcnn.yaml_files import read_file

_ROOT = Path(__file__).parents[1]
_EXAMPLE = _ROOT / "examples" / "cluster_ising.yaml"
_OUTPUT = _ROOT / "docs" / "images" / "phase-diagram.svg"
SEEDS = range(5)
# Value of h2 between the antiferromagnet (below) and the paramagnet (above).
_BETWEEN = -0.6


def string_order_accuracy(samples: Samples) -> tuple[float, float]:
    """Return accuracy and threshold of the best classification by string order.

    The string is the longest one that excludes the ends of the chain.
    """
    qubits = len(samples.inputs["state"][0]).bit_length() - 1
    last = qubits - 2 if qubits % 2 else qubits - 3
    order = np.array([string_order(state, 1, last) for state in samples.inputs["state"]])
    return max((float(np.mean((order > at) == (samples.label > 0))), at) for at in np.linspace(0, 1, 101).tolist())


def main() -> None:
    """Print the table and save the diagram."""
    fields = read_file(_EXAMPLE)
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--qubits", type=int, default=fields["qubits"], help="Number of qubits.")
    qubits = parser.parse_args().qubits
    load_tensorflow()
    rows = []
    for seed in SEEDS:
        result = train_and_evaluate(fields, seed=seed, qubits=qubits)
        samples, predictions = result.samples, result.predictions
        correct, h2 = signs_match(samples.label, predictions, result.rounding), samples.known["h2"]
        accuracy, threshold = string_order_accuracy(samples)
        parts = [correct, correct[h2 > _BETWEEN], correct[h2 <= _BETWEEN]]
        rows.append(
            [
                seed,
                *(float(np.mean(part)) for part in parts),
                result.metrics["val_loss"],
                f"{accuracy:.3f} at {threshold:.2f}",
            ]
        )
        if seed == fields["seed"] and qubits == fields["qubits"]:
            figure = plots.phase_diagram(samples.known, predictions, chain_of("cluster_ising"))
            svg = plots.to_svg(figure, "Phase diagram")
            _OUTPUT.write_text(
                svg.replace(
                    "<svg ", '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" ', 1
                )
                + "\n"
            )
            print(f"saved: {_OUTPUT.name}, accuracy {np.mean(correct):.4f} on {len(samples)} samples")
    headers = ["seed", "accuracy", f"h2 > {_BETWEEN}", f"h2 <= {_BETWEEN}", "validation loss", "string order"]
    print(tabulate(rows, headers, "github", floatfmt=".3f"))


if __name__ == "__main__":
    main()
