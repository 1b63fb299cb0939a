"""Convert Qiskit instructions to cirq operations, up to a global phase, with parameters in units of pi.

A parameter in OpenQASM is an angle in radians. The trained parameter is this angle divided by pi, as in all circuits.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import cirq
import sympy
from qiskit.circuit import (
    Barrier,
    ControlledGate,
    Gate,
    Instruction,
    Parameter,
    ParameterExpression,
    QuantumCircuit,
    Qubit,
)
from qiskit.circuit.library import UnitaryGate, standard_gates

from qcnn.circuits.linear_forms import linear_form
from qcnn.errors import ConfigError, single_line

# Number or linear form of symbols, in units of pi.
Exponent = Any
# A circuit with more operations is too large to be embedded in an experiment.
MAX_OPERATIONS = 20_000
# Maximum number of qubits of a gate that simulators support without decomposition, and of parameters of a gate below.
_MAX_QUBITS, _MAX_PARAMETERS = 4, 3
# Maximum nesting depth of gate definitions.
_MAX_DEPTH = 100


class CircuitSymbols(NamedTuple):
    """Symbols by the names of Qiskit's parameters, and those that are inputs of the circuit."""

    by_name: Mapping[str, sympy.Symbol]
    inputs: frozenset[str] = frozenset()


def _rotation(kind: type[cirq.EigenGate]) -> Callable[[Exponent], list[cirq.Gate]]:
    """Return a factory of rotations exp(-i pi exponent / 2 P) from powers of P."""
    return lambda exponent: [kind(exponent=exponent, global_shift=-0.5)]


def _phase(exponent: Exponent) -> list[cirq.Gate]:
    return [cirq.ZPowGate(exponent=exponent)] if exponent else []


def _general(theta: Exponent, phi: Exponent, lam: Exponent) -> list[cirq.Gate]:
    """Return the gates of U(theta, phi, lambda) = P(phi) RY(theta) P(lambda), in time order."""
    return [*_phase(lam), cirq.YPowGate(exponent=theta, global_shift=-0.5), *_phase(phi)]


# Gates of qelib1.inc and stdgates.inc, including their phase, which is relevant for controlled forms. Other gates are
# expanded by their definitions.
_GATES: dict[type[Gate], Callable[..., list[cirq.Gate]]] = {
    standard_gates.IGate: lambda: [],
    standard_gates.XGate: lambda: [cirq.X],
    standard_gates.YGate: lambda: [cirq.Y],
    standard_gates.ZGate: lambda: [cirq.Z],
    standard_gates.HGate: lambda: [cirq.H],
    standard_gates.SGate: lambda: [cirq.S],
    standard_gates.SdgGate: lambda: [cirq.S**-1],
    standard_gates.TGate: lambda: [cirq.T],
    standard_gates.TdgGate: lambda: [cirq.T**-1],
    standard_gates.SXGate: lambda: [cirq.X**0.5],
    standard_gates.SXdgGate: lambda: [cirq.X**-0.5],
    standard_gates.RXGate: _rotation(cirq.XPowGate),
    standard_gates.RYGate: _rotation(cirq.YPowGate),
    standard_gates.RZGate: _rotation(cirq.ZPowGate),
    standard_gates.PhaseGate: _phase,
    standard_gates.U1Gate: _phase,
    standard_gates.U2Gate: lambda phi, lam: _general(0.5, phi, lam),
    standard_gates.U3Gate: _general,
    standard_gates.UGate: _general,
    standard_gates.SwapGate: lambda: [cirq.SWAP],
    standard_gates.iSwapGate: lambda: [cirq.ISWAP],
    standard_gates.RXXGate: _rotation(cirq.XXPowGate),
    standard_gates.RYYGate: _rotation(cirq.YYPowGate),
    standard_gates.RZZGate: _rotation(cirq.ZZPowGate),
}


# Prefix for names of gates that an OpenQASM 3 file defines. Qiskit identifies some standard gates by name, for example
# when it adds controls.
CUSTOM_PREFIX = "·"
# Keywords of OpenQASM by Qiskit's names of statements.
_KEYWORDS = {"if_else": "if", "while_loop": "while", "for_loop": "for", "switch_case": "switch"}


def openqasm_name(instruction: Instruction) -> str:
    """Return the name of an instruction in OpenQASM."""
    return _KEYWORDS.get(instruction.name, str(instruction.name)).replace(CUSTOM_PREFIX, "")


def error_message(error: Exception) -> str:
    """Return the message of a Qiskit error on one line, or its class name if it has no message."""
    # str() of Qiskit's errors and of KeyError puts the message in quotes.
    message = error.args[0] if isinstance(error, KeyError) and error.args else getattr(error, "message", error)
    return single_line(message).replace(CUSTOM_PREFIX, "") or type(error).__name__


def operations(
    instruction: Instruction,
    qubits: Sequence[cirq.Qid],
    symbols: CircuitSymbols,
    depth: int = 0,
) -> Iterator[cirq.Operation | None]:
    """Yield the cirq operations of an instruction, and None for each visited instruction.

    The None values let the caller limit the time for definitions without operations.

    Args:
        instruction: Qiskit instruction.
        qubits: Qubits that it acts on.
        symbols: Symbols by names of parameters.
        depth: Nesting depth of the gate definition that contains the instruction.

    Raises:
        ConfigError: If the instruction is not a known or defined gate, definitions are nested too deep, or a
            parameter is not linear in the symbols.
    """
    yield None
    if isinstance(instruction, Barrier):
        return
    if not isinstance(instruction, Gate):
        raise ConfigError(
            "model: the circuit must consist of gates, and of measurements at its end. "
            f"Given: {openqasm_name(instruction)}"
        )
    if depth > _MAX_DEPTH:
        raise ConfigError(
            f"model: gate definitions must be nested at most {_MAX_DEPTH} levels deep. "
            f"Given: more in {openqasm_name(instruction)}"
        )
    if instruction.base_class in _GATES:
        yield from (gate.on(*qubits) for gate in _cirq_gates(instruction, symbols))
    elif isinstance(instruction, UnitaryGate) and len(qubits) <= _MAX_QUBITS:
        # Qiskit's first qubit is the least significant.
        yield cirq.MatrixGate(instruction.to_matrix()).on(*reversed(qubits))
    elif _is_controlled(instruction):
        yield from _controlled_operations(instruction, qubits, symbols)
    elif instruction.definition is not None:
        yield from _definition_operations(instruction.definition, qubits, symbols, depth + 1)
    else:
        raise ConfigError(f"model: a gate must be known or defined. Given: {openqasm_name(instruction)}")


def _is_controlled(gate: Gate) -> bool:
    if not isinstance(gate, ControlledGate) or gate.num_qubits > _MAX_QUBITS:
        return False
    base = gate.base_gate
    # CU and its controlled forms have one more parameter than their base gate, which can also list that parameter.
    of_cu = gate.base_class is standard_gates.CUGate or len(base.params) > _MAX_PARAMETERS
    return base.base_class in _GATES and not of_cu


def _controlled_operations(
    gate: ControlledGate, qubits: Sequence[cirq.Qid], symbols: CircuitSymbols
) -> Iterator[cirq.Operation]:
    count = gate.num_ctrl_qubits
    values = [gate.ctrl_state >> control & 1 for control in range(count)]
    for base in _cirq_gates(gate.base_gate, symbols):
        yield base.controlled(count, None if all(values) else values).on(*qubits)


def _cirq_gates(gate: Gate, symbols: CircuitSymbols) -> list[cirq.Gate]:
    return _GATES[gate.base_class](*(_to_exponent(angle, gate, symbols) for angle in gate.params))


def _definition_operations(
    definition: QuantumCircuit, qubits: Sequence[cirq.Qid], symbols: CircuitSymbols, depth: int
) -> Iterator[cirq.Operation | None]:
    # The definition's global phase is ignored. For controlled gates, Qiskit adds the phase to the definition as a gate.
    places: dict[Qubit, cirq.Qid] = dict(zip(definition.qubits, qubits, strict=True))
    for part in definition.data:
        yield from operations(part.operation, [places[qubit] for qubit in part.qubits], symbols, depth)


def _to_exponent(angle: object, gate: Gate, symbols: CircuitSymbols) -> Exponent:
    """Convert an angle and its parameters, except inputs, from radians to units of pi.

    Raises:
        ConfigError: If the angle is not linear in the symbols or not finite.
    """
    if not isinstance(angle, ParameterExpression):
        return _finite(angle, gate) / math.pi
    if isinstance(angle, Parameter) and angle.name not in symbols.inputs:
        return symbols.by_name[angle.name]
    form = angle.sympify()
    used = sorted(form.free_symbols, key=lambda symbol: str(symbol.name))
    if any(symbol.name in symbols.inputs for symbol in used):
        # The simulators check the form. An input keeps its values; a parameter is in units of pi.
        in_radians = {
            symbol: symbols.by_name[symbol.name] * (1 if symbol.name in symbols.inputs else sympy.pi) for symbol in used
        }
        return form.subs(in_radians, simultaneous=True) / sympy.pi
    linear = linear_form(form)
    slopes = [linear.coefficients[symbol] if linear else form.diff(symbol) for symbol in used]
    if any(slope.free_symbols for slope in slopes):
        raise ConfigError(
            f"model: an angle must be linear in the inputs. Given: {openqasm_name(gate)}({single_line(form)})"
        )
    exponent: Exponent = sum(
        _simplify_number(_finite(slope, gate)) * symbols.by_name[str(symbol.name)]
        for symbol, slope in zip(used, slopes, strict=True)
    )
    constant = _finite(linear.constant if linear else form.subs(dict.fromkeys(used, 0)), gate) / math.pi
    return exponent + constant if constant else exponent


def _simplify_number(number: float) -> int | float:
    """Return an integral float as an int, because X^(2*a) is easier to read than X^(2.0*a)."""
    return int(number) if number.is_integer() else number


def _finite(value: Any, gate: Gate) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise ConfigError(
            f"model: an angle must be a finite number. Given: {openqasm_name(gate)}({single_line(value)})"
        )
    return number
