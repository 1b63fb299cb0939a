"""Measurements in mid-circuit, whose bits condition gates, as controlled gates.

A measured qubit that afterwards only controls gates, and is only read out in Z, has equal statistics if it is not
measured and controls the gates that its bit conditions (deferred measurement: Nielsen and Chuang, section 4.4).
"""

import dataclasses
import itertools
from collections.abc import Iterable, Sequence

import cirq
import numpy as np
import sympy

from qcnn.circuits.observables import Readout, terms_of
from qcnn.errors import ConfigError, single_line

# Tag of a controlled gate, once for each of its first qubits that stands for a measured bit.
_TAG = "measured"
# Tag of a controlled gate, one of whose bits is not the first that was measured on its qubit.
_AGAIN = "measured again"
_RULE = "after a qubit is measured in mid-circuit it may control gates and be read out in Z, nothing else"


@dataclasses.dataclass(frozen=True)
class Condition:
    """Condition of a gate: a measured qubit and the outcome for which the gate acts."""

    qubit: cirq.Qid
    outcome: int


def conditioned(operation: cirq.Operation, conditions: Sequence[Condition]) -> cirq.Operation:
    """Return an operation that acts only for certain outcomes, as an operation that the measured qubits control.

    Raises:
        ConfigError: If the operation is no gate, or acts on a qubit that conditions it.
    """
    if shared := [each.qubit for each in conditions if each.qubit in operation.qubits]:
        raise _broken_rule(f"{single_line(operation)} is conditioned by the measurement of {shared[0]}")
    # Measured bits of a condition on another condition.
    inner = count_conditions(operation)
    controls, outcomes = [each.qubit for each in conditions], [each.outcome for each in conditions]
    try:
        controlled = operation.untagged.controlled_by(*controls, control_values=outcomes)
    except (TypeError, ValueError):
        raise ConfigError(f"model: a bit must condition a gate. Given: {single_line(operation)}") from None
    return controlled.with_tags(*[_TAG] * (inner + len(conditions)))


def count_conditions(operation: cirq.Operation) -> int:
    """Return how many of an operation's first qubits stand for measured bits."""
    return operation.tags.count(_TAG) if operation.tags else 0


def has_repeated_measurement(operation: cirq.Operation) -> bool:
    """Return whether a qubit was measured before the measurement whose bit conditions an operation."""
    return _AGAIN in operation.tags


def has_measurements(circuit: cirq.AbstractCircuit) -> bool:
    """Return whether a circuit has measurements, conditioned operations or resets."""
    return any(
        isinstance(operation.untagged, cirq.ClassicallyControlledOperation)
        or isinstance(operation.gate, cirq.MeasurementGate | cirq.ResetChannel)
        for operation in circuit.all_operations()
    )


def conditioning_keys(circuit: cirq.AbstractCircuit) -> set[str]:
    """Return the keys of the measurements that condition an operation."""
    operations = (operation.untagged for operation in circuit.all_operations())
    conditioned = (each for each in operations if isinstance(each, cirq.ClassicallyControlledOperation))
    return {str(key) for each in conditioned for key in cirq.control_keys(each)}


def without_measurements(circuit: cirq.AbstractCircuit, readouts: Sequence[Readout]) -> cirq.Circuit:
    """Return a circuit whose measurements in mid-circuit are replaced by controlled gates.

    Resets of qubits that nothing uses afterwards are removed.

    Args:
        circuit: Circuit, whose measurements all condition operations.
        readouts: Readouts at its end.

    Raises:
        ConfigError: If a measurement does not condition an operation, or a qubit is used against the rule.
    """
    keys = conditioning_keys(circuit)
    deferred = DeferredMeasurements()
    # Outcome by key: the qubit, and the outcome that its bit has as 1.
    bits: dict[str, Condition] = {}
    operations: list[cirq.Operation] = []
    for operation in circuit.all_operations():
        untagged, gate = operation.untagged, operation.gate
        if isinstance(gate, cirq.ResetChannel):
            deferred.reset(operation.qubits[0])
        elif isinstance(gate, cirq.MeasurementGate):
            key = cirq.measurement_key_name(operation)
            if key not in keys:
                raise ConfigError(
                    "model: a measurement must condition a gate; readouts are expectation values at the end of the "
                    f"circuit. Given: {single_line(operation)}"
                )
            if len(operation.qubits) != 1 or gate.confusion_map:
                raise ConfigError(
                    "model: a measurement that conditions a gate must be of one qubit, without confusion_map. "
                    f"Given: {single_line(operation)}"
                )
            deferred.measure(operation.qubits[0])
            bits[key] = Condition(operation.qubits[0], 0 if any(gate.full_invert_mask()) else 1)
        elif isinstance(untagged, cirq.ClassicallyControlledOperation):
            conditions = [_condition(each, bits) for each in untagged.classical_controls]
            plain = untagged.without_classical_controls()
            ordered = sorted(conditions, key=lambda each: each.qubit)
            operations.append(deferred.use(conditioned(plain, ordered)))
        else:
            operations.append(deferred.use(operation))
    deferred.check_readouts(readouts)
    return cirq.Circuit(operations)


class DeferredMeasurements:
    """Qubits that were measured or reset so far, and the check of what uses them afterwards."""

    def __init__(self) -> None:
        self._measured: set[cirq.Qid] = set()
        self._measured_again: set[cirq.Qid] = set()
        self._reset: set[cirq.Qid] = set()

    def measure(self, qubit: cirq.Qid) -> None:
        """Measure a qubit."""
        self._check_not_reset([qubit])
        (self._measured_again if qubit in self._measured else self._measured).add(qubit)

    def reset(self, qubit: cirq.Qid) -> None:
        """Reset a qubit, which nothing may use afterwards."""
        self._reset.add(qubit)

    def use(self, operation: cirq.Operation) -> cirq.Operation:
        """Return an operation after the check that it follows the rule.

        Raises:
            ConfigError: If it changes a measured qubit, or uses a qubit after its reset.
        """
        self._check_not_reset(operation.qubits)
        for qubit in operation.qubits:
            if qubit in self._measured and not _is_control(operation, qubit):
                raise _broken_rule(f"{single_line(operation)} after the measurement of {qubit}")
        if self._measured_again.isdisjoint(operation.qubits[: count_conditions(operation)]):
            return operation
        return operation.with_tags(_AGAIN)

    def check_readouts(self, readouts: Iterable[Readout]) -> None:
        """Check the readouts at the end.

        Raises:
            ConfigError: If a measured qubit is read out in X or Y, or a qubit is read out after its reset.
        """
        paulis = itertools.chain.from_iterable(each.items() for readout in readouts for _, each in terms_of(readout))
        for qubit, axis in paulis:
            self._check_not_reset([qubit])
            if qubit in self._measured and axis != "Z":
                raise _broken_rule(f"readout {axis} of {qubit}")

    @property
    def qubits(self) -> set[cirq.Qid]:
        """Qubits that were measured or reset."""
        return self._measured | self._reset

    def _check_not_reset(self, qubits: Iterable[cirq.Qid]) -> None:
        if used := [qubit for qubit in qubits if qubit in self._reset]:
            raise ConfigError(
                f"model: a qubit must not be used after its reset, which is not unitary. Given: {used[0]}"
            )


def _broken_rule(given: str) -> ConfigError:
    return ConfigError(f"model: {_RULE}. Given: {given}")


def _condition(condition: cirq.Condition, bits: dict[str, Condition]) -> Condition:
    """Return the condition on a measured qubit: that its bit is 1, or that it equals 0 or 1."""
    outcome = 1
    match condition:
        case cirq.KeyCondition(key=key):
            name = str(key)
        case cirq.SympyCondition(expr=sympy.Eq(lhs=sympy.Symbol() as symbol, rhs=sympy.Integer() as value)):
            name, outcome = str(symbol.name), int(value)
        case _:
            raise _unsupported_condition(condition)
    if outcome not in (0, 1):
        raise _unsupported_condition(condition)
    if name not in bits:
        raise ConfigError(f"model: a bit must be measured before it conditions a gate. Given: {name}")
    bit = bits[name]
    return dataclasses.replace(bit, outcome=bit.outcome if outcome else 1 - bit.outcome)


def _unsupported_condition(condition: cirq.Condition) -> ConfigError:
    return ConfigError(
        f"model: a gate must be conditioned by bits that are 1, or equal 0 or 1. Given: {single_line(condition)}"
    )


def _is_control(operation: cirq.Operation, qubit: cirq.Qid) -> bool:
    """Return whether an operation commutes with Z on a qubit, at all parameters."""
    symbols = sorted(cirq.parameter_names(operation))
    place = operation.qubits.index(qubit)
    # An exponent that is not linear is rejected elsewhere. Two values exclude a coincidence.
    for start in (0.37, 1.91):
        values = {symbol: start + 0.11 * number for number, symbol in enumerate(symbols)}
        matrix = cirq.unitary(cirq.resolve_parameters(operation, values), None)
        if matrix is None:
            return False
        size = len(operation.qubits)
        bits = matrix.reshape((2,) * (2 * size))
        moved = np.moveaxis(bits, (place, size + place), (0, 1))
        if not (np.allclose(moved[0, 1], 0, atol=1e-9) and np.allclose(moved[1, 0], 0, atol=1e-9)):
            return False
    return True
