"""Description of a spin chain: Hamiltonian, symmetries, phases and training lines."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from qcnn.circuits.chains.symmetries import Sector, Symmetry

Floats: TypeAlias = npt.NDArray[np.float64]
Integers: TypeAlias = npt.NDArray[np.int64]
# Product of Pauli matrices, one letter of I, X, Y and Z for each site.
PauliString: TypeAlias = str
# Values of the parameters of a Hamiltonian.
Point: TypeAlias = tuple[float, ...]
# A point at this distance from a line is on it, because values of parameters are rounded.
_ON_LINE = 1e-9


@dataclasses.dataclass(frozen=True)
class Parameter:
    """Parameter of a Hamiltonian with its range. `label` is that of its axis."""

    name: str
    minimum: float
    maximum: float
    label: str

    def scale(self, units: Floats) -> Floats:
        """Return the values at positions in the range, from 0 to 1."""
        if self.minimum == -self.maximum:
            # Opposite positions in a symmetric range have opposite values, without rounding.
            return self.maximum * (2 * units - 1)
        return self.minimum + (self.maximum - self.minimum) * units


@dataclasses.dataclass(frozen=True)
class Boundary:
    """Line in the phase diagram: its label, and values of the two parameters, (points,) each.

    A line that does not separate two classes is plotted dotted.
    """

    label: str
    first: Floats
    second: Floats
    separates_classes: bool = True


@dataclasses.dataclass(frozen=True, eq=False)
class Chain:
    """Open spin chain with two parameters, whose ground states are classified by phase.

    H is the sum over k of coefficient k times the sum of the Pauli strings of group k. All letters and symmetries are
    in the basis of the diagonalization. With `in_x_basis`, this is the basis of X, where X and Z are exchanged; states
    are then transformed to the basis of Z.

    Attributes:
        name: Name of the chain, a value of the experiment field `data`.
        parameters: The two parameters, horizontal axis of the phase diagram first.
        classes: Names of the classes. A chain with two of them also trains with loss mse, -1 for the first one.
        strings: Returns the Pauli strings of each group for a number of qubits.
        coefficients: Returns the coefficient of each group for values of the parameters.
        symmetries: Returns the commuting symmetries of H for a number of qubits.
        sectors: Returns the sectors that may contain the ground state, in order of preference.
        class_of: Returns the number of the class for values of the parameters, (points,) each.
        training_lines: Ends of the straight lines with training and validation points.
        boundaries: Returns the lines of the phase diagram.
        in_x_basis: Whether strings and symmetries are in the basis of X.
        is_even: Whether the number of qubits must be even.
        caption: Description of the lines, below the phase diagram.
    """

    name: str
    parameters: tuple[Parameter, Parameter]
    classes: tuple[str, ...]
    strings: Callable[[int], Sequence[Sequence[PauliString]]]
    coefficients: Callable[[float, float], Sequence[float]]
    symmetries: Callable[[int], Sequence[Symmetry]]
    sectors: Callable[[int], Sequence[Sector]]
    class_of: Callable[[Floats, Floats], Integers]
    training_lines: tuple[tuple[Point, Point], ...]
    boundaries: Callable[[], Sequence[Boundary]]
    in_x_basis: bool = False
    is_even: bool = False
    caption: str = ""

    def on_training_lines(self, first: Floats, second: Floats) -> npt.NDArray[np.bool_]:
        """Return which points are on a training line, (points,), of values of the two parameters, (points,) each."""
        points, found = np.stack([first, second], axis=1), np.zeros(len(first), np.bool_)
        for ends in self.training_lines:
            start, stop = np.array(ends)
            along = (points - start) @ (stop - start) / np.sum((stop - start) ** 2)
            distance = np.linalg.norm(points - start - along[:, None] * (stop - start), axis=1)
            found |= (distance < _ON_LINE) & (along > -_ON_LINE) & (along < 1 + _ON_LINE)
        return found

    @property
    def basis(self) -> Literal["X", "Z"]:
        """Basis of the diagonalization."""
        return "X" if self.in_x_basis else "Z"


def placements(letters: str, qubits: int, first: int = 0, step: int = 1) -> list[PauliString]:
    """Return the Pauli strings with these letters at every position of an open chain.

    Args:
        letters: Letters of adjacent sites.
        qubits: Number of sites.
        first: First position.
        step: Distance between positions.

    >>> placements("XX", 4)
    ['XXII', 'IXXI', 'IIXX']
    >>> placements("XX", 4, first=1, step=2)
    ['IXXI']
    """
    positions = range(first, qubits - len(letters) + 1, step)
    return [f"{'I' * at}{letters}{'I' * (qubits - at - len(letters))}" for at in positions]
