"""Circuits of Hur, Kim and Park, Quantum convolutional neural network for classical data classification.

Source: arXiv:2108.00661, and QCNN_circuit.py and unitary.py of github.com/takh04/QCNN at commit 9091189. Each of nine
two-qubit circuits is the convolution of two networks on eight qubits: `qcnn_...` with pooling, and `chain_...`, a chain
without pooling. All convolutions of a layer share their parameters. Qubit 4 is read out.
`early_chain_...` is the chain of an earlier commit, `no_pooling_su4` the network without its pooling layers, and
`open_qcnn_9` the network without the pairs that close its layers to rings.

The authors' label 1 is the first class, the digit 0, and has the probability (1 - z) / 2. This is the model of
`--classes 0,1` with `head: expectation`. Their squared error assigns z = 1 to the digit 0: `--classes 1,0`.
"""

from collections.abc import Callable, Sequence
from typing import TypeAlias

import cirq
import sympy

from qcnn.circuits.ansatz import Ansatz
from qcnn.errors import ConfigError
from qcnn.published.rotations import Parameters, controlled_rx, controlled_rz, u3

QUBITS = 8
_READOUT = 4
Pair: TypeAlias = tuple[int, int]
Qubits: TypeAlias = Sequence[cirq.Qid]
Angles: TypeAlias = Sequence[sympy.Symbol]
Convolution: TypeAlias = Callable[[Angles, cirq.Qid, cirq.Qid], list[cirq.Operation]]

# Pairs of the convolutions, and source and sink of each pooling, in the order of the gates.
_QCNN_LAYERS: tuple[tuple[tuple[Pair, ...], tuple[Pair, ...]], ...] = (
    (((0, 7), (0, 1), (2, 3), (4, 5), (6, 7), (1, 2), (3, 4), (5, 6)), ((1, 0), (3, 2), (5, 4), (7, 6))),
    (((0, 6), (0, 2), (4, 6), (2, 4)), ((2, 0), (6, 4))),
    (((0, 4),), ((0, 4),)),
)
# Pairs that close a layer to a ring.
_CLOSING = ((0, 7), (0, 6))
_CHAIN_LAYERS: tuple[tuple[Pair, ...], ...] = (
    ((0, 1), (2, 3), (4, 5), (6, 7), (1, 2), (3, 4), (5, 6)),
    ((2, 3), (4, 5)),
    ((3, 4),),
)
# QCNN_circuit.py at commit 4ca56d0, of the day on which the authors added the first results of a chain.
_EARLY_CHAIN_LAYERS: tuple[tuple[Pair, ...], ...] = (_CHAIN_LAYERS[0], ((0, 2), (4, 6), (2, 4)), ((0, 4),))


def _ttn(angle: Angles, a: cirq.Qid, b: cirq.Qid) -> list[cirq.Operation]:
    return [cirq.ry(angle[0])(a), cirq.ry(angle[1])(b), cirq.CNOT(a, b)]


def _between_rotations(middle: list[cirq.Operation], angle: Angles, a: cirq.Qid, b: cirq.Qid) -> list[cirq.Operation]:
    """Return RX and RZ on both qubits, operations, and RX and RZ on both qubits."""
    around = [
        [
            cirq.rx(angle[first])(a),
            cirq.rx(angle[first + 1])(b),
            cirq.rz(angle[first + 2])(a),
            cirq.rz(angle[first + 3])(b),
        ]
        for first in (0, 6)
    ]
    return [*around[0], *middle, *around[1]]


def _circuit_5(angle: Angles, a: cirq.Qid, b: cirq.Qid) -> list[cirq.Operation]:
    return _between_rotations([controlled_rz(angle[4], b, a), controlled_rz(angle[5], a, b)], angle, a, b)


def _circuit_6(angle: Angles, a: cirq.Qid, b: cirq.Qid) -> list[cirq.Operation]:
    return _between_rotations([controlled_rx(angle[4], b, a), controlled_rx(angle[5], a, b)], angle, a, b)


def _circuit_9(angle: Angles, a: cirq.Qid, b: cirq.Qid) -> list[cirq.Operation]:
    return [cirq.H(a), cirq.H(b), cirq.CZ(a, b), cirq.rx(angle[0])(a), cirq.rx(angle[1])(b)]


def _circuit_13(angle: Angles, a: cirq.Qid, b: cirq.Qid) -> list[cirq.Operation]:
    first = [cirq.ry(angle[0])(a), cirq.ry(angle[1])(b), controlled_rz(angle[2], b, a)]
    return [*first, cirq.ry(angle[3])(a), cirq.ry(angle[4])(b), controlled_rz(angle[5], a, b)]


def _circuit_14(angle: Angles, a: cirq.Qid, b: cirq.Qid) -> list[cirq.Operation]:
    first = [cirq.ry(angle[0])(a), cirq.ry(angle[1])(b), controlled_rx(angle[2], b, a)]
    return [*first, cirq.ry(angle[3])(a), cirq.ry(angle[4])(b), controlled_rx(angle[5], a, b)]


def _circuit_15(angle: Angles, a: cirq.Qid, b: cirq.Qid) -> list[cirq.Operation]:
    first = [cirq.ry(angle[0])(a), cirq.ry(angle[1])(b), cirq.CNOT(b, a)]
    return [*first, cirq.ry(angle[2])(a), cirq.ry(angle[3])(b), cirq.CNOT(a, b)]


def _so4(angle: Angles, a: cirq.Qid, b: cirq.Qid) -> list[cirq.Operation]:
    layers = [[cirq.ry(angle[first])(a), cirq.ry(angle[first + 1])(b)] for first in (0, 2, 4)]
    return [*layers[0], cirq.CNOT(a, b), *layers[1], cirq.CNOT(a, b), *layers[2]]


def _su4(angle: Angles, a: cirq.Qid, b: cirq.Qid) -> list[cirq.Operation]:
    middle = [cirq.CNOT(a, b), cirq.ry(angle[6])(a), cirq.rz(angle[7])(b)]
    middle += [cirq.CNOT(b, a), cirq.ry(angle[8])(a), cirq.CNOT(a, b)]
    return [*u3(angle[0:3], a), *u3(angle[3:6], b), *middle, *u3(angle[9:12], a), *u3(angle[12:15], b)]


def _pooling(angle: Angles, source: cirq.Qid, sink: cirq.Qid) -> list[cirq.Operation]:
    """Return pooling ansatz 1: RZ of the sink if the source is 1, RX if it is 0."""
    return [controlled_rz(angle[0], source, sink), cirq.X(source), controlled_rx(angle[1], source, sink)]


def _qcnn(qubits: Qubits, convolution: Convolution, count: int, *, is_open: bool = False) -> Ansatz:
    _check(qubits)
    parameters, circuit = Parameters(), cirq.Circuit()
    # The parameters of all convolutions precede those of all poolings.
    of_layers = [parameters.take(count) for _ in _QCNN_LAYERS]
    for (pairs, pools), angles in zip(_QCNN_LAYERS, of_layers, strict=True):
        circuit.append(
            convolution(angles, qubits[a], qubits[b]) for a, b in pairs if not (is_open and (a, b) in _CLOSING)
        )
        pooling = parameters.take(2)
        circuit.append(_pooling(pooling, qubits[source], qubits[sink]) for source, sink in pools)
    return Ansatz(circuit, parameters, qubits[_READOUT])


def _chain(
    qubits: Qubits,
    convolution: Convolution,
    count: int,
    layers: tuple[tuple[Pair, ...], ...] = _CHAIN_LAYERS,
) -> Ansatz:
    _check(qubits)
    parameters, circuit = Parameters(), cirq.Circuit()
    for pairs in layers:
        angles = parameters.take(count)
        circuit.append(convolution(angles, qubits[a], qubits[b]) for a, b in pairs)
    return Ansatz(circuit, parameters, qubits[_READOUT])


def _check(qubits: Qubits) -> None:
    if len(qubits) != QUBITS:
        raise ConfigError(f"qubits: must be {QUBITS} with circuits of qcnn.published.hur. Given: {len(qubits)}")


def qcnn_ttn(qubits: Qubits) -> Ansatz:
    """Return the network with pooling and the convolution RY, RY, CNOT: 12 parameters."""
    return _qcnn(qubits, _ttn, 2)


def qcnn_5(qubits: Qubits) -> Ansatz:
    """Return the network with pooling and convolutional circuit 5: 36 parameters."""
    return _qcnn(qubits, _circuit_5, 10)


def qcnn_6(qubits: Qubits) -> Ansatz:
    """Return the network with pooling and convolutional circuit 6: 36 parameters."""
    return _qcnn(qubits, _circuit_6, 10)


def qcnn_9(qubits: Qubits) -> Ansatz:
    """Return the network with pooling and convolutional circuit 9: 12 parameters."""
    return _qcnn(qubits, _circuit_9, 2)


def qcnn_13(qubits: Qubits) -> Ansatz:
    """Return the network with pooling and convolutional circuit 13: 24 parameters."""
    return _qcnn(qubits, _circuit_13, 6)


def qcnn_14(qubits: Qubits) -> Ansatz:
    """Return the network with pooling and convolutional circuit 14: 24 parameters."""
    return _qcnn(qubits, _circuit_14, 6)


def qcnn_15(qubits: Qubits) -> Ansatz:
    """Return the network with pooling and convolutional circuit 15: 18 parameters."""
    return _qcnn(qubits, _circuit_15, 4)


def qcnn_so4(qubits: Qubits) -> Ansatz:
    """Return the network with pooling and the convolution SO(4): 24 parameters."""
    return _qcnn(qubits, _so4, 6)


def qcnn_su4(qubits: Qubits) -> Ansatz:
    """Return the network with pooling and the convolution SU(4): 51 parameters."""
    return _qcnn(qubits, _su4, 15)


def chain_ttn(qubits: Qubits) -> Ansatz:
    """Return the chain with the convolution RY, RY, CNOT: 6 parameters."""
    return _chain(qubits, _ttn, 2)


def chain_5(qubits: Qubits) -> Ansatz:
    """Return the chain with convolutional circuit 5: 30 parameters."""
    return _chain(qubits, _circuit_5, 10)


def chain_6(qubits: Qubits) -> Ansatz:
    """Return the chain with convolutional circuit 6: 30 parameters."""
    return _chain(qubits, _circuit_6, 10)


def chain_9(qubits: Qubits) -> Ansatz:
    """Return the chain with convolutional circuit 9: 6 parameters."""
    return _chain(qubits, _circuit_9, 2)


def chain_13(qubits: Qubits) -> Ansatz:
    """Return the chain with convolutional circuit 13: 18 parameters."""
    return _chain(qubits, _circuit_13, 6)


def chain_14(qubits: Qubits) -> Ansatz:
    """Return the chain with convolutional circuit 14: 18 parameters."""
    return _chain(qubits, _circuit_14, 6)


def chain_15(qubits: Qubits) -> Ansatz:
    """Return the chain with convolutional circuit 15: 12 parameters."""
    return _chain(qubits, _circuit_15, 4)


def chain_so4(qubits: Qubits) -> Ansatz:
    """Return the chain with the convolution SO(4): 18 parameters."""
    return _chain(qubits, _so4, 6)


def chain_su4(qubits: Qubits) -> Ansatz:
    """Return the chain with the convolution SU(4): 45 parameters."""
    return _chain(qubits, _su4, 15)


def early_chain_9(qubits: Qubits) -> Ansatz:
    """Return the chain of commit 4ca56d0 with convolutional circuit 9: 6 parameters."""
    return _chain(qubits, _circuit_9, 2, _EARLY_CHAIN_LAYERS)


def early_chain_su4(qubits: Qubits) -> Ansatz:
    """Return the chain of commit 4ca56d0 with the convolution SU(4): 45 parameters."""
    return _chain(qubits, _su4, 15, _EARLY_CHAIN_LAYERS)


def open_qcnn_9(qubits: Qubits) -> Ansatz:
    """Return the network with pooling without its closing pairs, with convolutional circuit 9: 12 parameters."""
    return _qcnn(qubits, _circuit_9, 2, is_open=True)


def no_pooling_su4(qubits: Qubits) -> Ansatz:
    """Return the network without its pooling layers, with the convolution SU(4): 45 parameters."""
    return _chain(qubits, _su4, 15, tuple(pairs for pairs, _ in _QCNN_LAYERS))
