"""Qiskit's instructions as cirq's operations, equal up to a global phase, with parameters in turns of pi.

A parameter of OpenQASM is an angle in radians; what is trained is that number over pi, as in every other circuit.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import cirq
import sympy
from qiskit.circuit import Barrier, ControlledGate, Gate, Instruction, ParameterExpression, QuantumCircuit, Qubit
from qiskit.circuit.library import UnitaryGate, standard_gates

from qcnn.errors import ConfigError, single_line

# A number, or a linear form of symbols, in turns of pi.
Exponent = Any
# More are no circuit that a text of an experiment holds.
MAX_OPERATIONS = 20_000
# Qubits of a gate that simulators take as it is, and parameters of the gates below.
_MAX_QUBITS, _MAX_PARAMETERS = 4, 3
# Definitions within each other.
_MAX_DEPTH = 100


def _rotation(kind: type[cirq.EigenGate]) -> Callable[[Exponent], list[cirq.Gate]]:
    """Return what makes a rotation, exp(-i pi turns / 2 P), of a power of P."""
    return lambda turns: [kind(exponent=turns, global_shift=-0.5)]


def _phase(turns: Exponent) -> list[cirq.Gate]:
    return [cirq.ZPowGate(exponent=turns)] if turns else []


def _general(theta: Exponent, phi: Exponent, lam: Exponent) -> list[cirq.Gate]:
    """Return U(theta, phi, lambda) = P(phi) RY(theta) P(lambda), the first that acts first."""
    return [*_phase(lam), cirq.YPowGate(exponent=theta, global_shift=-0.5), *_phase(phi)]


# What the gates of qelib1.inc and stdgates.inc are, with their phase, so that their controlled forms follow from them.
# All others are what their definitions make of these.
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


# Before the name of a gate that an OpenQASM 3 file defines: Qiskit takes some gates for its own by their names, such as
# where it controls them.
CUSTOM_PREFIX = "·"
# What Qiskit calls statements, and how they are written.
_KEYWORDS = {"if_else": "if", "while_loop": "while", "for_loop": "for", "switch_case": "switch"}


def openqasm_name(instruction: Instruction) -> str:
    """Return how an instruction is written in OpenQASM."""
    return _KEYWORDS.get(instruction.name, str(instruction.name)).replace(CUSTOM_PREFIX, "")


def error_message(error: Exception) -> str:
    """Return the message of an error of Qiskit's on one line, or its class if it has none."""
    # Qiskit's errors quote their message, and Python that of a KeyError.
    message = error.args[0] if isinstance(error, KeyError) and error.args else getattr(error, "message", error)
    return single_line(message).replace(CUSTOM_PREFIX, "") or type(error).__name__


def operations(
    instruction: Instruction,
    qubits: Sequence[cirq.Qid],
    symbols: Mapping[str, sympy.Symbol],
    depth: int = 0,
) -> Iterator[cirq.Operation | None]:
    """Yield what an instruction does to qubits, and None for each part of it that does nothing.

    Raises:
        ConfigError: it is no gate that is known or defined, its definition has too many others within each other, or
            its parameters are not linear in the symbols.
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
            f"model: a gate's definition must have at most {_MAX_DEPTH} others within each other. "
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
    # CU and its controlled forms have a parameter more than their base gate, which may list it as its own all the same.
    of_cu = gate.base_class is standard_gates.CUGate or len(base.params) > _MAX_PARAMETERS
    return base.base_class in _GATES and not of_cu


def _controlled_operations(
    gate: ControlledGate, qubits: Sequence[cirq.Qid], symbols: Mapping[str, sympy.Symbol]
) -> Iterator[cirq.Operation]:
    count = gate.num_ctrl_qubits
    values = [gate.ctrl_state >> control & 1 for control in range(count)]
    for base in _cirq_gates(gate.base_gate, symbols):
        yield base.controlled(count, None if all(values) else values).on(*qubits)


def _cirq_gates(gate: Gate, symbols: Mapping[str, sympy.Symbol]) -> list[cirq.Gate]:
    return _GATES[gate.base_class](*(_to_exponent(angle, gate, symbols) for angle in gate.params))


def _definition_operations(
    definition: QuantumCircuit, qubits: Sequence[cirq.Qid], symbols: Mapping[str, sympy.Symbol], depth: int
) -> Iterator[cirq.Operation | None]:
    # Its global phase is one of the whole circuit: where a gate is controlled, Qiskit has put it into the definition.
    places: dict[Qubit, cirq.Qid] = dict(zip(definition.qubits, qubits, strict=True))
    for part in definition.data:
        yield from operations(part.operation, [places[qubit] for qubit in part.qubits], symbols, depth)


def _to_exponent(angle: object, gate: Gate, symbols: Mapping[str, sympy.Symbol]) -> Exponent:
    """Return an angle in radians in turns of pi, its parameters too.

    Raises:
        ConfigError: it is not linear in the symbols, or no finite number.
    """
    if not isinstance(angle, ParameterExpression):
        return _finite(angle, gate) / math.pi
    form = angle.sympify()
    used = sorted(form.free_symbols, key=lambda symbol: str(symbol.name))
    slopes = [form.diff(symbol) for symbol in used]
    if any(slope.free_symbols for slope in slopes):
        raise ConfigError(
            f"model: an angle must be linear in the inputs. Given: {openqasm_name(gate)}({single_line(form)})"
        )
    turns: Exponent = sum(
        _simplify_number(_finite(slope, gate)) * symbols[str(symbol.name)]
        for symbol, slope in zip(used, slopes, strict=True)
    )
    constant = _finite(form.subs(dict.fromkeys(used, 0)), gate) / math.pi
    return turns + constant if constant else turns


def _simplify_number(number: float) -> int | float:
    """Return 2 for 2.0: X^(2*a) is easier to read than X^(2.0*a)."""
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
