"""Linear forms of symbols, read without symbolic differentiation."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import sympy


class LinearForm(NamedTuple):
    """Sum of a constant and of coefficients times symbols. All are expressions without symbols."""

    constant: sympy.Expr
    coefficients: Mapping[sympy.Symbol, sympy.Expr]


def linear_form(expression: sympy.Basic) -> LinearForm | None:
    """Return an expression as a linear form, or None if its terms are not numbers and multiples of one symbol.

    Differentiation takes ten times as long, and a circuit can have thousands of expressions. None does not imply that
    the expression is nonlinear, because products are not expanded.
    """
    if not isinstance(expression, sympy.Expr):
        return None
    constant: sympy.Expr = sympy.S.Zero
    coefficients: dict[sympy.Symbol, sympy.Expr] = {}
    for term, number in expression.as_coefficients_dict().items():
        if term.is_number:
            constant += number * term
            continue
        numbers, others = _split(sympy.Mul.make_args(term))
        if len(others) != 1 or not others[0].is_Symbol:
            return None
        coefficients[others[0]] = coefficients.get(others[0], sympy.S.Zero) + sympy.Mul(number, *numbers)
    return LinearForm(constant, coefficients)


def _split(factors: Iterable[sympy.Expr]) -> tuple[list[sympy.Expr], list[sympy.Expr]]:
    """Return the factors without symbols, and the others."""
    parts: tuple[list[sympy.Expr], list[sympy.Expr]] = ([], [])
    for factor in factors:
        parts[not factor.is_number].append(factor)
    return parts
