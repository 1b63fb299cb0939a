"""Classical layers before two circuits of one Keras model: python -m examples.keras_circuits.

The circuits are those of Mari et al., Transfer learning in hybrid classical-quantum neural networks (arXiv:1912.08278).
"""

import itertools

import cirq
import numpy as np
import numpy.typing as npt
import sympy
import tf_keras
from sklearn.datasets import load_digits

import qcnn

QUBITS, DEPTH = 4, 3


def dressed() -> qcnn.Ansatz:
    """Return the circuit of section II: RY of the features on |+>, then layers of CNOT and RY, and Z of each qubit."""
    qubits = cirq.LineQubit.range(QUBITS)
    inputs, weights = sympy.symbols(f"x0:{QUBITS}"), sympy.symbols(f"w0:{DEPTH * QUBITS}")
    circuit = cirq.Circuit(
        cirq.H.on_each(*qubits), (cirq.ry(x)(qubit) for x, qubit in zip(inputs, qubits, strict=True))
    )
    pairs = list(itertools.pairwise(qubits))
    for layer in range(DEPTH):
        circuit.append(cirq.CNOT(*pair) for pair in pairs[0::2] + pairs[1::2])
        angles = weights[layer * QUBITS : (layer + 1) * QUBITS]
        circuit.append(cirq.ry(angle)(qubit) for angle, qubit in zip(angles, qubits, strict=True))
    return qcnn.Ansatz(circuit, weights, tuple(qubits), inputs)


def build() -> tf_keras.Model:
    """Return a classifier of ten digits: a dense layer and a circuit for each half of an image, and a dense layer."""
    image = tf_keras.Input((8, 8))
    readouts = []
    for number, rows in enumerate((slice(0, 4), slice(4, 8))):
        half = tf_keras.layers.Flatten()(image[:, rows])
        features = tf_keras.layers.Dense(QUBITS, activation="tanh")(half)
        angles = tf_keras.layers.Rescaling(np.pi / 2)(features)
        readouts.append(qcnn.QuantumLayer(dressed(), seed=number)(angles))
    classes = tf_keras.layers.Dense(10, activation="softmax")(tf_keras.layers.Concatenate()(readouts))
    model = tf_keras.Model(image, classes)
    model.compile(tf_keras.optimizers.Adam(0.02), "sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


def images() -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]:
    """Return images, float32 (1797, 8, 8) in [0, 1], and digits, in a random order."""
    pixels, digits = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(digits))
    return (pixels[order].reshape(-1, 8, 8) / 16).astype(np.float32), digits[order]


def main() -> None:
    """Train all layers together on 1,400 images and print the accuracy on the others."""
    tf_keras.utils.set_random_seed(0)
    pixels, digits = images()
    model = build()
    model.fit(pixels[:1400], digits[:1400], batch_size=50, epochs=20, verbose=0)
    _, accuracy = model.evaluate(pixels[1400:], digits[1400:], verbose=0)
    print(f"accuracy: {accuracy:.4f} on 397 other images")


if __name__ == "__main__":
    main()
