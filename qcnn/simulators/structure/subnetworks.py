"""Subnetworks: the gates that some Pauli strings depend on, as circuits on fewer qubits."""

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from qcnn.simulators.structure.network import CircuitIR, Gate
from qcnn.simulators.structure.pauli_strings import PauliString, ReadoutSums


class Placement(NamedTuple):
    """Qubits of the whole circuit that those of a subnetwork stand for, in their order, and its strings.

    `strings` are positions among the strings of the whole circuit.
    """

    qubits: tuple[int, ...]
    strings: tuple[int, ...]


@dataclasses.dataclass(frozen=True, eq=False)
class Subnetwork:
    """Circuit of some of the gates and strings, and the places in the whole circuit where it occurs."""

    network: CircuitIR
    placements: tuple[Placement, ...]


class _Cone(NamedTuple):
    qubits: frozenset[int]
    gates: tuple[int, ...]
    strings: tuple[int, ...]


def subnetworks(network: CircuitIR) -> list[Subnetwork]:
    """Return the circuits that determine all strings with the fewest operations: light cones, or the whole circuit.

    Samples must be product states, whose qubits outside of a light cone do not matter.

    Args:
        network: Circuit without noise.
    """
    whole = [Subnetwork(network, (Placement(tuple(range(network.qubits)), tuple(range(len(network.strings)))),))]
    if network.preparation.kind in ("excitation", "state"):
        return whole
    cones = _merged([_cone(network, number) for number in range(len(network.strings))])
    if sum(_operations(len(cone.qubits), len(cone.gates)) for cone in cones) >= _operations(
        network.qubits, len(network.gates)
    ):
        return whole
    found: dict[tuple[object, ...], tuple[CircuitIR, list[Placement]]] = {}
    for cone in cones:
        # Equal cones at other places of the ring have the same order of their qubits.
        first = network.strings[cone.strings[0]].qubits[0]
        order = tuple(sorted(cone.qubits, key=lambda qubit: (qubit - first) % network.qubits))
        position = {qubit: number for number, qubit in enumerate(order)}
        gates = [network.gates[number] for number in cone.gates]
        moved = [tuple(position[qubit] for qubit in gate.qubits) for gate in gates]
        strings = [_moved(network.strings[number], position) for number in cone.strings]
        key = (len(order), tuple(zip(moved, (gate.key for gate in gates), strict=True)), tuple(strings))
        if key not in found:
            own = [dataclasses.replace(gate, qubits=qubits) for gate, qubits in zip(gates, moved, strict=True)]
            found[key] = _network(network, len(order), own, strings), []
        found[key][1].append(Placement(order, cone.strings))
    return [Subnetwork(own, tuple(placements)) for own, placements in found.values()]


def _operations(qubits: int, gates: int) -> int:
    return int(2**qubits * (gates + 1))


def _cone(network: CircuitIR, number: int) -> _Cone:
    """Return the gates and qubits that a string depends on."""
    qubits, gates = set(network.strings[number].qubits), []
    for index in reversed(range(len(network.gates))):
        if not qubits.isdisjoint(network.gates[index].qubits):
            qubits.update(network.gates[index].qubits)
            gates.append(index)
    return _Cone(frozenset(qubits), tuple(reversed(gates)), (number,))


def _merged(cones: Sequence[_Cone]) -> list[_Cone]:
    """Return the cones, with those whose qubits and gates another one contains as a part of that one."""
    merged: list[_Cone] = []
    for cone in sorted(cones, key=lambda each: -len(each.qubits)):
        for number, larger in enumerate(merged):
            if cone.qubits <= larger.qubits and set(cone.gates) <= set(larger.gates):
                merged[number] = larger._replace(strings=tuple(sorted((*larger.strings, *cone.strings))))
                break
        else:
            merged.append(cone)
    return merged


def _moved(string: PauliString, position: dict[int, int]) -> PauliString:
    pairs = sorted((position[qubit], axis) for qubit, axis in zip(*string, strict=True))
    return PauliString(tuple(qubit for qubit, _ in pairs), "".join(axis for _, axis in pairs))


def _network(network: CircuitIR, qubits: int, gates: Sequence[Gate], strings: Sequence[PauliString]) -> CircuitIR:
    sums = ReadoutSums(tuple(strings), tuple(range(len(strings))), None, np.zeros(len(strings)))
    return dataclasses.replace(network, ring=network.ring[:qubits], gates=tuple(gates), sums=sums, joint=False)
