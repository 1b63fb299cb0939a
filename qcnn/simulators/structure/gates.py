"""Conversion of a Cirq circuit to the intermediate representation of the simulators, see `network`."""

import dataclasses
import functools
import hashlib
import itertools
import math
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence

import cirq
import numpy as np
import numpy.typing as npt
import sympy

from qcnn.circuits import circuits
from qcnn.circuits.ansatz import decompose_once
from qcnn.circuits.circuits import Ansatz
from qcnn.circuits.deferred_measurements import count_conditions, has_repeated_measurement
from qcnn.circuits.formats import cirq_json
from qcnn.circuits.formats.embedded import MODELS, model_display_name
from qcnn.circuits.input_expressions import InputTerm, separate, summands, unsupported_part
from qcnn.circuits.linear_forms import linear_form
from qcnn.circuits.noise import NOISELESS, GateNoise, Noise
from qcnn.circuits.observables import qubits_of
from qcnn.circuits.preparation import EXCITATION, Preparation
from qcnn.errors import ConfigError, single_line
from qcnn.simulators.structure.network import (
    MAX_GATE_QUBITS,
    CircuitIR,
    Complex,
    Gate,
    GateSpectrum,
    LinearExponent,
)
from qcnn.simulators.structure.pauli_strings import joint_sums_of, sums_of

# Phases of a gate, in units of pi, with a smaller difference are equal: they are sums of floats.
PHASE_ROUNDING = 1e-12
# Maximum depth of recursive decompositions of an operation.
_MAX_DEPTH = 50
_NOT_FINITE = (sympy.nan, sympy.zoo, sympy.oo, -sympy.oo)
_NOT_A_NUMBER = "has an exponent that is not a finite number"


def read_model(
    model: str,
    qubits: int,
    preparation: Preparation = EXCITATION,
    noise: Noise = NOISELESS,
    *,
    joint: bool = False,
) -> tuple[Ansatz, CircuitIR]:
    """Build the circuit of a model and convert it with `read_network`.

    Args:
        model: Name of a built-in model or circuit file, see `qcnn.circuits.circuits.build`.
        qubits: Number of qubits on the ring.
        preparation: Preparation of the data states.
        noise: Noise channels after the gates.
        joint: Whether the joint probabilities of the readouts are predicted.

    Raises:
        ConfigError: If the circuit cannot be built, or no simulator supports it.
    """
    ansatz = circuits.build(model, qubits)
    return ansatz, read_network(ansatz, circuits.ring(qubits), preparation, noise, joint=joint)


def check_trainable(model: str, network: "CircuitIR") -> None:
    """Check that a network has something to train.

    Args:
        model: Name of its circuit, for the message.
        network: Circuit of the network.

    Raises:
        ConfigError: If the circuit has one readout and no parameters.
    """
    if not network.parameters and len(network.readouts) == 1:
        raise ConfigError(
            "model: must have a circuit parameter or several readouts, because dense layers are trained only with "
            f"several readouts. Given: {model_display_name(model)}"
        )


def read_network(
    ansatz: Ansatz,
    qubits: Sequence[cirq.Qid],
    preparation: Preparation = EXCITATION,
    noise: Noise = NOISELESS,
    *,
    joint: bool = False,
) -> CircuitIR:
    """Convert an ansatz on a ring of qubits to the representation of the simulators.

    Args:
        ansatz: Circuit, symbols and readouts.
        qubits: Qubits of the ring.
        preparation: Preparation of the data states.
        noise: Noise channels after the gates.
        joint: Whether the joint probabilities of the readouts are predicted.

    Raises:
        ConfigError: If an operation is not a supported unitary, an operation or readout is not on the ring, or the
            symbols differ from those of the circuit.
    """
    position = {qubit: index for index, qubit in enumerate(qubits)}
    for qubit in itertools.chain.from_iterable(map(qubits_of, ansatz.readouts)):
        if qubit not in position:
            raise ConfigError(f"model: a readout is not on the ring of {len(qubits)} qubits. Given: {qubit}")
    _check_inputs(ansatz, preparation)
    read = set(itertools.chain.from_iterable(map(qubits_of, ansatz.readouts)))
    gates = read_gates(ansatz.circuit.all_operations(), ansatz.symbols, qubits, noise, ansatz.inputs, read)
    exponents = {id(gate.exponent): gate.exponent for gate in gates}
    used = {index for exponent in exponents.values() for index in exponent.parameters}
    with_inputs = {
        symbol for each in exponents.values() for term in each.terms for symbol in term.expression.free_symbols
    }
    if idle := [symbol.name for symbol in ansatz.inputs if symbol not in with_inputs]:
        raise ConfigError(f"inputs: must all be used by gates of the circuit. Given: {', '.join(idle)}")
    unused = [symbol.name for number, symbol in enumerate(ansatz.symbols) if number not in used]
    if unused:
        raise ConfigError(f"model: symbols must not contain unused parameters. Given: {', '.join(unused)}")
    sums = joint_sums_of(ansatz.readouts, position) if joint else sums_of(ansatz.readouts, position)
    return CircuitIR(ansatz, tuple(qubits), gates, sums, preparation, noise, joint)


def _check_inputs(ansatz: Ansatz, preparation: Preparation) -> None:
    if preparation.kind != "circuit":
        if ansatz.inputs:
            raise ConfigError(
                f"encoding: must be circuit with a circuit that has inputs. Given: {preparation.kind} with "
                f"{', '.join(symbol.name for symbol in ansatz.inputs)}"
            )
    elif len(ansatz.inputs) != preparation.features or not ansatz.inputs:
        raise ConfigError(
            f"inputs: must be those of the circuit, {', '.join(symbol.name for symbol in ansatz.inputs) or 'none'}. "
            f"Given: {preparation.features} inputs"
        )


def read_gates(
    operations: Iterable[cirq.Operation],
    symbols: Sequence[sympy.Symbol],
    qubits: Sequence[cirq.Qid],
    noise: Noise = NOISELESS,
    inputs: Sequence[sympy.Symbol] = (),
    read: Collection[cirq.Qid] = (),
) -> tuple[Gate, ...]:
    """Convert operations to gates, each with the noise of its number of qubits.

    Args:
        operations: Operations of a circuit.
        symbols: Parameters, in the order of their indices.
        qubits: Qubits of the ring.
        noise: Noise channels after the gates.
        inputs: Symbols that are inputs.
        read: Qubits that are read out after the operations.

    Raises:
        ConfigError: If an operation is not a supported unitary, or not on the ring.
    """
    position = {qubit: index for index, qubit in enumerate(qubits)}
    index = {symbol.name: number for number, symbol in enumerate(symbols)}
    reader = _CircuitReader(position, index, {symbol.name for symbol in inputs})
    return tuple(reader.read_noisy(operations, noise, read) if noise else reader.read(operations))


class _CircuitReader:
    def __init__(self, position: Mapping[cirq.Qid, int], index: Mapping[str, int], inputs: set[str]) -> None:
        self._position, self._index, self._inputs = position, index, inputs
        # Looked up by identity first, because hashing a gate is slow. Gates are stored, so that their IDs stay unique.
        self._seen: dict[int, tuple[cirq.Gate, tuple[GateSpectrum, LinearExponent] | None]] = {}
        self._known: dict[cirq.Gate, tuple[GateSpectrum, LinearExponent] | None] = {}
        self._spectra: dict[tuple[bytes, bytes], GateSpectrum] = {}

    def read(self, operations: Iterable[cirq.Operation], depth: int = 0) -> Iterator[Gate]:
        """Yield the gates of operations, without global phases, which do not change expectation values."""
        for operation in operations:
            if isinstance(operation.gate, cirq.GlobalPhaseGate):
                continue
            try:
                known = self._lookup(operation)
                parts = _decompose(operation) if known is None else ()
                if depth > _MAX_DEPTH:
                    raise RecursionError
            except ConfigError:
                raise
            except RecursionError:
                raise _unsupported_error(operation, "has an endless decomposition") from None
            except Exception as error:  # Custom gates may raise any exception.
                raise _unsupported_error(
                    operation, f"cannot be read ({type(error).__name__}: {single_line(error)})"
                ) from None
            if known is None:
                yield from self.read(parts, depth + 1)
            elif operation.qubits:
                yield Gate(self._places(operation), *known)

    def read_noisy(
        self, operations: Iterable[cirq.Operation], noise: Noise, read: Collection[cirq.Qid]
    ) -> Iterator[Gate]:
        """Yield the gates of operations, with noise after the last gate of each operation.

        A circuit operation is replaced by its operations. The noise of a gate that measured bits condition is on its
        own qubits, whatever the bits are. Readout errors flip these bits.
        """
        expanded = list(_without_circuit_operations(operations))
        shared = _first_uses_of_shared_bits(expanded) if noise.readout else {}
        for number, operation in enumerate(expanded):
            gates = list(self.read([operation]))
            conditions = count_conditions(operation)
            if conditions and noise.readout:
                bits = operation.qubits[:conditions]
                if len(gates) != 1:
                    shared |= {bit: number for bit in bits if bit not in shared}
                for bit in bits:
                    if shared.get(bit) == number:
                        _check_only_conditions(bit, expanded[number:], noise, read)
                        yield from self._bit_flip(bit, noise.readout)
                flips = tuple(0.0 if bit in shared else noise.readout for bit in bits)
                if any(flips):
                    gates[0] = dataclasses.replace(gates[0], bit_flips=flips)
            own = operation.qubits[conditions:]
            channel = noise.channel(len(own)) if own else None
            if channel:
                places = self._places(operation)[conditions:]
                if len(places) > MAX_GATE_QUBITS:
                    raise _unsupported_error(operation, f"with noise acts on more than {MAX_GATE_QUBITS} qubits")
                if not gates or gates[-1].qubits != places:
                    gates.append(Gate(places, _identity(len(places)), LinearExponent(0.0)))
                gates[-1] = dataclasses.replace(gates[-1], channel=channel)
            yield from gates

    def _bit_flip(self, qubit: cirq.Qid, probability: float) -> Iterator[Gate]:
        """Yield gates that flip a qubit with a probability.

        Between two Hadamard gates, Z is X, and phase damping is Z with a probability up to 1/2.
        """
        (hadamard,) = self.read([cirq.H(qubit)])
        yield dataclasses.replace(hadamard, channel=GateNoise(phase_damping=1 - (1 - 2 * probability) ** 2))
        yield hadamard
        if probability > 1 / 2:
            yield from self.read([cirq.X(qubit)])

    def _places(self, operation: cirq.Operation) -> tuple[int, ...]:
        try:
            return tuple(self._position[qubit] for qubit in operation.qubits)
        except KeyError:
            raise _unsupported_error(operation, f"acts outside of the ring of {len(self._position)} qubits") from None

    def _lookup(self, operation: cirq.Operation) -> tuple[GateSpectrum, LinearExponent] | None:
        gate = operation.gate
        if gate is None:
            return None
        if id(gate) not in self._seen:
            self._seen[id(gate)] = gate, self._lookup_equal(gate, operation)
        return self._seen[id(gate)][1]

    def _lookup_equal(self, gate: cirq.Gate, operation: cirq.Operation) -> tuple[GateSpectrum, LinearExponent] | None:
        # Hashing a gate with symbols takes longer than reading it.
        if not isinstance(gate, Hashable) or cirq.is_parameterized(gate):
            return self._spectrum(gate, operation)
        if gate not in self._known:
            self._known[gate] = self._spectrum(gate, operation)
        return self._known[gate]

    def _spectrum(self, gate: cirq.Gate, operation: cirq.Operation) -> tuple[GateSpectrum, LinearExponent] | None:
        """Return the spectrum and exponent of a gate, or None if it must be decomposed."""
        if any(dimension != 2 for dimension in cirq.qid_shape(gate)):
            raise _unsupported_error(operation, "acts on a qudit whose dimension is not 2")
        if isinstance(gate, cirq.EigenGate | cirq.ControlledGate):
            parts = _eigen_components(gate)
            if parts is not None:
                if cirq.num_qubits(gate) > MAX_GATE_QUBITS:
                    raise _unsupported_error(operation, f"acts on more than {MAX_GATE_QUBITS} qubits")
                phases, projectors, exponent = parts
                return self._shared(phases, projectors, operation), self._linear(exponent, operation)
        if cirq.is_parameterized(gate) or cirq.num_qubits(gate) > MAX_GATE_QUBITS:
            return None
        matrix = cirq.unitary(gate, None)
        if matrix is None:
            raise _unsupported_error(operation, _why_no_unitary(operation))
        return self._shared(np.zeros(1), matrix[None], operation), LinearExponent(1.0)

    def _shared(self, phases: npt.ArrayLike, projectors: npt.ArrayLike, operation: cirq.Operation) -> GateSpectrum:
        spectrum = GateSpectrum(np.asarray(phases, np.float64), np.asarray(projectors, np.complex128))
        if spectrum.key not in self._spectra:
            if not spectrum.is_unitary:
                raise _unsupported_error(operation, "has a matrix that is not unitary")
            self._spectra[spectrum.key] = spectrum
        return self._spectra[spectrum.key]

    def _linear(self, exponent: object, operation: cirq.Operation) -> LinearExponent:
        if not isinstance(exponent, sympy.Basic):
            return LinearExponent(_finite(exponent, operation))
        if isinstance(exponent, sympy.Symbol) and exponent.name in self._index:
            # The general form takes ten times as long, and a circuit can have thousands of such gates.
            return LinearExponent(0.0, ((self._index[exponent.name], 1.0),))
        used = sorted(exponent.free_symbols, key=lambda symbol: str(symbol.name))
        for symbol in used:
            if symbol.name not in self._index and symbol.name not in self._inputs:
                raise _unsupported_error(operation, f"has the parameter {symbol.name}, which is not in symbols")
        if any(symbol.name in self._inputs for symbol in used):
            return self._with_inputs(exponent, operation)
        if form := linear_form(exponent):
            constant, slopes = form.constant, [form.coefficients[symbol] for symbol in used]
        else:
            constant, slopes = exponent.subs(dict.fromkeys(used, 0)), [exponent.diff(symbol) for symbol in used]
        if exponent.has(*_NOT_FINITE):
            raise _unsupported_error(operation, _NOT_A_NUMBER)
        if any(slope.free_symbols or not slope.is_real for slope in (constant, *slopes)):
            raise _unsupported_error(
                operation, "has an exponent that is not linear in the symbols with real coefficients"
            )
        coefficients: dict[int, float] = {}
        for symbol, slope in zip(used, slopes, strict=True):
            # Symbols of the same name are the same parameter.
            index = self._index[symbol.name]
            coefficients[index] = coefficients.get(index, 0.0) + _finite(slope, operation)
        return LinearExponent(_finite(constant, operation), tuple(sorted(coefficients.items())))

    def _with_inputs(self, exponent: sympy.Expr, operation: cirq.Operation) -> LinearExponent:
        """Return an exponent that depends on inputs: functions of the inputs, some of them times a parameter."""
        symbols = {symbol for symbol in exponent.free_symbols if symbol.name in self._index}
        inputs = exponent.free_symbols - symbols
        factors = separate(exponent, symbols)
        if factors is None:
            raise _unsupported_error(operation, "has an exponent that is not linear in the parameters")
        constant, coefficients, terms = 0.0, dict[int, float](), list[InputTerm]()
        for symbol, factor in sorted(factors.items(), key=lambda item: str(item[0] or "")):
            index = None if symbol is None else self._index[symbol.name]
            for number, expression in summands(factor, inputs):
                if (part := unsupported_part(expression)) is not None:
                    raise _unsupported_error(operation, f"has an exponent with {part}, which is no elementary function")
                value = _finite(number, operation)
                if expression.free_symbols:
                    terms.append(InputTerm(value, expression, index))
                elif index is None:
                    constant += value
                else:
                    coefficients[index] = coefficients.get(index, 0.0) + value
        return LinearExponent(constant, tuple(sorted(coefficients.items())), tuple(terms))


def _without_circuit_operations(operations: Iterable[cirq.Operation]) -> Iterator[cirq.Operation]:
    for operation in operations:
        if isinstance(operation.untagged, cirq.CircuitOperation):
            yield from _without_circuit_operations(_decompose(operation))
        else:
            yield operation


def _first_uses_of_shared_bits(operations: Sequence[cirq.Operation]) -> dict[cirq.Qid, int]:
    """Return the number of the first of several operations that a measured bit conditions, by the bit's qubit."""
    uses: dict[cirq.Qid, list[int]] = {}
    for number, operation in enumerate(operations):
        for bit in operation.qubits[: count_conditions(operation)]:
            uses.setdefault(bit, []).append(number)
    return {bit: numbers[0] for bit, numbers in uses.items() if len(numbers) > 1}


def _check_only_conditions(
    bit: cirq.Qid, operations: Iterable[cirq.Operation], noise: Noise, read: Collection[cirq.Qid]
) -> None:
    """Raise ConfigError if a bit conditions several gates, and its qubit has another use.

    All of the gates see the same flip. It is a flip of the qubit itself if the bit is all that remains of it.

    Args:
        bit: Measured qubit.
        operations: Operations from the first one that the bit conditions.
        noise: Noise with readout errors.
        read: Qubits that are read out.
    """
    others = [each for each in operations if bit in each.qubits]
    used = [
        single_line(each.untagged)
        for each in others
        if bit not in each.qubits[: count_conditions(each)] or has_repeated_measurement(each)
    ]
    if bit in read:
        used.append(f"readout of {bit}")
    if used:
        raise ConfigError(
            "noise: must have no readout errors if a measured bit conditions several gates and its qubit controls a "
            f"gate, is measured again or is read out afterwards. Given: readout={noise.readout:g} with {used[0]}"
        )


@functools.cache
def _identity(qubits: int) -> GateSpectrum:
    return GateSpectrum(np.zeros(1), np.eye(2**qubits, dtype=np.complex128)[None])


def _finite(value: object, operation: cirq.Operation) -> float:
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise _unsupported_error(operation, _NOT_A_NUMBER)
    return number


def _eigen_components(gate: cirq.Gate) -> tuple[list[float], list[Complex], object] | None:
    if isinstance(gate, cirq.EigenGate):
        if cirq.parameter_names(gate) != cirq.parameter_names(gate.exponent):
            # The projectors depend on parameters, too.
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


def _decompose(operation: cirq.Operation) -> Iterable[cirq.Operation]:
    if isinstance(operation.untagged, cirq.ClassicallyControlledOperation):
        raise _unsupported_error(operation, "is controlled by the outcome of a measurement")
    try:
        parts = decompose_once(operation)
    except ValueError as error:  # For example a circuit operation that repeats until a measurement result.
        raise _unsupported_error(operation, f"cannot be decomposed ({single_line(error)})") from None
    if parts is None:
        raise _unsupported_error(operation, _why_no_unitary(operation))
    return parts


def _why_no_unitary(operation: cirq.Operation) -> str:
    if cirq.is_measurement(operation):
        return "is a measurement; readouts are expectation values at the end of the circuit"
    if isinstance(operation.gate, cirq.ResetChannel):
        return "is a reset, which is not unitary"
    is_channel = cirq.has_kraus(operation) and not cirq.has_unitary(operation)
    if is_channel or isinstance(operation.gate, cirq.RandomGateChannel):
        return "is a noise channel, which is not unitary"
    return f"has no known unitary of at most {MAX_GATE_QUBITS} qubits"


def _unsupported_error(operation: cirq.Operation, reason: str) -> ConfigError:
    return ConfigError(f"model: an operation {reason}; no simulator supports it. Given: {single_line(operation)}")


def preparation_for(ansatz: Ansatz, otherwise: Preparation = EXCITATION) -> Preparation:
    """Return the preparation of an ansatz: that of its inputs, or another without inputs."""
    return Preparation("circuit", len(ansatz.inputs)) if ansatz.inputs else otherwise


def fingerprint(model: str, qubits: int) -> str:
    """Return a digest of a custom circuit, or an empty string for a built-in model.

    Raises:
        ConfigError: If the circuit cannot be built, or no simulator supports it.
    """
    if model in MODELS:
        return ""
    ansatz = circuits.build(model, qubits)
    return _digest(read_network(ansatz, circuits.ring(qubits), preparation_for(ansatz)))


def fingerprint_of(model: str, network: CircuitIR) -> str:
    """Return the `fingerprint` of a model from its network."""
    return "" if model in MODELS else _digest(network)


def _digest(network: CircuitIR) -> str:
    return hashlib.sha256((_as_json(network.ansatz) or _as_read(network)).encode()).hexdigest()


def _as_json(ansatz: Ansatz) -> str | None:
    """Return the circuit in Cirq's JSON format, or None if it has custom gates that Cirq cannot serialize."""
    try:
        return cirq_json.to_json(ansatz)
    except (TypeError, ValueError):
        return None


def _as_read(network: CircuitIR) -> str:
    gates = [
        (
            gate.qubits,
            *(part.hex() for part in gate.spectrum.key),
            gate.exponent.constant,
            gate.exponent.coefficients,
            *gate.exponent.terms,
        )
        for gate in network.gates
    ]
    return repr((network.qubits, network.parameters, network.readouts, gates))
