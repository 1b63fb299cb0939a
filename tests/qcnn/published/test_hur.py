"""Circuits of Hur et al., compared with a NumPy construction from the gate lists of the authors' repository."""

import functools
from collections.abc import Iterator, Sequence

import cirq
import numpy as np
import numpy.typing as npt
import pytest

from qcnn.circuits.ansatz import Ansatz, ring
from qcnn.errors import ConfigError
from qcnn.published import hur

Complex = npt.NDArray[np.complex128]
# Gates of the two-qubit circuits on the wires a and b, in the order of unitary.py. A control precedes its target.
_ROTATIONS = "rx-a rx-b rz-a rz-b"
_CIRCUITS = {
    "ttn": "ry-a ry-b cx-ab",
    "5": f"{_ROTATIONS} crz-ba crz-ab {_ROTATIONS}",
    "6": f"{_ROTATIONS} crx-ba crx-ab {_ROTATIONS}",
    "9": "h-a h-b cz-ab rx-a rx-b",
    "13": "ry-a ry-b crz-ba ry-a ry-b crz-ab",
    "14": "ry-a ry-b crx-ba ry-a ry-b crx-ab",
    "15": "ry-a ry-b cx-ba ry-a ry-b cx-ab",
    "so4": "ry-a ry-b cx-ab ry-a ry-b cx-ab ry-a ry-b",
    "su4": "u3-a u3-b cx-ab ry-a rz-b cx-ba ry-a cx-ab u3-a u3-b",
}
_POOLING = "crz-ab x-a crx-ab"
_LAYERS = {
    "qcnn": (["07", "01", "23", "45", "67", "12", "34", "56"], ["06", "02", "46", "24"], ["04"]),
    "chain": (["01", "23", "45", "67", "12", "34", "56"], ["23", "45"], ["34"]),
    "early_chain": (["01", "23", "45", "67", "12", "34", "56"], ["02", "46", "24"], ["04"]),
}
_LAYERS["no_pooling"] = _LAYERS["qcnn"]
_LAYERS["open_qcnn"] = (_LAYERS["qcnn"][0][1:], _LAYERS["qcnn"][1][1:], _LAYERS["qcnn"][2])
_POOLS = (["10", "32", "54", "76"], ["20", "64"], ["04"])
# Numbers of parameters: columns of the paper's tables, with pooling and without.
_PARAMETERS = {"qcnn": 6, "open_qcnn": 6, "chain": 0, "early_chain": 0, "no_pooling": 0}
_OF_CIRCUIT = {"ttn": 2, "5": 10, "6": 10, "9": 2, "13": 6, "14": 6, "15": 4, "so4": 6, "su4": 15}
_NAMES = [f"{family}_{name}" for family in ("qcnn", "chain") for name in _CIRCUITS]
_NAMES += ["early_chain_9", "early_chain_su4", "no_pooling_su4", "open_qcnn_9"]


def _matrix(gate: str, angles: Iterator[float]) -> Complex:
    """Return the matrix of a gate, with as many angles as it takes."""
    x, y, z = (np.array(rows, complex) for rows in ([[0, 1], [1, 0]], [[0, -1j], [1j, 0]], [[1, 0], [0, -1]]))
    if gate == "u3":
        theta, phi, lam = next(angles), next(angles), next(angles)
        cosine, sine = np.cos(theta / 2), np.sin(theta / 2)
        lower = [np.exp(1j * phi) * sine, np.exp(1j * (phi + lam)) * cosine]
        return np.array([[cosine, -np.exp(1j * lam) * sine], lower])
    if gate in ("rx", "ry", "rz"):
        half = next(angles) / 2
        return np.asarray(np.cos(half) * np.eye(2) - 1j * np.sin(half) * {"rx": x, "ry": y, "rz": z}[gate])
    return np.asarray({"x": x, "z": z, "h": (x + z) / np.sqrt(2)}[gate])


def _apply(state: Complex, gates: str, wires: Sequence[int], parameters: Sequence[float]) -> Complex:
    angles = iter(parameters)
    for gate in gates.split():
        name, _, places = gate.partition("-")
        *controls, target = ["ab".index(place) for place in places]
        matrix = _matrix(name[len(controls) :], angles)
        # The target is the last axis, after the control.
        moved = np.moveaxis(state, [*(wires[each] for each in controls), wires[target]], [*([-2] * len(controls)), -1])
        moved = moved.copy()
        if controls:
            moved[..., 1, :] = moved[..., 1, :] @ matrix.T
        else:
            moved = moved @ matrix.T
        state = np.moveaxis(moved, [*([-2] * len(controls)), -1], [*(wires[each] for each in controls), wires[target]])
    assert next(angles, None) is None
    return state


def _z(name: str, parameters: npt.NDArray[np.float64], state: Complex) -> float:
    """Return Z of qubit 4 by the order of gates and parameters of QCNN_circuit.py."""
    family, _, circuit = name.rpartition("_")
    count, pooled = _OF_CIRCUIT[circuit], parameters[3 * _OF_CIRCUIT[circuit] :]
    tensor = state.reshape((2,) * 8)
    for layer, pairs in enumerate(_LAYERS[family]):
        for pair in pairs:
            shared = parameters[layer * count : (layer + 1) * count].tolist()
            tensor = _apply(tensor, _CIRCUITS[circuit], [int(wire) for wire in pair], shared)
        for pair in _POOLS[layer] if "qcnn" in family else ():
            tensor = _apply(tensor, _POOLING, [int(wire) for wire in pair], pooled[2 * layer : 2 * layer + 2].tolist())
    weights = (np.abs(tensor) ** 2).sum(axis=tuple(axis for axis in range(8) if axis != 4))
    return float(weights[0] - weights[1])


@functools.cache
def _ansatz(name: str) -> Ansatz:
    return getattr(hur, name)(ring(8))  # type: ignore[no-any-return]


@pytest.mark.parametrize("name", _NAMES)
def test_circuit_has_the_published_number_of_parameters(name: str) -> None:
    family, _, circuit = name.rpartition("_")
    assert len(_ansatz(name).symbols) == 3 * _OF_CIRCUIT[circuit] + _PARAMETERS[family]


@pytest.mark.parametrize("name", _NAMES)
def test_readout_equals_the_gate_list_of_the_authors(name: str) -> None:
    ansatz, random = _ansatz(name), np.random.default_rng(8)
    parameters = random.normal(size=len(ansatz.symbols))
    amplitudes = random.normal(size=256) + 1j * random.normal(size=256)
    amplitudes /= np.linalg.norm(amplitudes)
    values = dict(zip(ansatz.symbols, parameters, strict=True))
    readout = ansatz.readouts[0]
    assert readout == ring(8)[4]
    found = cirq.Simulator(dtype=np.complex128).simulate_expectation_values(
        ansatz.circuit, [cirq.Z(ring(8)[4])], values, qubit_order=ring(8), initial_state=amplitudes
    )
    assert found[0].real == pytest.approx(_z(name, parameters, amplitudes), abs=1e-12)


def test_other_number_of_qubits_is_rejected() -> None:
    with pytest.raises(ConfigError, match=r"^qubits: must be 8 .* Given: 6$"):
        hur.qcnn_9(ring(6))
