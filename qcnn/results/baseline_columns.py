"""Columns of samples for classical models: what the network is given, or local observables of ground states."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from qcnn.data.pauli_windows import WIDTH, window_expectations, window_strings
from qcnn.data.samples import FeatureLayout, Samples

_Floats = npt.NDArray[np.float64]


def column_count(layout: FeatureLayout, qubits: int) -> int:
    """Return the number of columns of the samples of a layout."""
    match layout.preparation.kind:
        case "excitation":
            return qubits + 2
        case "state" if not layout.features:
            return len(window_strings(qubits))
    return len(layout.features)


def describe_columns(layout: FeatureLayout) -> str:
    """Return what the columns of the samples of a layout are."""
    match layout.preparation.kind:
        case "excitation":
            return "one for each qubit, 1 if it is excited, cosine and sine of the angle"
        case "state" if not layout.features:
            return f"expectation values of the Pauli strings on windows of up to {WIDTH} adjacent qubits"
        case "state":
            return "amplitudes: the features divided by their norm"
        case "circuit":
            return "features, as inputs of the circuit"
    return "features, as rotation angles in rad"


def columns_of(samples: Samples, layout: FeatureLayout, qubits: int) -> _Floats:
    """Return the columns of samples, float64 (samples, columns).

    The sign of a ground state is arbitrary, and few classical models see phases in its amplitudes. Its columns are the
    expectation values of local observables, with which P. Bermejo et al., Quantum convolutional neural networks are
    (effectively) classically simulable (arXiv:2408.12739), classify such states. All other columns are the inputs of
    the network, without qubits or amplitudes that have no feature.

    Args:
        samples: Samples.
        layout: Layout of the samples.
        qubits: Number of qubits.
    """
    match layout.preparation.kind:
        case "excitation":
            angle = samples.angle.astype(np.float64)
            excited = (samples.qubit[:, None] == np.arange(qubits)).astype(np.float64)
            return np.column_stack([excited, np.cos(angle), np.sin(angle)])
        case "state" if not layout.features:
            return window_expectations(samples.inputs["state"], qubits)
        case "state":
            return samples.inputs["state"][:, : len(layout.features)].astype(np.float64)
    return samples.inputs["features"][:, : len(layout.features)].astype(np.float64)


def in_parts(samples: Samples, size: int, use: Callable[[Samples], _Floats]) -> _Floats:
    """Return the results of a function for parts of the samples, joined.

    Args:
        samples: Samples.
        size: Maximum number of samples of a part.
        use: Function of a part that returns an array (samples, ...).
    """
    indices = np.arange(len(samples))
    return np.concatenate([use(samples.take(indices[first : first + size])) for first in range(0, len(indices), size)])
