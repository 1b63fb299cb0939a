"""Feature maps of the literature: circuits on |0...0> whose angles are functions of the features of a sample.

Qubit k has the input xk. All gates of a repetition after the Hadamard gates are diagonal, so their order does not
matter.
"""

import dataclasses
import functools
import itertools
from collections.abc import Callable, Sequence

import cirq
import sympy

from qcnn.circuits.ansatz import Ansatz
from qcnn.circuits.preparation import Kind, ring_edges
from qcnn.circuits.sample_circuits import product
from qcnn.errors import ConfigError, format_value

# Pairs of qubits that gates entangle, by name.
ENTANGLEMENTS: dict[str, Callable[[int], Sequence[tuple[int, int]]]] = {
    "linear": lambda qubits: list(itertools.pairwise(range(qubits))),
    "ring": ring_edges,
    "full": lambda qubits: list(itertools.combinations(range(qubits), 2)),
}
_MAX_REPETITIONS = 100


def input_symbols(count: int) -> tuple[sympy.Symbol, ...]:
    """Return the inputs x0, x1, ... of a feature map."""
    return tuple(sympy.symbols(f"x0:{count}"))


def z_feature_map(qubits: Sequence[cirq.Qid], repetitions: int = 2) -> cirq.Circuit:
    """Return the circuit of Qiskit's ZFeatureMap: repetitions of H, P(2 x) on each qubit.

    Source: Havlicek et al., Nature 567, 209 (2019), arXiv:1804.11326, without its products.

    Args:
        qubits: Qubits of the circuit.
        repetitions: Number of repetitions.
    """
    return _repeated(qubits, repetitions, (), lambda x: 2 * x, lambda a, b: 0 * a * b)


def zz_feature_map(qubits: Sequence[cirq.Qid], repetitions: int = 2, entanglement: str = "full") -> cirq.Circuit:
    """Return the circuit of Qiskit's ZZFeatureMap: H, P(2 x) on each qubit, P(2 (pi - x) (pi - y)) on parity of pairs.

    Source: Havlicek et al., Nature 567, 209 (2019), arXiv:1804.11326, as in qiskit.circuit.library.zz_feature_map.

    Args:
        qubits: Qubits of the circuit.
        repetitions: Number of repetitions.
        entanglement: Pairs of qubits, one of `ENTANGLEMENTS`.
    """
    pairs = ENTANGLEMENTS[entanglement](len(qubits))
    return _repeated(qubits, repetitions, pairs, lambda x: 2 * x, lambda a, b: 2 * (sympy.pi - a) * (sympy.pi - b))


def iqp(qubits: Sequence[cirq.Qid], repetitions: int = 1, entanglement: str = "full") -> cirq.Circuit:
    """Return a circuit of instantaneous quantum polynomial time: H, RZ(x) on each qubit, RZZ(x y) on pairs.

    Source: Havlicek et al., Nature 567, 209 (2019), as in pennylane.IQPEmbedding. RZ and RZZ are P of the angle up to a
    global phase.

    Args:
        qubits: Qubits of the circuit.
        repetitions: Number of repetitions.
        entanglement: Pairs of qubits, one of `ENTANGLEMENTS`.
    """
    pairs = ENTANGLEMENTS[entanglement](len(qubits))
    return _repeated(qubits, repetitions, pairs, lambda x: x, lambda a, b: a * b)


def _repeated(
    qubits: Sequence[cirq.Qid],
    repetitions: int,
    pairs: Sequence[tuple[int, int]],
    single: Callable[[sympy.Symbol], sympy.Expr],
    double: Callable[[sympy.Symbol, sympy.Symbol], sympy.Expr],
) -> cirq.Circuit:
    x = input_symbols(len(qubits))
    turns = [cirq.Z(qubit) ** (single(each) / sympy.pi) for qubit, each in zip(qubits, x, strict=True)]
    # ZZ^t is P(pi t) on the parity of two qubits: CNOT, P, CNOT.
    joined = [cirq.ZZ(qubits[a], qubits[b]) ** (double(x[a], x[b]) / sympy.pi) for a, b in pairs]
    return cirq.Circuit([cirq.H.on_each(*qubits), turns, joined] for _ in range(repetitions))


def with_rotations(ansatz: Ansatz, qubits: Sequence[cirq.Qid], kind: Kind) -> Ansatz:
    """Return an ansatz after the rotations of product states, with the angles in radians as inputs.

    Args:
        ansatz: Ansatz without inputs.
        qubits: Qubits of the ring.
        kind: One of rx, ry, rz and dense, see `Preparation`.
    """
    inputs = input_symbols(len(qubits) * (2 if kind == "dense" else 1))
    return dataclasses.replace(ansatz, circuit=product(kind, qubits, inputs) + ansatz.circuit, inputs=inputs)


_MAPS: dict[str, tuple[Callable[..., cirq.Circuit], tuple[str, ...]]] = {
    "z": (z_feature_map, ("repetitions",)),
    "zz": (zz_feature_map, ("repetitions", "entanglement")),
    "iqp": (iqp, ("repetitions", "entanglement")),
}
ALLOWED = (
    f"{', '.join(_MAPS)}, with repetitions of 1 to {_MAX_REPETITIONS} and entanglement {', '.join(ENTANGLEMENTS)}, "
    "such as zz,repetitions=1,entanglement=linear, or empty"
)


def parse(text: str) -> Callable[[Sequence[cirq.Qid]], cirq.Circuit]:
    """Return the function of a feature map from the text of the field `feature_map`.

    Raises:
        ConfigError: If the text does not have the form in `ALLOWED`.

    >>> len(parse("zz,repetitions=1")(cirq.LineQubit.range(3)))
    4
    """
    name, *settings = (part.strip() for part in text.split(","))
    values: dict[str, int | str] = {}
    if name not in _MAPS:
        raise _invalid(text)
    function, allowed = _MAPS[name]
    for setting in settings:
        key, _, value = setting.partition("=")
        if key not in allowed or key in values:
            raise _invalid(text)
        if key == "repetitions":
            if not (value.isascii() and value.isdigit() and 1 <= int(value[:4]) <= _MAX_REPETITIONS):
                raise _invalid(text)
            values[key] = int(value)
        elif value not in ENTANGLEMENTS:
            raise _invalid(text)
        else:
            values[key] = value
    return functools.partial(function, **values)


def _invalid(text: str) -> ConfigError:
    return ConfigError(f"feature_map: must be {ALLOWED}. Given: {format_value(text)}")


def with_feature_map(ansatz: Ansatz, qubits: Sequence[cirq.Qid], text: str) -> Ansatz:
    """Return an ansatz after a feature map, which prepares the data state.

    Args:
        ansatz: Ansatz without inputs.
        qubits: Qubits of the feature map, in the order of the features.
        text: Text of the field `feature_map`.

    Raises:
        ConfigError: If the text is invalid, or the ansatz has inputs or a symbol with the name of one.
    """
    inputs = input_symbols(len(qubits))
    if ansatz.inputs:
        raise ConfigError(f"feature_map: must be empty with a circuit that has inputs. Given: {format_value(text)}")
    circuit = parse(text)(qubits) + ansatz.circuit
    return dataclasses.replace(ansatz, circuit=circuit, inputs=inputs)
