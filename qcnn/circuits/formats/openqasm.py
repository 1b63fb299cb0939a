"""Import circuits from OpenQASM 2 and 3 with Qiskit's parsers."""

import contextlib
import dataclasses
import io
import itertools
import re
import traceback
import warnings
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import cirq

from qcnn.circuits.ansatz import Ansatz
from qcnn.circuits.formats.embedded import MAX_QUBITS
from qcnn.errors import ConfigError, single_line
from qcnn.process.installation import install_command
from qcnn.process.library_loading import paused_collection

if TYPE_CHECKING:
    from openqasm3.ast import Program, QASMNode
    from qiskit.circuit import QuantumCircuit

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_VERSION = re.compile(r"\s*OPENQASM\s+(\d+)(?:\.\d+)?\s*;")
# Sizes and indices of registers, and physical qubits ($0) of OpenQASM 3.
_SIZE = re.compile(r"(?:\[\s*(?=\d[\d_]*\s*\])|\$)(\d[\d_]*)")
# Qiskit's parser of OpenQASM 3 reads 1,000 statements per second.
_MAX_STATEMENTS = 25_000
# Prefixes of lines that define a gate.
_DEFINING = ("gate ", "opaque ")
# Line and column in messages of Qiskit's parsers.
_PLACE = re.compile(r"^(?:(?:<input>:)?(\d+),\d+|L(\d+):C\d+): ")
# Gates and registers that an OpenQASM 2 file declares.
_OWN_GATE = re.compile(r"\b(?:gate|opaque)\s+(\w+)")
_OWN_REGISTER = re.compile(r"\b[qc]reg\s+(\w+)")
_QELIB1 = re.compile(r'\binclude\s*"qelib1\.inc"\s*;')
# qelib1.inc includes Qiskit's gates that the published file (arXiv:1707.03429) lacks, except these: `u0` waits and has
# no effect here, but Qiskit creates a number of gates that the file can choose. `delay` is not a gate.
_EXCLUDED_GATES = ("u0", "delay")
# Keywords of OpenQASM 3 statements that are not supported.
_UNSUPPORTED = re.compile(
    r"(?:^|[;{}])\s*(?P<word>for|while|switch|break|continue|end|return|def|extern|cal|defcal|defcalgrammar"
    r"|const|output|bool|int|uint|float|angle|complex|array|duration|stretch|box|delay|#?pragma)\b"
)
# Registers of OpenQASM 2 with their sizes.
_REGISTER = re.compile(r"\b[qc]reg\s+\w+\s*\[\s*(\d[\d_]*)\s*\]")
# Bits of all registers: qubits, and as many classical bits.
_MAX_BITS = 2 * MAX_QUBITS


def read(text: str, name: str, inputs: Sequence[str] = ()) -> Ansatz:
    """Return the circuit of an OpenQASM file on the first qubits of the ring.

    The readouts are the qubits with final measurements, in the order of the bits, or all qubits if there are none. An
    `input` of the file, an angle in radians, becomes a parameter in units of pi, in the order of declaration, unless it
    is one of `inputs`, which keep their values.

    Args:
        text: Content of the file.
        name: Name of the file, for error messages.
        inputs: Names of those that are inputs instead of parameters.

    Raises:
        ConfigError: If Qiskit is not installed, the file is invalid, or the circuit is not trainable. The message
            contains the line number if it is known.
    """
    # Blanks replace comments, so that line numbers stay the same.
    code = _COMMENT.sub(lambda comment: re.sub(r"[^\n]", " ", comment[0]), text)
    version = _VERSION.match(code)
    if not version or version[1] not in ("2", "3"):
        raise ConfigError(f"model: a file of OpenQASM must begin with OPENQASM 2.0; or OPENQASM 3.0;. Given: {name}")
    if version[1] == "2" and (block := next((c for c in _COMMENT.finditer(text) if c[0].startswith("/*")), None)):
        where = _line_prefix(text, block.start())
        raise ConfigError(f"model: {where}comments of OpenQASM 2 must begin with //. Given: /* in {name}")
    if code.count(";") > _MAX_STATEMENTS:
        raise ConfigError(f"model: must have at most {_MAX_STATEMENTS} statements. Given: more in {name}")
    for size in _SIZE.finditer(code):
        # Checked before Qiskit allocates this number of bits.
        if len(size[1]) > len(str(MAX_QUBITS)) or int(size[1].replace("_", "")) > MAX_QUBITS:
            where = _line_prefix(code, size.start())
            raise ConfigError(f"model: {where}registers must have at most {MAX_QUBITS} bits. Given: {name}")
    with warnings.catch_warnings():
        # Qiskit emits deprecation warnings about its own code.
        warnings.simplefilter("ignore")
        if version[1] == "2":
            if inputs:
                raise ConfigError(f"inputs: must be empty for OpenQASM 2, which has no inputs. Given: {inputs[0]}")
            return _to_ansatz(_parse_openqasm2(text, code, name), {}, [], code, name)
        return _to_ansatz(*_parse_openqasm3(text, code, name), code, name, inputs)


def _parse_openqasm2(text: str, code: str, name: str) -> "QuantumCircuit":
    """Return the circuit of OpenQASM 2. The file's names take precedence over Qiskit's gates."""
    try:
        from qiskit import qasm2
        from qiskit.circuit.library import IGate
    except ImportError:
        raise _missing_library("Qiskit", name) from None
    _check_bits(sum(int(size[1].replace("_", "")) for size in _REGISTER.finditer(code)), name)
    gates = set(_OWN_GATE.findall(code))
    if included := _QELIB1.search(code):
        # Qiskit's gates replace the include file, so that the file can define gates with the same names.
        start, end = included.span()
        text = text[:start] + re.sub(r"[^\n]", " ", text[start:end]) + text[end:]
    own = gates | set(_OWN_REGISTER.findall(code))
    known = [
        dataclasses.replace(each, builtin=True)
        for each in qasm2.LEGACY_CUSTOM_INSTRUCTIONS
        # Gates of the published file are not built in. A register cannot have the same name.
        if each.name not in (*_EXCLUDED_GATES, *(own if each.builtin else gates)) and (included or each.builtin)
    ]
    waiting = qasm2.CustomInstruction("u0", 1, 1, lambda _: IGate(), builtin=True)
    if waiting.name not in own:
        known.append(waiting)
    try:
        # The empty path disables include files, because an experiment must not depend on local paths.
        return qasm2.loads(text, include_path=(), custom_instructions=known)
    except Exception as error:  # Errors of the parser and of Qiskit's gates, of many types.
        raise _parser_error(error, name) from None


def _parse_openqasm3(text: str, code: str, name: str) -> "tuple[QuantumCircuit, dict[str, int], list[int]]":
    """Return the circuit of OpenQASM 3, the lines of its inputs and the line of each instruction."""
    try:
        import openqasm3

        from qcnn.circuits.formats.conversion import convert, line_of
    except ImportError:
        raise _missing_library("Qiskit's reader of OpenQASM 3", name) from None
    if unread := _UNSUPPORTED.search(code):
        word, line = unread["word"], _line_prefix(code, unread.start("word"))
        allowed = (
            "constants must be written as numbers where they are used"
            if word == "const"
            else "the circuit must consist of gates, of gates that bits condition, and of measurements"
        )
        raise ConfigError(f"model: {line}{allowed}. Given: {word} in {name}")
    try:
        # The parser prints errors to stderr. Garbage collection would take a fifth of its time and free nothing,
        # because its nodes are all in use.
        with contextlib.redirect_stderr(io.StringIO()), paused_collection():
            program = openqasm3.parse(text)
        _check_statements(program, name)
        inputs = {
            statement.identifier.name: line_of(statement)
            for statement in program.statements
            if isinstance(statement, openqasm3.ast.IODeclaration)
        }
        circuit, lines = convert(program)
        return circuit, inputs, lines
    except ConfigError:
        raise
    except Exception as error:  # Errors of the parser and of Qiskit's gates, of many types.
        raise _parser_error(error, name) from None


def _check_statements(program: "Program", name: str) -> None:
    """Validate sizes of registers and numbers of controls before the import.

    Raises:
        ConfigError: If a number is too large or not an integer literal.
    """
    from openqasm3 import ast

    from qcnn.circuits.formats.conversion import line_of

    bits = 0
    for statement in program.statements:
        line = f"line {line_of(statement)}: "
        size = getattr(statement, "size", None) or getattr(getattr(statement, "type", None), "size", None)
        if size is not None and not (isinstance(size, ast.IntegerLiteral) and size.value <= MAX_QUBITS):
            raise ConfigError(
                f"model: {line}a size must be a whole number, at most {MAX_QUBITS}. Given: another in {name}"
            )
        if size is not None and not isinstance(statement, ast.IODeclaration):
            bits += size.value
        blocks = ("body", "if_block", "else_block")
        if any(not _has_valid_controls(part) for part in (statement, *_parts(statement, blocks))):
            raise ConfigError(
                f"model: {line}ctrl must have a whole number of controls, 1 to {MAX_QUBITS}. Given: another in {name}"
            )
    _check_bits(bits, name)


def _parts(statement: "QASMNode", blocks: Sequence[str]) -> "Iterator[QASMNode]":
    """Yield the statements in the blocks of a statement, and in their blocks."""
    for part in itertools.chain.from_iterable(getattr(statement, block, None) or () for block in blocks):
        yield part
        yield from _parts(part, blocks)


def _has_valid_controls(part: "QASMNode") -> bool:
    """Return whether the number of controls is in range. The importer computes 2^controls."""
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
    """Raise ConfigError if all registers together have too many bits.

    Raises:
        ConfigError: If the number exceeds `_MAX_BITS`.
    """
    if bits > _MAX_BITS:
        raise ConfigError(f"model: registers must have at most {_MAX_BITS} bits together. Given: {bits} in {name}")


def _to_ansatz(
    circuit: "QuantumCircuit",
    declared: dict[str, int],
    lines: list[int],
    code: str,
    name: str,
    inputs: Sequence[str] = (),
) -> Ansatz:
    """Convert a Qiskit circuit to an ansatz.

    Args:
        circuit: Circuit from the parser.
        declared: Line of each `input` of the file, by name.
        lines: Line of each instruction. If empty, lines are searched in the code.
        code: Content of the file without comments, for line numbers in errors.
        name: Name of the file, for error messages.
        inputs: Names of those that are inputs instead of parameters.

    Raises:
        ConfigError: If the circuit is not trainable.
    """
    from qcnn.circuits.formats.qiskit_circuits import to_ansatz

    def place(number: int, operation: str) -> str:
        return f"line {lines[number]}: " if lines else _unique_line_prefix(code, operation)

    ansatz = to_ansatz(circuit, tuple(declared), name, place, inputs)
    used = cirq.parameter_names(ansatz.circuit)
    if unused := [symbol for symbol in declared if symbol not in used]:
        raise ConfigError(
            f"model: line {declared[unused[0]]}: every input must be used by a gate. Given: {unused[0]} in {name}"
        )
    return ansatz


def _line_prefix(code: str, place: int) -> str:
    return f"line {1 + code.count(chr(10), 0, place)}: "


def _unique_line_prefix(code: str, word: str) -> str:
    """Return the line that uses a name as a prefix, or "" if there are several.

    Qiskit's parser of OpenQASM 2 does not report lines of instructions.
    """
    lines = [line.lstrip() for line in code.split("\n")]
    uses = re.compile(rf"(?<![\w.]){re.escape(word)}(?![\w.])")
    found = [n for n, line in enumerate(lines, 1) if not line.startswith(_DEFINING) and uses.search(line)]
    return f"line {found[0]}: " if len(found) == 1 else ""


def _missing_library(library: str, name: str) -> ConfigError:
    return ConfigError(f"model: needs {library}, which is not installed: {install_command('run')}. Given: {name}")


def _parser_error(error: Exception, name: str) -> ConfigError:
    """Return a parser's error as a single-line ConfigError with the line number."""
    # For a syntax error, the parser of OpenQASM 3 reports only the token.
    cause = error.__cause__.args[0] if error.__cause__ and error.__cause__.args else None
    token = getattr(cause, "offendingToken", None)
    if token is not None:
        return ConfigError(f"model: line {token.line}: invalid OpenQASM 3 at {single_line(token.text)}. Given: {name}")
    from qcnn.circuits.formats.qiskit_gates import error_message

    message = error_message(error)
    place = _PLACE.match(message)
    where = f"line {place[1] or place[2]}: " if place else _parser_line_prefix(error)
    what = message[place.end() :] if place else message
    if "unbound parameters" in what:
        return ConfigError(
            f"model: {where}pow @ of a gate with inputs or arguments must be of rx, ry, rz, p or cp. "
            f"Given: another in {name}"
        )
    return ConfigError(f"model: {where}cannot be read as OpenQASM ({what}). Given: {name}")


def _parser_line_prefix(error: Exception) -> str:
    """Return the line at which Qiskit's parser failed with an internal error, or "" if it is unknown."""
    for frame, _ in reversed(list(traceback.walk_tb(error.__traceback__))):
        if line := getattr(getattr(frame.f_locals.get("ctx"), "start", None), "line", None):
            return f"line {line}: "
    return ""
