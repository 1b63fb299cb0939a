"""Linear forms of symbols, compared with symbolic differentiation."""

import pytest
import sympy

from qcnn.circuits.linear_forms import linear_form

A, B = sympy.symbols("a b")


@pytest.mark.parametrize(
    "form",
    [
        A,
        -A / 3,
        0.37 * A + B - 0.25,
        2 * A / sympy.pi + A + sympy.pi,
        sympy.sqrt(2) * A + 3 * sympy.sin(2) * B + sympy.sqrt(2),
        2 * (A + B),
        A - A,
        sympy.Float(0.5),
        sympy.I * A,
    ],
)
def test_linear_form_equals_derivatives(form: sympy.Expr) -> None:
    found = linear_form(form)
    assert found is not None
    assert set(found.coefficients) == form.free_symbols
    assert found.constant == form.subs({A: 0, B: 0})
    assert all(number == form.diff(symbol) for symbol, number in found.coefficients.items())


@pytest.mark.parametrize("form", [A * B, A**2, sympy.sin(A), A + 1 / B, (1 + sympy.I) * (A + 1), A > 1])
def test_linear_form_of_other_expressions_is_none(form: sympy.Basic) -> None:
    assert linear_form(form) is None
