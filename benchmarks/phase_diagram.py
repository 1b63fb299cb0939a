"""The phase diagram that a network predicts: python -m benchmarks.phase_diagram [--qubits 9].

Trains examples/cluster_ising.yaml with several seeds, prints which share of the diagram each predicts right, and draws
the one of the example's own seed as docs/images/phase-diagram.svg. Beside it stands the string order of the same
ground states, told apart by the best threshold: what an order parameter can tell at this size.
"""

import argparse
from pathlib import Path

import numpy as np
from tabulate import tabulate

from benchmarks.held_out import evaluated
from qcnn.circuits.cluster_ising import string_order
from qcnn.data import Samples
from qcnn.experiment_io import read_file
from qcnn.results import plots
from qcnn.startup import load_tensorflow

_ROOT = Path(__file__).parents[1]
_EXAMPLE = _ROOT / "examples" / "cluster_ising.yaml"
_OUTPUT = _ROOT / "docs" / "images" / "phase-diagram.svg"
SEEDS = range(5)
# No part of the paramagnet lies below, none of the antiferromagnet above.
_BETWEEN = -0.6


def by_string(samples: Samples) -> tuple[float, float]:
    """Return the largest share that a threshold of the longest string off the ends tells right, and the threshold."""
    qubits = len(samples.inputs["state"][0]).bit_length() - 1
    last = qubits - 2 if qubits % 2 else qubits - 3
    order = np.array([string_order(state, 1, last) for state in samples.inputs["state"]])
    return max((float(np.mean((order > at) == (samples.label > 0))), at) for at in np.linspace(0, 1, 101).tolist())


def main() -> None:
    """Print the table and draw the diagram."""
    words = read_file(_EXAMPLE)
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--qubits", type=int, default=words["qubits"])
    qubits = parser.parse_args().qubits
    load_tensorflow()
    rows = []
    for seed in SEEDS:
        result = evaluated(words, seed=seed, qubits=qubits)
        samples, predictions = result.samples, result.predictions
        right, h2 = (predictions >= 0) == (samples.label > 0), samples.known["h2"]
        share, at = by_string(samples)
        parts = [right, right[h2 > _BETWEEN], right[h2 <= _BETWEEN]]
        rows.append(
            [seed, *(float(np.mean(part)) for part in parts), result.metrics["val_loss"], f"{share:.3f} at {at:.2f}"]
        )
        if seed == words["seed"] and qubits == words["qubits"]:
            svg = plots.phase_diagram(samples.known["h1"], h2, predictions, "Phase diagram")
            _OUTPUT.write_text(
                svg.replace(
                    "<svg ", '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" ', 1
                )
                + "\n"
            )
            print(f"drawn: {_OUTPUT.name}, {np.mean(right):.4f} of {len(samples)} right")
    names = ["seed", "right", f"h2 > {_BETWEEN}", f"h2 <= {_BETWEEN}", "validation loss", "string order"]
    print(tabulate(rows, names, "github", floatfmt=".3f"))


if __name__ == "__main__":
    main()
