"""Gates of published circuits that Cirq does not name."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

import cirq
import sympy

Angle: TypeAlias = float | sympy.Expr
# Pauli words of pennylane.ArbitraryUnitary on two qubits, in its order.
GENERAL_WORDS = ("XI", "YI", "ZI", "ZX", "IX", "XX", "YX", "YY", "ZY", "IY", "XY", "XZ", "YZ", "ZZ", "IZ")
_PAULIS = {"X": cirq.X, "Y": cirq.Y, "Z": cirq.Z}


def u3(angles: Sequence[Angle], qubit: cirq.Qid) -> list[cirq.Operation]:
    """Return the rotation U(theta, phi, lambda) of OpenQASM 3 up to a global phase.

    Args:
        angles: Angles theta about Y, phi about Z after it and lambda about Z before it, in radians.
        qubit: Rotated qubit.
    """
    theta, phi, before = angles
    return [cirq.rz(before)(qubit), cirq.ry(theta)(qubit), cirq.rz(phi)(qubit)]


def controlled_rx(angle: Angle, control: cirq.Qid, target: cirq.Qid) -> cirq.Operation:
    """Return RX, controlled by another qubit.

    Args:
        angle: Angle in radians.
        control: Qubit that controls the rotation.
        target: Rotated qubit.
    """
    return cirq.ControlledGate(cirq.rx(angle)).on(control, target)


def controlled_rz(angle: Angle, control: cirq.Qid, target: cirq.Qid) -> cirq.Operation:
    """Return RZ, controlled by another qubit.

    Args:
        angle: Angle in radians.
        control: Qubit that controls the rotation.
        target: Rotated qubit.
    """
    return cirq.ControlledGate(cirq.rz(angle)).on(control, target)


def controlled(operations: Iterable[cirq.Operation], control: cirq.Qid) -> list[cirq.Operation]:
    """Return operations that act if another qubit is 1, also if this qubit is measured before them.

    Args:
        operations: Operations of gates.
        control: Qubit that controls them.
    """
    return [cirq.ControlledGate(each.gate).on(control, *each.qubits) for each in operations if each.gate]


def phasors(words: Sequence[str], angles: Sequence[Angle], pair: Sequence[cirq.Qid]) -> list[cirq.Operation]:
    """Return exp(-i angle / 2 P) for Pauli words P of two qubits.

    Args:
        words: Pauli words, such as XI. The first letter acts on the first qubit.
        angles: Angle of each word in radians.
        pair: Qubits of the words.
    """
    operations: list[cirq.Operation] = []
    for word, angle in zip(words, angles, strict=True):
        paulis = {qubit: _PAULIS[name] for qubit, name in zip(pair, word, strict=True) if name != "I"}
        string: cirq.PauliString[cirq.Qid] = cirq.PauliString(paulis)
        operations.append(cirq.PauliStringPhasor(string, exponent_neg=angle / sympy.pi))
    return operations


class Parameters:
    """Circuit parameters theta_0, theta_1, ... in the order in which a circuit takes them."""

    def __init__(self) -> None:
        self.taken: list[sympy.Symbol] = []

    def take(self, count: int) -> Sequence[sympy.Symbol]:
        """Return the next symbols."""
        first = len(self.taken)
        symbols = [sympy.Symbol(f"theta_{number}") for number in range(first, first + count)]
        self.taken += symbols
        return symbols

    def __iter__(self) -> Iterator[sympy.Symbol]:
        return iter(self.taken)
