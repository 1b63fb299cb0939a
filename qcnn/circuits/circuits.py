"""Circuits of the quantum convolutional network, in cirq.

Terms and order of gates follow the TensorFlow Quantum QCNN tutorial (Cong, Choi and Lukin,
arXiv:1810.03787), with all 15 parameters of the two-qubit convolution.
"""

import itertools
from collections.abc import Callable, Iterable, Sequence

import cirq
import sympy

from qcnn.circuits.ansatz import Ansatz, ring
from qcnn.circuits.formats import cirq_json
from qcnn.circuits.formats.embedded import MODELS, embedded_content, is_embedded, is_file, model_display_name
from qcnn.circuits.functions import call_guarded, load_function
from qcnn.circuits.preparation import ring_edges
from qcnn.errors import ConfigError

__all__ = ["Ansatz", "build", "cluster_state", "convolution", "deep", "hybrid", "pool", "ring"]

CONVOLUTION_PARAMETERS = 15
POOLING_PARAMETERS = 6
_LAYER_PARAMETERS = CONVOLUTION_PARAMETERS + POOLING_PARAMETERS


def cluster_state(qubits: Sequence[cirq.Qid]) -> cirq.Circuit:
    """Return the circuit of the cluster state on a ring: H on each qubit, CZ between neighbors."""
    neighbors = ring_edges(len(qubits))
    return cirq.Circuit(cirq.H.on_each(*qubits), [cirq.CZ(qubits[a], qubits[b]) for a, b in neighbors])


def convolution(qubits: Sequence[cirq.Qid], s: Sequence[sympy.Symbol]) -> cirq.Circuit:
    """Return a convolution layer on every adjacent pair of the ring, with shared parameters.

    First (0,1)(2,3)..., then (1,2)(3,4)...(n-1,0). With odd n the closing pair (n-1,0) shares a
    qubit with (n-2,n-1) and comes after it.
    """
    *pairs, closing = itertools.pairwise([*qubits, qubits[0]])
    even, odd = pairs[0::2], pairs[1::2]
    rounds = [even, odd, [closing]] if len(qubits) % 2 else [even, [*odd, closing]]
    return cirq.Circuit(moment for side_by_side in rounds for moment in _two_qubit_moments(side_by_side, s))


def pool(qubits: Sequence[cirq.Qid], s: Sequence[sympy.Symbol]) -> tuple[cirq.Circuit, Sequence[cirq.Qid]]:
    """Return the circuit that pools the first half of the qubits into the second, and the sinks.

    A source is pooled into its sink by basis changes s0..s2 on the sink and s3..s5 on the source, CNOT, and the
    inverse of the sink's basis change. With odd n the last qubit is a sink without a source, and no gate acts on it.
    """
    sources, sinks = qubits[: len(qubits) // 2], qubits[len(qubits) // 2 :]
    pooled = sinks[: len(sources)]
    back = [(cirq.Z ** -s[2]), (cirq.Y ** -s[1]), (cirq.X ** -s[0])]
    moments = [
        *_basis_changes((pooled, s[0:3]), (sources, s[3:6])),
        _moment(cirq.CNOT, zip(sources, pooled, strict=True)),
        *(_moment(gate, zip(pooled, strict=True)) for gate in back),
    ]
    return cirq.Circuit(moments), sinks


def _two_qubit_moments(pairs: Sequence[tuple[cirq.Qid, cirq.Qid]], s: Sequence[sympy.Symbol]) -> list[cirq.Moment]:
    """Return the moments of the two-qubit convolution, a general unitary, on disjoint pairs.

    All pairs share moments and gate objects. This saves time and memory for large circuits.
    """
    firsts, seconds = [first for first, _ in pairs], [second for _, second in pairs]
    return [
        *_basis_changes((firsts, s[0:3]), (seconds, s[3:6])),
        *(_moment(gate**power, pairs) for gate, power in zip([cirq.ZZ, cirq.YY, cirq.XX], s[6:9], strict=True)),
        *_basis_changes((firsts, s[9:12]), (seconds, s[12:15])),
    ]


def _basis_changes(*sides: tuple[Sequence[cirq.Qid], Sequence[sympy.Symbol]]) -> list[cirq.Moment]:
    """Return the moments of X^s0 Y^s1 Z^s2, X first, with separate parameters for each side."""
    moments = []
    for number, gate in enumerate((cirq.X, cirq.Y, cirq.Z)):
        powers = [(gate ** s[number], qubits) for qubits, s in sides]
        moments.append(cirq.Moment.from_ops(*(power(qubit) for power, qubits in powers for qubit in qubits)))
    return moments


def _moment(gate: cirq.Gate, places: Iterable[Sequence[cirq.Qid]]) -> cirq.Moment:
    return cirq.Moment.from_ops(*(gate(*qubits) for qubits in places))


def hybrid(qubits: Sequence[cirq.Qid]) -> Ansatz:
    """Return model `hybrid`: one convolution and one pooling layer with 21 parameters.

    The ceil(n/2) sinks are read out.
    """
    symbols = _symbols(1)
    pooled, sinks = pool(qubits, symbols[CONVOLUTION_PARAMETERS:])
    return Ansatz(convolution(qubits, symbols) + pooled, symbols, tuple(sinks))


def deep(qubits: Sequence[cirq.Qid]) -> Ansatz:
    """Return model `deep`: convolution and pooling layers down to one qubit, for any number of qubits n.

    It has 21 x ceil(log2 n) parameters.
    """
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
    """Build the circuit of a model: a built-in name, `module:function`, or embedded text.

    Raises:
        ConfigError: If the function cannot be imported, fails or does not return an ansatz, or if an embedded circuit
            has more qubits.
    """
    if model in _BUILT_IN:
        return _BUILT_IN[model](ring(qubits))
    if is_embedded(model):
        return _build_embedded(model, qubits)
    if is_file(model):
        raise ConfigError(f"model: the file must be embedded in the experiment. Given: {model}")
    function = load_function("model", model)
    ansatz: object = call_guarded("model", model, lambda: function(ring(qubits)))
    if not isinstance(ansatz, Ansatz):
        raise ConfigError(
            f"model: must return qcnn.circuits.circuits.Ansatz. Given: {type(ansatz).__name__} from {model}"
        )
    return ansatz


def _build_embedded(model: str, qubits: int) -> Ansatz:
    ansatz = cirq_json.read(embedded_content(model), model_display_name(model))
    if (width := cirq_json.width(ansatz)) > qubits:
        raise ConfigError(
            f"qubits: must be at least {width}, the qubits of {model_display_name(model)}. Given: {qubits}"
        )
    return ansatz


def _symbols(layers: int) -> tuple[sympy.Symbol, ...]:
    return tuple(sympy.symbols(f"s0:{layers * _LAYER_PARAMETERS}"))
