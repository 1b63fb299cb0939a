"""Functions of the inputs of a circuit as nested lists, which are stored and evaluated without sympy.

A form is a number, {"input": index}, or a list of an operation and its arguments: "add", "multiply", "power", or the
name of a NumPy function.
"""

import functools
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

_N = TypeVar("_N")

# Functions of one argument by the name of their class in sympy, with their names in NumPy.
FUNCTIONS: Mapping[str, str] = {
    "sin": "sin",
    "cos": "cos",
    "tan": "tan",
    "asin": "arcsin",
    "acos": "arccos",
    "atan": "arctan",
    "sinh": "sinh",
    "cosh": "cosh",
    "tanh": "tanh",
    "exp": "exp",
    "log": "log",
    "Abs": "abs",
}
SQUARE_ROOT = "sqrt"
# Names in TensorFlow of the functions whose names differ from those in NumPy.
TENSORFLOW_NAMES: Mapping[str, str] = {"arcsin": "asin", "arccos": "acos", "arctan": "atan"}
_NAMES = frozenset((*FUNCTIONS.values(), SQUARE_ROOT))
_ARITHMETIC: Mapping[str, Callable[[Any, Any], Any]] = {
    "add": operator.add,
    "multiply": operator.mul,
    "power": operator.pow,
}


def check_form(form: Any, inputs: int) -> bool:
    """Check a form that was read from a file, and return whether it depends on an input.

    Args:
        form: Form to check.
        inputs: Number of inputs.

    Raises:
        ValueError: If it is not a form, or applies an operation to numbers only.
    """
    match form:
        case int() | float() if np.isfinite(form):
            return False
        case {"input": int(index), **others} if not others and 0 <= index < inputs:
            return True
        case [str(name), first, second, *rest] if name in _ARITHMETIC and (not rest or name != "power"):
            parts = [first, second, *rest]
        case [str(name), argument] if name in _NAMES:
            parts = [argument]
        case _:
            parts = []
    # Every part is checked, also after one that depends on an input.
    depends = [check_form(part, inputs) for part in parts]
    if not any(depends):
        raise ValueError("an expression of the inputs is unknown")
    return True


def evaluate_form(form: Any, inputs: Sequence[_N], function: Callable[[str], Callable[[_N], _N]]) -> _N | float:
    """Return the values of a form, by arithmetic on the values of the inputs.

    Args:
        form: Checked form.
        inputs: Values of the inputs, such as arrays (rows,).
        function: Returns a function by its name in NumPy.
    """
    match form:
        case {"input": index}:
            return inputs[int(index)]
        case [name, *arguments]:
            parts: list[Any] = [evaluate_form(each, inputs, function) for each in arguments]
            if name in _ARITHMETIC:
                return functools.reduce(_ARITHMETIC[name], parts)  # type: ignore[no-any-return]
            return function(name)(parts[0])
    return float(form)
