"""The circuits of the quantum convolutional network, in cirq.

Words and order of gates follow the TensorFlow Quantum QCNN tutorial (Cong, Choi and Lukin,
arXiv:1810.03787), with all 15 parameters of the two-qubit convolution.
"""

import dataclasses
import hashlib
import importlib
import itertools
from collections.abc import Callable, Sequence

import cirq
import sympy

from trainer.config import MODELS
from trainer.errors import ConfigError

CONVOLUTION_PARAMETERS = 15
POOLING_PARAMETERS = 6
_LAYER_PARAMETERS = CONVOLUTION_PARAMETERS + POOLING_PARAMETERS


@dataclasses.dataclass(frozen=True)
class Ansatz:
    """What is trained: a circuit applied after the data state, and the qubits read out in Z.

    One readout is the prediction itself; several feed the dense layers. `symbols` gives the order
    of the quantum parameters.
    """

    circuit: cirq.Circuit
    symbols: tuple[sympy.Symbol, ...]
    readouts: tuple[cirq.Qid, ...]


def ring(qubits: int) -> list[cirq.GridQubit]:
    """Return the qubits of the ring, in order."""
    return cirq.GridQubit.rect(1, qubits)


def cluster_state(qubits: Sequence[cirq.Qid]) -> cirq.Circuit:
    """Cluster state on a ring: H on each qubit, CZ between neighbours, the closing pair included."""
    neighbours = itertools.pairwise([*qubits, qubits[0]])
    return cirq.Circuit(cirq.H.on_each(*qubits), [cirq.CZ(a, b) for a, b in neighbours])


def one_qubit(qubit: cirq.Qid, s: Sequence[sympy.Symbol]) -> cirq.Circuit:
    """X^s0 Y^s1 Z^s2, X first: a basis change of one qubit."""
    return cirq.Circuit(cirq.X(qubit) ** s[0], cirq.Y(qubit) ** s[1], cirq.Z(qubit) ** s[2])


def two_qubit(first: cirq.Qid, second: cirq.Qid, s: Sequence[sympy.Symbol]) -> cirq.Circuit:
    """Return the two-qubit convolution: an arbitrary two-qubit unitary in 15 parameters."""
    return cirq.Circuit(
        one_qubit(first, s[0:3]),
        one_qubit(second, s[3:6]),
        cirq.ZZ(first, second) ** s[6],
        cirq.YY(first, second) ** s[7],
        cirq.XX(first, second) ** s[8],
        one_qubit(first, s[9:12]),
        one_qubit(second, s[12:15]),
    )


def convolution(qubits: Sequence[cirq.Qid], s: Sequence[sympy.Symbol]) -> cirq.Circuit:
    """One convolution layer: every neighbouring pair of the ring once, all with the same parameters.

    First (0,1)(2,3)..., then (1,2)(3,4)...(n-1,0). With odd n the closing pair (n-1,0) shares a
    qubit with (n-2,n-1) and comes after it.
    """
    pairs = list(itertools.pairwise([*qubits, qubits[0]]))
    even = pairs[0 : len(qubits) - 1 : 2]
    odd = [*pairs[1 : len(qubits) - 1 : 2], pairs[-1]]
    return cirq.Circuit(two_qubit(a, b, s) for a, b in even + odd)


def pooling(source: cirq.Qid, sink: cirq.Qid, s: Sequence[sympy.Symbol]) -> cirq.Circuit:
    """Pool source into sink: basis changes s0..s2 on the sink and s3..s5 on the source, CNOT, sink's inverse."""
    sink_basis = one_qubit(sink, s[0:3])
    return cirq.Circuit(sink_basis, one_qubit(source, s[3:6]), cirq.CNOT(source, sink), cirq.inverse(sink_basis))


def pool(qubits: Sequence[cirq.Qid], s: Sequence[sympy.Symbol]) -> tuple[cirq.Circuit, Sequence[cirq.Qid]]:
    """Pool the first half of the qubits into the second; return the circuit and the sinks.

    With odd n there is one sink more than there are sources: the last qubit is kept as it is, unpooled.
    """
    sources, sinks = qubits[: len(qubits) // 2], qubits[len(qubits) // 2 :]
    pairs = zip(sources, sinks, strict=False)
    return cirq.Circuit(pooling(source, sink, s) for source, sink in pairs), sinks


def hybrid(qubits: Sequence[cirq.Qid]) -> Ansatz:
    """One convolution and one pooling layer; the ceil(n/2) sinks are read out. 21 parameters."""
    symbols = _symbols(1)
    pooled, sinks = pool(qubits, symbols[CONVOLUTION_PARAMETERS:])
    return Ansatz(convolution(qubits, symbols) + pooled, symbols, tuple(sinks))


def deep(qubits: Sequence[cirq.Qid]) -> Ansatz:
    """Convolution and pooling until one qubit is left; any n, 21 x ceil(log2 n) parameters."""
    layers = (len(qubits) - 1).bit_length()
    symbols = _symbols(layers)
    circuit = cirq.Circuit()
    for layer in range(layers):
        s = symbols[layer * _LAYER_PARAMETERS :]
        circuit += convolution(qubits, s)
        pooled, qubits = pool(qubits, s[CONVOLUTION_PARAMETERS:])
        circuit += pooled
    return Ansatz(circuit, symbols, tuple(qubits))


_BUILT_IN: dict[str, Callable[[Sequence[cirq.Qid]], Ansatz]] = dict(zip(MODELS, (hybrid, deep), strict=True))


def build(model: str, qubits: int) -> Ansatz:
    """Build the circuit of a model: a built-in name, or the user's own `package.module:function`.

    Raises:
        ConfigError: the function cannot be imported, or what it returns is no usable ansatz.
    """
    if model in _BUILT_IN:
        return _BUILT_IN[model](ring(qubits))
    module, _, function = model.partition(":")
    try:
        ansatz = getattr(importlib.import_module(module), function)(ring(qubits))
    except Exception as error:  # The user's code may raise anything; what it says is the one line they need.
        reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
        raise ConfigError(f"model: cannot be imported or fails ({reason}). Given: {model}") from None
    if not isinstance(ansatz, Ansatz):
        raise ConfigError(f"model: must return trainer.circuits.Ansatz. Given: {type(ansatz).__name__} from {model}")
    _check(ansatz, model, qubits)
    return ansatz


def fingerprint(model: str, qubits: int) -> str:
    """Return a digest of the user's own circuit, by which it is known again; empty for a built-in model."""
    if model in _BUILT_IN:
        return ""
    ansatz = build(model, qubits)
    parts = cirq.to_json([ansatz.circuit, list(ansatz.symbols), list(ansatz.readouts)])
    return hashlib.sha256(str(parts).encode()).hexdigest()


def _check(ansatz: Ansatz, model: str, qubits: int) -> None:
    used = cirq.parameter_names(ansatz.circuit)
    listed = {symbol.name for symbol in ansatz.symbols}
    if used != listed or len(listed) != len(ansatz.symbols):
        raise ConfigError(
            f"model: symbols must list every parameter of the circuit once. Given: {sorted(used ^ listed)} differ "
            f"in {model}"
        )
    outside = {*ansatz.circuit.all_qubits(), *ansatz.readouts} - set(ring(qubits))
    if outside or not ansatz.readouts:
        raise ConfigError(
            f"model: must read out at least one qubit and stay on the ring of {qubits}. Given: {model} with "
            f"readouts {[str(q) for q in ansatz.readouts]}"
        )


def _symbols(layers: int) -> tuple[sympy.Symbol, ...]:
    return tuple(sympy.symbols(f"s0:{layers * _LAYER_PARAMETERS}"))
