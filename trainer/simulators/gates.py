"""What the simulators read of a cirq circuit: each gate as a sum of projectors with a phase.

U(t) = sum_k exp(i pi phases[k] t) projectors[k], the form of cirq's EigenGate
(cirq/ops/eigen_gate.py, `_eigen_components`); controlled forms keep it.
"""

import dataclasses
import functools
import textwrap
from collections.abc import Hashable, Iterable, Mapping, Sequence

import cirq
import numpy as np
import numpy.typing as npt
import sympy

from trainer.circuits import Ansatz
from trainer.errors import ConfigError

Complex = npt.NDArray[np.complex128]

# Of a gate, controls included: a block is no smaller.
_MOST_QUBITS = 4


@dataclasses.dataclass(frozen=True, eq=False)
class Spectrum:
    """A gate's projectors, complex128 (components, d, d), with their phases (components,) in units of pi."""

    phases: npt.NDArray[np.float64]
    projectors: Complex

    @functools.cached_property
    def key(self) -> tuple[bytes, bytes]:
        """Equal for equal gates."""
        return self.phases.tobytes(), self.projectors.tobytes()


@dataclasses.dataclass(frozen=True)
class Exponent:
    """A linear form of the parameters: constant + sum of coefficient x parameters[index]."""

    constant: float
    coefficients: tuple[tuple[int, float], ...] = ()


@dataclasses.dataclass(frozen=True)
class Gate:
    """A gate on qubits, given by their positions."""

    qubits: tuple[int, ...]
    spectrum: Spectrum
    exponent: Exponent

    @functools.cached_property
    def key(self) -> tuple[object, ...]:
        """Equal for gates of equal matrices at all parameters, wherever they act."""
        return (*self.spectrum.key, self.exponent)


@dataclasses.dataclass(frozen=True)
class Network:
    """An ansatz as the simulators see it: gates in their order and readouts on qubits 0 .. qubits - 1."""

    qubits: int
    parameters: int
    gates: tuple[Gate, ...]
    readouts: tuple[int, ...]


def read_network(ansatz: Ansatz, qubits: Sequence[cirq.Qid]) -> Network:
    """Read the ansatz on a ring of qubits.

    Raises:
        ConfigError: an operation is no unitary that the simulators know.
    """
    position = {qubit: index for index, qubit in enumerate(qubits)}
    reader = _Reader({symbol: number for number, symbol in enumerate(ansatz.symbols)})
    gates = tuple(
        Gate(tuple(position[qubit] for qubit in operation.qubits), spectrum, exponent)
        for operation, spectrum, exponent in reader.read(ansatz.circuit.all_operations())
    )
    return Network(len(qubits), len(ansatz.symbols), gates, tuple(position[readout] for readout in ansatz.readouts))


class _Reader:
    def __init__(self, index: Mapping[sympy.Symbol, int]) -> None:
        self._index = index
        self._known: dict[cirq.Gate, tuple[Spectrum, Exponent] | None] = {}
        self._spectra: dict[tuple[bytes, bytes], Spectrum] = {}

    def read(self, operations: Iterable[cirq.Operation]) -> Iterable[tuple[cirq.Operation, Spectrum, Exponent]]:
        for operation in operations:
            known = self._lookup(operation)
            if known is None:
                yield from self.read(_decomposed(operation))
            else:
                yield operation.untagged, *known

    def _lookup(self, operation: cirq.Operation) -> tuple[Spectrum, Exponent] | None:
        gate = operation.gate
        if gate is None:
            return None
        if not isinstance(gate, Hashable):
            return self._spectrum(gate, operation)
        if gate not in self._known:
            self._known[gate] = self._spectrum(gate, operation)
        return self._known[gate]

    def _spectrum(self, gate: cirq.Gate, operation: cirq.Operation) -> tuple[Spectrum, Exponent] | None:
        """Return nothing where only a decomposition can help."""
        if any(dimension != 2 for dimension in cirq.qid_shape(gate)):
            raise _unknown(operation, "acts on more than qubits")
        if isinstance(gate, cirq.EigenGate | cirq.ControlledGate):
            parts = _eigen_components(gate)
            if parts is not None:
                if cirq.num_qubits(gate) > _MOST_QUBITS:
                    raise _unknown(operation, f"acts on more than {_MOST_QUBITS} qubits")
                phases, projectors, exponent = parts
                return self._shared(phases, projectors), self._linear(exponent, operation)
        if cirq.is_parameterized(gate) or cirq.num_qubits(gate) > _MOST_QUBITS:
            return None
        matrix = cirq.unitary(gate, None)
        if matrix is None:
            raise _unknown(operation, "is no unitary")
        return self._shared(np.zeros(1), matrix[None]), Exponent(1.0)

    def _shared(self, phases: npt.ArrayLike, projectors: npt.ArrayLike) -> Spectrum:
        spectrum = Spectrum(np.asarray(phases, np.float64), np.asarray(projectors, np.complex128))
        return self._spectra.setdefault(spectrum.key, spectrum)

    def _linear(self, exponent: object, operation: cirq.Operation) -> Exponent:
        if not isinstance(exponent, sympy.Basic):
            return Exponent(float(exponent))  # type: ignore[arg-type]
        used = sorted(exponent.free_symbols, key=lambda symbol: self._index[symbol])
        constant, *coefficients = exponent.subs(dict.fromkeys(used, 0)), *(exponent.diff(symbol) for symbol in used)
        if any(coefficient.free_symbols or not coefficient.is_real for coefficient in (constant, *coefficients)):
            raise _unknown(operation, "has an exponent that is not linear in the symbols, with real coefficients")
        pairs = zip(used, coefficients, strict=True)
        return Exponent(float(constant), tuple((self._index[symbol], float(value)) for symbol, value in pairs))


def _eigen_components(gate: cirq.Gate) -> tuple[list[float], list[Complex], object] | None:
    if isinstance(gate, cirq.EigenGate):
        if cirq.parameter_names(gate) != cirq.parameter_names(gate.exponent):
            # The projectors depend on parameters.
            return None
        components = gate._eigen_components()
        return [phase + gate.global_shift for phase, _ in components], [p for _, p in components], gate.exponent
    if not isinstance(gate, cirq.ControlledGate):
        return None
    inner = _eigen_components(gate.sub_gate)
    if inner is None:
        return None
    phases, projectors, exponent = inner
    controls = 2 ** gate.num_controls()
    active = np.zeros(controls)
    for values in gate.control_values.expand():
        active[cirq.big_endian_bits_to_int(values)] = 1
    idle: Complex = np.kron(np.diag(1 - active), np.eye(len(projectors[0]))).astype(np.complex128)
    return [0.0, *phases], [idle, *(np.kron(np.diag(active), projector) for projector in projectors)], exponent


def _decomposed(operation: cirq.Operation) -> Iterable[cirq.Operation]:
    try:
        parts = cirq.decompose_once(operation, default=None)
    except ValueError as error:  # A circuit as an operation, repeated until a measurement says so.
        reason = " ".join(str(error).split())
        raise _unknown(operation, f"cannot be decomposed ({reason})") from None
    if parts is None:
        raise _unknown(operation, f"has no known unitary of at most {_MOST_QUBITS} qubits")
    return parts


def _unknown(operation: cirq.Operation, what: str) -> ConfigError:
    text = textwrap.shorten(str(operation), 200, placeholder=" ...")
    return ConfigError(f"model: an operation {what}; the simulators cannot run it. Given: {text}")
