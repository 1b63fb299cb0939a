"""OpenQASM 3 importer based on Qiskit's, with more rules of the standard and line numbers in errors.

Extends classes of qiskit_qasm3_import that versions 0.5 and 0.6 have in common.
"""

from collections.abc import Collection, Iterable
from typing import Any, NoReturn

import openqasm3
from openqasm3 import ast
from openqasm3.visitor import QASMVisitor
from qiskit.circuit import QuantumCircuit
from qiskit_qasm3_import import ConversionError, types
from qiskit_qasm3_import.converter import ConvertVisitor
from qiskit_qasm3_import.expression import ValueResolver
from qiskit_qasm3_import.state import State

from qcnn.circuits.formats.qiskit_gates import CUSTOM_PREFIX, error_message
from qcnn.errors import single_line

_CONTROLS = (ast.GateModifierName.ctrl, ast.GateModifierName.negctrl)
_DECLARATIONS = (
    ast.IODeclaration,
    ast.ClassicalDeclaration,
    ast.QubitDeclaration,
    ast.AliasStatement,
    ast.QuantumGateDefinition,
)


def convert(program: ast.Program) -> tuple[QuantumCircuit, list[int]]:
    """Return the circuit of a program, and the line of the file for each of its instructions.

    Raises:
        ConversionError: If the program contains an unsupported part. The message starts with line and column.
    """
    converter = _Converter()
    _rename_gates(program)
    circuit: QuantumCircuit = converter.convert(program).circuit
    return circuit, converter.lines


def line_of(node: ast.QASMNode) -> int:
    """Return the line of the file in which a syntax node begins, or 0 if it is unknown."""
    return node.span.start_line if node.span else 0


class _GateRenamer(QASMVisitor[dict[str, str]]):
    """Visitor that renames identifiers by the context and adds a prefix to gates that the file defines."""

    def __init__(self, own: Collection[str]) -> None:
        self._own = own
        self.defined: set[str] = set()

    def visit_Identifier(self, node: ast.Identifier, context: dict[str, str]) -> None:  # noqa: N802 - its name
        node.name = context.get(node.name, node.name)

    def visit_QuantumGate(self, node: ast.QuantumGate, context: dict[str, str]) -> None:  # noqa: N802 - its name
        name = node.name.name
        if name in context:
            _fail(node, f"{name} is an argument of the gate that is defined, not a gate")
        if name in self._own and name not in self.defined:
            _fail(node, f"{name} is used before its definition")
        self.generic_visit(node, context)
        if name in self._own:
            node.name.name = CUSTOM_PREFIX + name


def _rename_gates(program: ast.Program) -> None:
    """Rename gates that the file defines, and their arguments.

    The prefix makes the file's definition take precedence over a standard gate of the same name. The importer (0.6)
    passes arguments in alphabetical order, not in the order of declaration, so their new names are in that order.
    """
    renaming = _GateRenamer(
        {part.name.name for part in program.statements if isinstance(part, ast.QuantumGateDefinition)}
    )
    # The visitor treats an empty context as a missing one.
    nothing = {"": ""}
    for statement in program.statements:
        if isinstance(statement, ast.QuantumGateDefinition):
            arguments = [part.name for part in (*statement.arguments, *statement.qubits)]
            if again := [argument for argument in arguments if arguments.count(argument) > 1]:
                _fail(statement, f"{again[0]} is declared twice")
            names = {argument.name: f"argument_{n:04}" for n, argument in enumerate(statement.arguments)} | nothing
            for part in (*statement.arguments, *statement.body):
                renaming.visit(part, names)
            renaming.defined.add(statement.name.name)
            statement.name.name = CUSTOM_PREFIX + statement.name.name
        elif isinstance(statement, ast.QuantumGate | ast.BranchingStatement):
            renaming.visit(statement, nothing)


class _ExpressionResolver(ValueResolver):
    """Resolver of expressions, with divisions and slices as the standard defines them."""

    def __init__(self, context: State, strict: bool) -> None:
        super().__init__(context, strict)
        self._known: dict[int, Any] = {}

    def visit(self, node: ast.QASMNode, context: None = None) -> tuple[Any, types.Type]:
        try:
            value, kind = super().visit(node, context)
        except ConversionError as error:
            if str(error).endswith(": type error"):
                _fail(node, f"{_source_text(node)} has operands of incompatible types")
            raise
        self._known[id(node)] = value
        return value, kind

    def generic_visit(self, node: ast.QASMNode, context: None = None) -> NoReturn:
        _fail(node, f"{_source_text(node)} is not supported")

    def visit_BitstringLiteral(self, node: ast.BitstringLiteral) -> NoReturn:  # noqa: N802 - its name
        """Raise ConversionError, because the importer would ignore the width of the number."""
        self.generic_visit(node)

    def visit_BinaryExpression(self, node: ast.BinaryExpression) -> tuple[Any, types.Type]:  # noqa: N802 - its name
        try:
            value, kind = super().visit_BinaryExpression(node)
        except ZeroDivisionError:
            _fail(node, f"{_source_text(node)} divides by zero")
        if node.op.name == "/" and _is_whole_number(kind):
            dividend, divisor = self._known[id(node.lhs)], self._known[id(node.rhs)]
            if dividend % divisor:
                _fail(
                    node,
                    f"{_source_text(node)} is an integer division with a remainder, which OpenQASM 3 drops; "
                    f"write {dividend}.0/{divisor} for the fraction",
                )
        return value, kind

    def visit_RangeDefinition(self, node: ast.RangeDefinition) -> tuple[slice, types.Type]:  # noqa: N802 - its name
        """Return start, end and step as they are written. The end is part of the range."""
        bounds = [None if part is None else self._whole(part) for part in (node.start, node.end, node.step)]
        return slice(*bounds), types.Range(types.Int(const=True))

    def _whole(self, node: ast.Expression) -> int:
        value, kind = self.visit(node)
        if not _is_whole_number(kind):
            _fail(node, f"an index must be an integer, not {_source_text(node)}")
        return int(value)

    def _index_collection(
        self, collection: Any, kind: types.Type, indexer: ast.IndexElement, base: ast.QASMNode
    ) -> tuple[Any, types.Type]:
        if not isinstance(kind, types.BitArray | types.QubitArray):
            _fail(base, f"{_source_text(base)} has an index but is not a register")
        size = len(collection)
        if isinstance(indexer, ast.DiscreteSet):
            places = [self._whole(value) for value in indexer.values]
        elif len(indexer) != 1:
            _fail(base, f"{_source_text(base)} has more than one index")
        elif isinstance(indexer[0], ast.RangeDefinition):
            places = list(_slice_indices(self.visit(indexer[0])[0], size, base))
        else:
            (place,) = _resolve_indices([self._whole(indexer[0])], size, base)
            return collection[place], types.Bit() if isinstance(kind, types.BitArray) else types.Qubit()
        if not places:
            _fail(base, f"{_source_text(base)} selects no bits")
        return [collection[place] for place in _resolve_indices(places, size, base)], type(kind)(len(places))


class _Converter(ConvertVisitor):
    """Importer whose errors contain the line of the statement."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[int] = []

    def visit(self, node: ast.QASMNode, context: State | None = None) -> State:
        try:
            after: State = super().visit(node, context)
            return after
        except ConversionError as error:
            if str(error)[:1].isdigit():
                raise
            _fail(node, error_message(error))
        except Exception as error:  # Qiskit's gates and circuits raise errors of many types.
            _fail(node, f"{error_message(error)} in {_source_text(node)}")

    def generic_visit(self, node: ast.QASMNode, context: State | None = None) -> NoReturn:
        _fail(node, f"{_source_text(node)} is not supported")

    def visit_Program(self, node: ast.Program, context: State) -> State:  # noqa: N802 - its name
        declared: dict[str, int] = {}
        for statement in node.statements:
            self._check_name(statement, declared, context)
            context = self.visit(statement, context)
            self.lines += [line_of(statement)] * (len(context.circuit.data) - len(self.lines))
        return context

    def visit_QuantumGate(self, node: ast.QuantumGate, context: State) -> State:  # noqa: N802 - its name
        symbol = context.symbol_table.get(node.name.name, node)
        if symbol is not None and isinstance(symbol.type, types.Gate):
            angles, qubits = (
                len(count) if isinstance(count, list) else count
                for count in (symbol.type.n_classical, symbol.type.n_quantum)
            )
            self._check_counts(node, node.name.name, angles, len(node.arguments), "angles")
            self._check_counts(
                node, node.name.name, qubits + _count_controls(node.modifiers), len(node.qubits), "qubits"
            )
        return super().visit_QuantumGate(node, context)

    def visit_QuantumPhase(self, node: ast.QuantumPhase, context: State) -> State:  # noqa: N802 - its name
        self._check_counts(node, "gphase", _count_controls(node.modifiers), len(node.qubits), "qubits")
        return super().visit_QuantumPhase(node, context)

    def _resolve_condition(self, node: ast.Expression, context: State) -> tuple[Any, bool]:
        """Return a bit, and the value for which the condition is true."""
        if isinstance(node, ast.UnaryExpression) and node.op.name in ("!", "~"):
            bit, value = self._resolve_condition(node.expression, context)
            return bit, not value
        wanted = True
        if isinstance(node, ast.BinaryExpression) and node.op.name in ("==", "!="):
            literal, node_of_bit = node.rhs, node.lhs
            if isinstance(node_of_bit, ast.IntegerLiteral | ast.BooleanLiteral):
                literal, node_of_bit = node_of_bit, literal
            number = getattr(literal, "value", None)
            if number not in (0, 1):
                _fail(node, f"{_source_text(node)} does not compare a bit with 0 or 1")
            wanted, node = bool(number) == (node.op.name == "=="), node_of_bit
        bit, kind = self._resolve_generic(node, context, strict=True)
        if isinstance(kind, types.BitArray) and len(bit) == 1:
            return bit[0], wanted
        if not isinstance(kind, types.Bit):
            _fail(node, f"{_source_text(node)} is not one bit")
        return bit, wanted

    def _resolve_generic(self, node: ast.Expression, context: State, strict: bool) -> tuple[Any, types.Type]:
        return _ExpressionResolver(context, strict).resolve(node)

    def _check_name(self, statement: ast.QASMNode, declared: dict[str, int], context: State) -> None:
        """Raise ConversionError if a name is already declared, except by an included gate."""
        if not isinstance(statement, _DECLARATIONS):
            return
        fields = ("name", "identifier", "qubit", "target")
        name = next(getattr(statement, field).name for field in fields if hasattr(statement, field)).removeprefix(
            CUSTOM_PREFIX
        )
        if name in declared:
            _fail(statement, f"{name} is already declared in line {declared[name]}")
        known = context.symbol_table.get(name, statement)
        is_gate = known is not None and isinstance(known.type, types.Gate)
        if known is not None and not (is_gate and isinstance(statement, ast.QuantumGateDefinition)):
            source = "stdgates.inc" if isinstance(known.definer, ast.Include) else "OpenQASM 3"
            _fail(statement, f"{name} is already the name of a {'gate' if is_gate else 'number'} of {source}")
        declared[name] = line_of(statement)

    @staticmethod
    def _check_counts(node: ast.QASMNode, name: str, needed: int, given: int, what: str) -> None:
        if needed != given:
            _fail(node, f"{name} takes {needed} {what if needed != 1 else what[:-1]}, not {given}")


def _is_whole_number(kind: types.Type) -> bool:
    return isinstance(kind, types.Int | types.Uint) and bool(kind.const)


def _count_controls(modifiers: Iterable[ast.QuantumGateModifier]) -> int:
    """Return the number of controls. Their arguments are integers (`openqasm._has_valid_controls`)."""
    arguments = [each.argument for each in modifiers if each.modifier in _CONTROLS]
    return sum(argument.value if isinstance(argument, ast.IntegerLiteral) else 1 for argument in arguments)


def _slice_indices(bounds: slice, size: int, base: ast.QASMNode) -> range:
    """Return the indices of a slice a:c:b with both ends. Negative indices count from the end."""
    step = 1 if bounds.step is None else bounds.step
    if not step:
        _fail(base, f"{_source_text(base)} has a step of 0")
    first, last = (0, size - 1) if step > 0 else (size - 1, 0)
    start, end = _resolve_indices(
        [first if bounds.start is None else bounds.start, last if bounds.stop is None else bounds.stop], size, base
    )
    return range(start, end + (1 if step > 0 else -1), step)


def _resolve_indices(places: list[int], size: int, base: ast.QASMNode) -> list[int]:
    """Return indices of a register counted from 0, or raise ConversionError if one is out of range."""
    if invalid := [place for place in places if not -size <= place < size]:
        _fail(base, f"{_source_text(base)} is out of range: index {invalid[0]} of {size} bits")
    return [place % size for place in places]


def _source_text(node: ast.QASMNode) -> str:
    return single_line(openqasm3.dumps(node))


def _fail(node: ast.QASMNode, message: str) -> NoReturn:
    raise ConversionError(message, node) from None
