"""Expressions of inputs in gate exponents: sums of functions of the inputs, each times a circuit parameter or alone."""

import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import sympy

from qcnn.circuits.input_functions import FUNCTIONS, SQUARE_ROOT, evaluate_form


class InputTerm(NamedTuple):
    """Summand of an exponent: coefficient x expression of the inputs, times a parameter if there is one.

    Attributes:
        coefficient: Constant factor.
        expression: Function of the inputs, without parameters.
        parameter: Index of the circuit parameter, or None.
    """

    coefficient: float
    expression: sympy.Expr
    parameter: int | None


def separate(expression: sympy.Expr, parameters: set[sympy.Symbol]) -> dict[sympy.Symbol | None, sympy.Expr] | None:
    """Return the factor of each parameter in an expression that is linear in the parameters, and of None the rest.

    Returns:
        Expressions without parameters, or None if the expression is not linear in the parameters.
    """
    factors: dict[sympy.Symbol | None, sympy.Expr] = {}
    for term in sympy.Add.make_args(expression):
        found = [factor for factor in sympy.Mul.make_args(term) if factor.free_symbols & parameters]
        if not found:
            factors[None] = factors.get(None, sympy.S.Zero) + term
        elif len(found) == 1 and found[0].is_Symbol:
            factors[found[0]] = factors.get(found[0], sympy.S.Zero) + term / found[0]
        else:
            return _differentiated(expression, parameters)
    return factors


def _differentiated(
    expression: sympy.Expr, parameters: set[sympy.Symbol]
) -> dict[sympy.Symbol | None, sympy.Expr] | None:
    used = sorted(expression.free_symbols & parameters, key=lambda symbol: str(symbol.name))
    slopes: dict[sympy.Symbol | None, sympy.Expr] = {symbol: sympy.simplify(expression.diff(symbol)) for symbol in used}
    if any(slope.free_symbols & parameters for slope in slopes.values()):
        return None
    return {**slopes, None: expression.subs(dict.fromkeys(used, 0))}


def summands(factor: sympy.Expr, inputs: set[sympy.Symbol]) -> list[tuple[sympy.Expr, sympy.Expr]]:
    """Return constant factors and expressions of inputs whose products add up to an expression.

    The expression of a constant is 1.
    """
    parts = [term.as_independent(*inputs, as_Add=False) for term in sympy.Add.make_args(factor)]
    return [(constant, rest) for constant, rest in parts if constant != 0]


def unsupported_part(expression: sympy.Expr) -> sympy.Basic | None:
    """Return the first part of an expression of inputs that is no real elementary function, or None."""
    for part in sympy.preorder_traversal(expression):
        if part.is_Symbol or part.is_Add or part.is_Mul:
            continue
        if part.is_number:
            if not (part.is_real and part.is_finite):
                return part
            continue
        if part.is_Pow or (type(part).__name__ in FUNCTIONS and len(part.args) == 1):
            continue
        return part
    return None


def array_form(expression: sympy.Basic, inputs: Sequence[str]) -> Any:
    """Return an expression as a form of `input_functions`, which `input_functions.evaluate_form` evaluates.

    Args:
        expression: Expression for which `unsupported_part` returns None.
        inputs: Names of the inputs, in their order.
    """
    if expression.is_number:
        return float(expression)
    if expression.is_Symbol:
        return {"input": inputs.index(str(expression))}
    if expression.is_Pow and expression.args[0] is sympy.E:
        return ["exp", array_form(expression.args[1], inputs)]
    parts = [array_form(part, inputs) for part in expression.args]
    if expression.is_Pow:
        return [SQUARE_ROOT, parts[0]] if parts[1] == 1 / 2 else ["power", *parts]
    if expression.is_Add or expression.is_Mul:
        return ["add" if expression.is_Add else "multiply", *parts]
    return [FUNCTIONS[type(expression).__name__], *parts]


def invalid_rows(
    expressions: Iterable[sympy.Expr], columns: Mapping[str, npt.NDArray[np.float64]]
) -> list[tuple[sympy.Expr, npt.NDArray[np.bool_]]]:
    """Return the expressions that have no finite value in some rows, with the mask of these rows.

    Args:
        expressions: Expressions of the inputs.
        columns: Values of the inputs by name, (rows,) each.
    """
    found = []
    with np.errstate(all="ignore"):
        for expression in expressions:
            form = array_form(expression, [*columns])
            result = evaluate_form(form, [*columns.values()], functools.partial(getattr, np))
            if not (is_finite := np.isfinite(result)).all():
                found.append((expression, ~is_finite))
    return found
