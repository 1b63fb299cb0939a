"""Pauli strings that simulators evaluate, and the readouts as their sums."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from qcnn.errors import ConfigError

if TYPE_CHECKING:
    import cirq

    from qcnn.circuits.observables import Readout

# Maximum number of readouts whose joint probabilities are predicted: 127 strings, and enough for 100 classes.
MAX_JOINT_READOUTS = 7


class PauliString(NamedTuple):
    """Product of Pauli operators.

    Attributes:
        qubits: Positions of its qubits, ascending.
        axes: X, Y or Z of each qubit.
    """

    qubits: tuple[int, ...]
    axes: str

    @property
    def name(self) -> str:
        """Text of the string, such as Z0*X2."""
        return "*".join(f"{axis}{qubit}" for qubit, axis in zip(self.qubits, self.axes, strict=True))

    @property
    def is_diagonal(self) -> bool:
        """Whether all operators are Z."""
        return set(self.axes) == {"Z"}

    @property
    def is_single_z(self) -> bool:
        """Whether it is Z on one qubit."""
        return self.axes == "Z"


@dataclasses.dataclass(frozen=True, eq=False)
class ReadoutSums:
    """Readouts as sums of Pauli strings.

    Attributes:
        strings: Distinct strings, in the order of the readouts.
        names: Names of the readouts: the position of a qubit that is read out in Z, or the text of a sum.
        coefficients: Coefficients of the strings, float64 (strings, readouts), or None if the readouts are the strings.
        constants: Constants of the readouts, float64 (readouts,).
    """

    strings: tuple[PauliString, ...]
    names: tuple[int | str, ...]
    coefficients: npt.NDArray[np.float64] | None
    constants: npt.NDArray[np.float64]


def sums_of(readouts: Sequence[Readout], position: Mapping[cirq.Qid, int]) -> ReadoutSums:
    """Return readouts as sums of strings.

    Args:
        readouts: Readouts of a circuit.
        position: Positions of the qubits.
    """
    # cirq takes seconds to import, and stored circuits do not need it.
    from qcnn.circuits.observables import terms_of

    strings: dict[PauliString, int] = {}
    entries, constants = [], np.zeros(len(readouts))
    for number, readout in enumerate(readouts):
        for factor, paulis in terms_of(readout):
            if not paulis:
                constants[number] = factor
                continue
            places = sorted((position[qubit], axis) for qubit, axis in paulis.items())
            string = PauliString(tuple(place for place, _ in places), "".join(axis for _, axis in places))
            entries.append((strings.setdefault(string, len(strings)), number, factor))
    return _combined(strings, entries, constants, names_of(readouts, position))


def joint_sums_of(readouts: Sequence[Readout], position: Mapping[cirq.Qid, int]) -> ReadoutSums:
    """Return readouts whose joint probabilities are predicted, with the products of all of their subsets as strings.

    The expectation values of Z on all subsets of qubits determine the probability of every bit string, and the reverse.
    String m - 1 is the product of the readouts whose bits in m are 1, where the first readout is the most significant
    bit.

    Args:
        readouts: Readouts of a circuit, which are qubits.
        position: Positions of the qubits.

    Raises:
        ConfigError: If a readout is no qubit, or there are too many.
    """
    import cirq

    qubits = [position[each] for each in readouts if isinstance(each, cirq.Qid)]
    if len(qubits) < len(readouts) or len(qubits) > MAX_JOINT_READOUTS:
        raise ConfigError(
            f"head: must be auto or dense unless the readouts are 1 to {MAX_JOINT_READOUTS} qubits. "
            f"Given: probabilities with {len(readouts)} readouts, the first of them {names_of(readouts, position)[0]}"
        )
    strings: dict[PauliString, int] = {}
    for subset in range(1, 2 ** len(qubits)):
        chosen = sorted(qubit for bit, qubit in enumerate(reversed(qubits)) if subset >> bit & 1)
        strings[PauliString(tuple(chosen), "Z" * len(chosen))] = len(strings)
    entries = [(strings[PauliString((qubit,), "Z")], number, 1.0) for number, qubit in enumerate(qubits)]
    return _combined(strings, entries, np.zeros(len(qubits)), names_of(readouts, position))


def names_of(readouts: Sequence[Readout], position: Mapping[cirq.Qid, int]) -> tuple[int | str, ...]:
    """Return the names of readouts, see `ReadoutSums`."""
    import cirq

    from qcnn.circuits.observables import text_of

    return tuple(position[each] if isinstance(each, cirq.Qid) else text_of(each, position) for each in readouts)


def texts_of(names: Sequence[int | str]) -> list[str]:
    """Return the names of readouts as texts, such as Z0 for the qubit 0."""
    return [f"Z{name}" if isinstance(name, int) else name for name in names]


def _combined(
    strings: Mapping[PauliString, int],
    entries: Sequence[tuple[int, int, float]],
    constants: npt.NDArray[np.float64],
    names: tuple[int | str, ...],
) -> ReadoutSums:
    coefficients, equal = None, [(number, number, 1.0) for number in range(len(names))]
    if constants.any() or len(strings) > len(names) or entries != equal:
        coefficients = np.zeros((len(strings), len(names)))
        for row, column, factor in entries:
            coefficients[row, column] = factor
    return ReadoutSums(tuple(strings), names, coefficients, constants)
