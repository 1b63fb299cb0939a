"""OpenQASM 2 and 3, read by Qiskit's own parsers."""

import contextlib
import io
import itertools
import re
import warnings
from typing import TYPE_CHECKING

import cirq
import sympy

from trainer.config import MAX_QUBITS
from trainer.errors import ConfigError, one_line
from trainer.quantum.ansatz import Ansatz, ring

if TYPE_CHECKING:
    from openqasm3.ast import Program, QASMNode
    from qiskit.circuit import Clbit, QuantumCircuit

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_VERSION = re.compile(r"\s*OPENQASM\s+(\d+)(?:\.\d+)?\s*;")
_SIZE = re.compile(r"\[\s*(\d[\d_]*)\s*\]")
# Qiskit's parser of OpenQASM 3 reads a thousand in a second.
_MOST_STATEMENTS = 25_000
# Parts of definitions and gates that do nothing, seconds of looking at them.
_MOST_STEPS = 100_000
# How a line begins that says what a gate is.
_DEFINING = ("gate ", "opaque ")
# Where Qiskit's parsers say that something is: line and column.
_PLACE = re.compile(r"^(?:(?:<input>:)?(\d+),\d+|L(\d+):C\d+): ")
# The registers of OpenQASM 2, with their sizes.
_REGISTER = re.compile(r"\b[qc]reg\s+\w+\s*\[\s*(\d[\d_]*)\s*\]")
# Bits of all registers: qubits, and as many classical bits.
_MOST_BITS = 2 * MAX_QUBITS


def read(text: str, name: str) -> Ansatz:
    """Return the circuit of a file, its inputs as symbols in the order of their declaration, on the first qubits.

    It reads out the qubits that are measured at its end, in the order of the bits, or all if none is measured. An
    input, an angle in radians, becomes a symbol in turns of pi.

    Raises:
        ConfigError: Qiskit is not installed or cannot read it, or it holds what cannot be trained; one line, with the
            number of the file's line where it is known. Errors call the file by a name.
    """
    # Comments are blanked, so that words in them count as none and lines keep their numbers.
    code = _COMMENT.sub(lambda comment: re.sub(r"[^\n]", " ", comment[0]), text)
    version = _VERSION.match(code)
    if not version or version[1] not in ("2", "3"):
        raise ConfigError(f"model: a file of OpenQASM must begin with OPENQASM 2.0; or OPENQASM 3.0;. Given: {name}")
    if code.count(";") > _MOST_STATEMENTS:
        raise ConfigError(f"model: must have at most {_MOST_STATEMENTS} statements. Given: more in {name}")
    for size in _SIZE.finditer(code):
        # Before it is believed: Qiskit would make as many.
        if len(size[1]) > len(str(MAX_QUBITS)) or int(size[1].replace("_", "")) > MAX_QUBITS:
            where = _line(code, size.start())
            raise ConfigError(f"model: {where}registers must have at most {MAX_QUBITS} bits. Given: {name}")
    with warnings.catch_warnings():
        # Of Qiskit's about its own future, such as how a gate will be controlled.
        warnings.simplefilter("ignore")
        circuit, inputs = _parsed2(text, code, name) if version[1] == "2" else _parsed3(text, name)
        return _ansatz(circuit, inputs, code, name)


def _parsed2(text: str, code: str, name: str) -> "tuple[QuantumCircuit, list[str]]":
    try:
        from qiskit import qasm2
        from qiskit.circuit.library import IGate
    except ImportError:
        raise _missing("Qiskit", name) from None
    _check_bits(sum(int(size[1].replace("_", "")) for size in _REGISTER.finditer(code)), name)
    # Waiting is nothing here; Qiskit's own u0 holds as many gates as its argument says.
    waiting = qasm2.CustomInstruction("u0", 1, 1, lambda _: IGate(), builtin=True)
    known = [each for each in qasm2.LEGACY_CUSTOM_INSTRUCTIONS if each.name != waiting.name]
    try:
        # No other files are read: a path of this machine means nothing elsewhere.
        return qasm2.loads(text, include_path=(), custom_instructions=[*known, waiting]), []
    except Exception as error:  # The parser's own, and whatever Qiskit's gates raise.
        raise _refused(error, name) from None


def _parsed3(text: str, name: str) -> "tuple[QuantumCircuit, list[str]]":
    try:
        import openqasm3
        import qiskit_qasm3_import
    except ImportError:
        raise _missing("Qiskit's reader of OpenQASM 3", name) from None
    try:
        # The parser prints what it finds.
        with contextlib.redirect_stderr(io.StringIO()):
            program = openqasm3.parse(text)
        _check_statements(program, name)
        inputs = [
            statement.identifier.name
            for statement in program.statements
            if isinstance(statement, openqasm3.ast.IODeclaration)
        ]
        return qiskit_qasm3_import.convert(_in_order(program)), inputs
    except ConfigError:
        raise
    except Exception as error:  # The parser's own, and whatever Qiskit's gates raise.
        raise _refused(error, name) from None


def _check_statements(program: "Program", name: str) -> None:
    """Refuse classical control, which the importer calls otherwise, and sizes and controls that nobody can count.

    Raises:
        ConfigError: there is such a statement.
    """
    from openqasm3 import ast

    control = {
        ast.BranchingStatement: "if",
        ast.ForInLoop: "for",
        ast.WhileLoop: "while",
        ast.SwitchStatement: "switch",
    }
    bits = 0
    for statement in program.statements:
        line = f"line {statement.span.start_line}: " if statement.span else ""
        if word := control.get(type(statement)):
            raise ConfigError(
                f"model: {line}the circuit must consist of gates, and of measurements at its end. "
                f"Given: {word} in {name}"
            )
        size = getattr(statement, "size", None) or getattr(getattr(statement, "type", None), "size", None)
        if size is not None and not (isinstance(size, ast.IntegerLiteral) and size.value <= MAX_QUBITS):
            raise ConfigError(
                f"model: {line}a size must be a whole number, at most {MAX_QUBITS}. Given: another in {name}"
            )
        if size is not None and not isinstance(statement, ast.IODeclaration):
            bits += size.value
        if any(not _are_counted(part) for part in (statement, *getattr(statement, "body", ()))):
            raise ConfigError(
                f"model: {line}ctrl must have a whole number of controls, 1 to {MAX_QUBITS}. Given: another in {name}"
            )
    _check_bits(bits, name)


def _are_counted(part: "QASMNode") -> bool:
    """Whether there are few enough controls; the importer would believe any number, and computes 2 to its power."""
    from openqasm3.ast import GateModifierName, IntegerLiteral

    controls = 0
    for modifier in getattr(part, "modifiers", ()):
        argument = modifier.argument
        if argument is None or modifier.modifier not in (GateModifierName.ctrl, GateModifierName.negctrl):
            continue
        if not isinstance(argument, IntegerLiteral) or argument.value < 1:
            return False
        controls += argument.value
    return controls <= MAX_QUBITS


def _check_bits(bits: int, name: str) -> None:
    """Refuse more bits than any circuit has, many registers of them too.

    Raises:
        ConfigError: there are more.
    """
    if bits > _MOST_BITS:
        raise ConfigError(f"model: registers must have at most {_MOST_BITS} bits together. Given: {bits} in {name}")


def _in_order(program: "Program") -> "Program":
    """Return a program whose gates' arguments are named in the order of their names.

    Qiskit's importer (0.6) passes arguments in that order, not in the one in which a gate declares them.
    """
    from openqasm3 import ast
    from openqasm3.visitor import QASMVisitor

    class Renaming(QASMVisitor[dict[str, str]]):
        def visit_Identifier(self, node: ast.Identifier, context: dict[str, str]) -> None:  # noqa: N802 - its name
            node.name = context.get(node.name, node.name)

    for statement in program.statements:
        if isinstance(statement, ast.QuantumGateDefinition):
            # A context that is empty counts as none.
            names = {"": "", **{argument.name: f"argument_{n:04}" for n, argument in enumerate(statement.arguments)}}
            for part in itertools.chain(statement.arguments, statement.body):
                Renaming().visit(part, names)
    return program


def _ansatz(circuit: "QuantumCircuit", inputs: list[str], code: str, name: str) -> Ansatz:
    from qiskit.circuit import Measure

    from trainer.quantum.files.instructions import MOST_OPERATIONS, operations, word_of

    if not circuit.num_qubits:
        raise ConfigError(f"model: the circuit must have qubits. Given: none in {name}")
    at = ring(circuit.num_qubits)
    symbols = {symbol: sympy.Symbol(symbol) for symbol in inputs}
    measured: dict[cirq.Qid, Clbit] = {}
    made: list[cirq.Operation] = []
    steps = 0
    for instruction in circuit.data:
        operation = instruction.operation
        qubits = [at[circuit.find_bit(qubit).index] for qubit in instruction.qubits]
        if operation.name == "barrier":
            continue
        if ended := [qubit for qubit in qubits if qubit in measured]:
            raise ConfigError(
                f"model: a qubit may be measured at the circuit's end alone. "
                f"Given: {word_of(operation)} on qubit {ended[0].col} after its measurement, in {name}"
            )
        if isinstance(operation, Measure):
            (bit,) = instruction.clbits
            if bit in measured.values():
                raise ConfigError(f"model: each bit may take one measurement. Given: two of one bit in {name}")
            measured[qubits[0]] = bit
            continue
        try:
            for part in operations(operation, qubits, symbols):
                # What does nothing takes its time, too.
                steps += 1
                made += [part] if part else []
                if len(made) > MOST_OPERATIONS or steps > _MOST_STEPS:
                    raise ConfigError(f"model: must have at most {MOST_OPERATIONS} gates. Given: more")
        except ConfigError as error:
            where = _only_line(code, word_of(operation))
            raise ConfigError(f"{str(error).replace('model: ', f'model: {where}', 1)} in {name}") from None
        except Exception as error:  # What Qiskit raises of numbers that a definition makes of its arguments.
            word = word_of(operation)
            raise ConfigError(
                f"model: {_only_line(code, word)}a gate's definition must make numbers of its arguments "
                f"({_said(error)}). Given: {word} in {name}"
            ) from None
    held = {str(symbol) for symbol in cirq.parameter_symbols(cirq.Circuit(made))}
    if unused := [symbol for symbol in inputs if symbol not in held]:
        where = _only_line(code, unused[0])
        raise ConfigError(f"model: {where}every input must be used by a gate. Given: {unused[0]} in {name}")
    order = {bit: number for number, bit in enumerate(circuit.clbits)}
    readouts = sorted(measured, key=lambda qubit: order[measured[qubit]]) or at
    return Ansatz(cirq.Circuit(made), tuple(symbols.values()), tuple(readouts))


def _line(code: str, place: int) -> str:
    return f"line {1 + code.count(chr(10), 0, place)}: "


def _only_line(code: str, word: str) -> str:
    """Return which line uses a word, nothing where several do: Qiskit does not say which of them it read."""
    lines = [line.lstrip() for line in code.split("\n")]
    uses = re.compile(rf"(?<![\w.]){re.escape(word)}(?![\w.])")
    found = [n for n, line in enumerate(lines, 1) if not line.startswith(_DEFINING) and uses.search(line)]
    return f"line {found[0]}: " if len(found) == 1 else ""


def _missing(library: str, name: str) -> ConfigError:
    return ConfigError(f'model: needs {library}, which is not installed: pip install "qcnn[run]". Given: {name}')


def _refused(error: Exception, name: str) -> ConfigError:
    """Return what a parser says as one line, with the number of the line that it names."""
    # The parser of OpenQASM 3 says nothing of a syntax error but at which word it met it.
    cause = error.__cause__.args[0] if error.__cause__ and error.__cause__.args else None
    token = getattr(cause, "offendingToken", None)
    if token is not None:
        return ConfigError(f"model: line {token.line}: no OpenQASM 3 at {one_line(token.text)}. Given: {name}")
    said = _said(error)
    if "unbound parameters" in said:
        return ConfigError(
            f"model: pow @ takes gates whose angles are numbers. Given: one with an input or argument in {name}"
        )
    reason = _PLACE.sub(lambda place: f"line {place[1] or place[2]}: ", said)
    where, colon, what = reason.partition(": ") if reason.startswith("line ") else ("", "", reason)
    return ConfigError(f"model: {where}{colon}cannot be read as OpenQASM ({what}). Given: {name}")


def _said(error: Exception) -> str:
    """Return what an error says, its class if it says nothing."""
    said = one_line(getattr(error, "message", error))
    # Python writes the message of a KeyError within quotes.
    quoted = len(said) > 1 and said[0] in "'\"" and said[0] == said[-1]
    return (said[1:-1] if quoted else said) or type(error).__name__
