"""Hamiltonians of the user's functions, and their ground states."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import cirq
import numpy as np
import numpy.typing as npt

from qcnn.circuits.ansatz import ring
from qcnn.circuits.chains.chain import Parameter, PauliString, Point
from qcnn.circuits.chains.ground_states import (
    GroundState,
    lowest_eigenpair,
    rounded_state,
    start_vector,
    weighted_sum,
)
from qcnn.circuits.chains.pauli_matrices import pauli_matrix
from qcnn.circuits.functions import call_guarded, load_function
from qcnn.errors import ConfigError, format_value

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

# Names of class labels are columns and metrics, too.
_MAX_NAME = 100
_MAX_PARAMETERS = 2
# Larger numbers would not be finite when they are squared.
_MAX_NUMBER = 1e100
# Columns of datasets and predictions with another meaning.
_RESERVED = ("state", "label", "row", "values", "prediction", "noise_error")
# Matrices with at most this number of rows are diagonalized densely, in 0.05 s.
_DENSE = 512
_IMAGINARY = 1e-12
# Energies that differ by less count as equal, in units of the largest coefficient. Vectors of closer energies cannot be
# separated to the resolution of amplitudes.
_SAME_ENERGY = 1e-7
_MAX_GROUND_STATES = 16
_Floats = npt.NDArray[np.float64]


@dataclasses.dataclass(frozen=True, eq=False)
class CustomHamiltonian:
    """Hamiltonian of a user's function with one or two parameters.

    Attributes:
        name: Name of the function, `module:function`.
        function: Takes the qubits and a value of each parameter, and returns a cirq.PauliSum and a label.
        parameters: Parameters with their ranges.
        training_lines: Ends of the straight lines with training and validation points, empty for the whole ranges.
    """

    name: str
    function: Callable[..., Any]
    parameters: tuple[Parameter, ...]
    training_lines: tuple[tuple[Point, Point], ...]

    def evaluate(self, qubits: int, point: Point) -> tuple[list[tuple[PauliString, float]], str | int]:
        """Return the Pauli strings of the Hamiltonian with their coefficients, and the label.

        Args:
            qubits: Number of qubits.
            point: Value of each parameter.

        Raises:
            ConfigError: If the function fails or returns something else, or if the matrix is not real.
        """
        wires = ring(qubits)
        result: Any = call_guarded("data", self.name, lambda: self.function(wires, *point))
        if not (isinstance(result, tuple | list) and len(result) == 2):
            raise self._error("must return a cirq.PauliSum and a label", type(result).__name__)
        hamiltonian, label = result
        if isinstance(hamiltonian, cirq.PauliString):
            hamiltonian = cirq.PauliSum.from_pauli_strings(hamiltonian)
        if not isinstance(hamiltonian, cirq.PauliSum):
            raise self._error("must return a cirq.PauliSum and a label", f"{type(hamiltonian).__name__} and a label")
        return [self._term(term, wires) for term in hamiltonian], self._label(label)

    def _term(self, term: cirq.PauliString[cirq.Qid], wires: Sequence[cirq.Qid]) -> tuple[PauliString, float]:
        coefficient = complex(term.coefficient)
        if abs(coefficient.imag) > _IMAGINARY or not abs(coefficient) < _MAX_NUMBER:
            raise self._error("must have real, finite coefficients", str(term))
        if others := set(term.qubits) - set(wires):
            raise self._error(f"must use the given qubits {wires[0]} to {wires[-1]} only", str(min(others)))
        letters = "".join(str(term.get(wire, cirq.I)) for wire in wires)
        if letters.count("Y") % 2:
            raise self._error("must have an even number of Y in each term, so that its matrix is real", str(term))
        return letters, coefficient.real

    def _label(self, label: object) -> str | int:
        if isinstance(label, str):
            name = label.strip()
            if name.isprintable() and 0 < len(name) <= _MAX_NAME:
                return name
        elif isinstance(label, int | float | np.integer | np.floating) and float(label).is_integer():
            return int(label)
        allowed = f"whole number or printable text of 1 to {_MAX_NAME} characters"
        raise self._error(f"the label must be a {allowed}", format_value(label))

    def _error(self, allowed: str, given: str) -> ConfigError:
        return ConfigError(f"data: {allowed}. Given: {given} from {self.name}")


def load(name: str) -> CustomHamiltonian:
    """Load a user's function with its attributes `parameters` and `training_lines`.

    Args:
        name: Name of the function, `module:function`.

    Raises:
        ConfigError: If it cannot be imported, or an attribute is missing or invalid.
    """
    function = load_function("data", name)
    if not callable(function):
        raise ConfigError(f"data: must be a function. Given: {type(function).__name__} from {name}")
    parameters = _parameters(getattr(function, "parameters", None), name)
    lines = _lines(getattr(function, "training_lines", ()), parameters, name)
    return CustomHamiltonian(name, function, parameters, lines)


def _parameters(given: object, name: str) -> tuple[Parameter, ...]:
    allowed = 'attribute parameters must map one or two names to their ranges, such as {"h": (0.0, 2.0)}'
    if not (isinstance(given, Mapping) and 0 < len(given) <= _MAX_PARAMETERS):
        raise ConfigError(f"data: {allowed}. Given: {format_value(given)} from {name}")
    for each, ends in given.items():
        is_name = isinstance(each, str) and each.isidentifier() and each not in _RESERVED
        if not (is_name and not each.startswith("probability_")):
            raise ConfigError(
                f"data: names of parameters must be Python names other than {', '.join(_RESERVED)} and probability_... "
                f"Given: {format_value(each)} from {name}"
            )
        if not (_is_point(ends, 2) and ends[0] < ends[1]):
            raise ConfigError(
                f"data: the range of parameter {each} must be two finite numbers in ascending order. "
                f"Given: {format_value(ends)} from {name}"
            )
    return tuple(Parameter(each, float(ends[0]), float(ends[1]), each) for each, ends in given.items())


def _lines(given: object, parameters: Sequence[Parameter], name: str) -> tuple[tuple[Point, Point], ...]:
    names = ", ".join(parameter.name for parameter in parameters)
    found: list[tuple[Point, Point]] = []
    lines: Sequence[Any] = given if isinstance(given, tuple | list) else [given]
    for line in lines:
        is_line = isinstance(line, tuple | list) and len(line) == 2
        if not (is_line and all(_is_point(end, len(parameters)) for end in line)):
            raise ConfigError(
                f"data: attribute training_lines must contain pairs of points ({names}). "
                f"Given: {format_value(line)} from {name}"
            )
        start, end = (tuple(map(float, point)) for point in line)
        for point in (start, end):
            for parameter, value in zip(parameters, point, strict=True):
                if not parameter.minimum <= value <= parameter.maximum:
                    raise ConfigError(
                        f"data: ends of training_lines must be in the range of parameter {parameter.name}, "
                        f"{parameter.minimum:g} to {parameter.maximum:g}. Given: {value:g} from {name}"
                    )
        found.append((start, end))
    return tuple(found)


def _is_point(values: Any, length: int) -> bool:
    return (
        isinstance(values, tuple | list)
        and len(values) == length
        and all(isinstance(value, int | float | np.integer | np.floating) for value in values)
        and all(math.isfinite(value) and abs(value) < _MAX_NUMBER for value in values)
    )


def ground_state(hamiltonian: Sequence[tuple[PauliString, float]], qubits: int) -> GroundState:
    """Return the ground state of a real Hamiltonian without known symmetries.

    A degenerate ground state is the projection of a fixed vector with pseudo-random components onto the ground states,
    divided by its norm. Energies count as equal if they differ by less than 1e-7 of the largest coefficient.

    Args:
        hamiltonian: Pauli strings with their coefficients. The number of letters Y of each string is even.
        qubits: Number of qubits.

    Raises:
        ConfigError: If there are more than 16 ground states.
    """
    states = _all_states(qubits)
    # Energies in units of the largest coefficient, so that tolerances do not depend on the unit.
    unit = max((abs(coefficient) for _, coefficient in hamiltonian), default=0.0) or 1.0
    scaled = [(letters, coefficient / unit) for letters, coefficient in hamiltonian]
    matrix = weighted_sum([pauli_matrix(scaled, states)], [1.0])
    if len(states) > _DENSE:
        # Above the sum of all coefficients there is no energy.
        energy, vectors = _lowest_eigenvectors(matrix, 2 * sum(abs(coefficient) for _, coefficient in scaled))
    else:
        energies, every = np.linalg.eigh(matrix.toarray())
        energy, vectors = energies[0], every[:, energies < energies[0] + _SAME_ENERGY]
    if vectors.shape[1] > _MAX_GROUND_STATES:
        raise ConfigError(
            f"data: must have at most {_MAX_GROUND_STATES} ground states; add a small field. Given: more on {qubits} "
            "qubits"
        )
    projection = vectors @ (vectors.T @ start_vector(len(states)))
    return GroundState(float(energy) * unit, (), rounded_state(projection / np.linalg.norm(projection)))


def _lowest_eigenvectors(matrix: csr_matrix, penalty: float) -> tuple[float, _Floats]:
    """Return the lowest eigenvalue and its eigenvectors, (rows, vectors), at most one more than `_MAX_GROUND_STATES`.

    An iterative diagonalization finds one vector of a degenerate eigenvalue. Each further vector is the ground state
    of the matrix with a penalty on those that are known.

    Args:
        matrix: Matrix.
        penalty: Energy that exceeds the range of the eigenvalues.
    """
    from scipy.sparse.linalg import LinearOperator

    rows = matrix.shape[0]
    least, vectors = np.inf, np.zeros((rows, 0))
    while vectors.shape[1] <= _MAX_GROUND_STATES:
        known = vectors
        operator = LinearOperator(
            (rows, rows), lambda x, known=known: matrix @ x + penalty * (known @ (known.T @ x)), dtype=np.float64
        )
        energy, vector = lowest_eigenpair(operator, stream=known.shape[1])
        if energy > least + _SAME_ENERGY:
            break
        least = min(least, energy)
        vector = vector - known @ (known.T @ vector)
        vectors = np.column_stack([known, vector / np.linalg.norm(vector)])
    return least, vectors


@functools.lru_cache(maxsize=1)
def _all_states(qubits: int) -> npt.NDArray[np.int64]:
    return np.arange(2**qubits)
