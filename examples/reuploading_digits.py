"""Data re-uploading (Perez-Salinas et al., arXiv:1907.02085) for scikit-learn's ten digits.

python -m examples.reuploading_digits
"""

import itertools
from collections.abc import Sequence
from pathlib import Path

import cirq
import sympy

import qcnn

FEATURES, LAYERS = 8, 3
DATA = Path(__file__).parent / "ten_digits.csv"


def classifier(qubits: Sequence[cirq.GridQubit]) -> qcnn.Ansatz:
    """Return the classifier of section 4: each layer uploads all features to each qubit, then entangles the qubits.

    U(phi) is RZ(phi_3) RY(phi_2) RZ(phi_1), with phi = theta + w x for three features at a time (figure 5).
    """
    inputs = sympy.symbols(f"x0:{FEATURES}")
    padded = [*inputs, *[sympy.Integer(0)] * (-FEATURES % 3)]
    symbols: list[sympy.Symbol] = []
    circuit = cirq.Circuit()
    for layer, (number, qubit) in itertools.product(range(LAYERS), enumerate(qubits)):
        for position, feature in enumerate(padded):
            theta = sympy.Symbol(f"theta_{layer}_{number}_{position}")
            symbols.append(theta)
            angle = theta
            # The last rotation has no feature left.
            if feature in inputs:
                weight = sympy.Symbol(f"w_{layer}_{number}_{position}")
                symbols.append(weight)
                angle += weight * feature
            rotation = cirq.ry if position % 3 == 1 else cirq.rz
            circuit.append(rotation(angle)(qubit))
        if number == len(qubits) - 1 and layer < LAYERS - 1:
            circuit.append(cirq.CZ(one, other) for one, other in itertools.pairwise(qubits))
    return qcnn.Ansatz(circuit, symbols, tuple(qubits), inputs)


def main() -> None:
    """Train the classifier on 4 qubits and print its accuracies."""
    experiment = qcnn.Experiment(
        model=classifier,
        qubits=4,
        encoding="circuit",
        data=str(DATA),
        loss="cross_entropy",
        epochs=40,
        workers=1,
        strategy="none",
    )
    training = qcnn.train(experiment)
    print(f"accuracy: {training.metrics['accuracy']:.4f} on the test split")


if __name__ == "__main__":
    main()
