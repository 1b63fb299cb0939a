"""Functions of the inputs of a circuit as nested lists, which are stored and evaluated without sympy.

A form is a number, {"input": index}, or a list of an operation and its arguments: "add", "multiply", "power", or the
name of a NumPy function.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

# Functions of one argument by the name of their class in sympy, with their names in NumPy and TensorFlow.
FUNCTIONS: Mapping[str, tuple[str, str]] = {
    "sin": ("sin", "sin"),
    "cos": ("cos", "cos"),
    "tan": ("tan", "tan"),
    "asin": ("arcsin", "asin"),
    "acos": ("arccos", "acos"),
    "atan": ("arctan", "atan"),
    "sinh": ("sinh", "sinh"),
    "cosh": ("cosh", "cosh"),
    "tanh": ("tanh", "tanh"),
    "exp": ("exp", "exp"),
    "log": ("log", "log"),
    "Abs": ("abs", "abs"),
}
SQUARE_ROOT = ("sqrt", "sqrt")
_NUMPY_FUNCTIONS = frozenset(name for name, _ in (*FUNCTIONS.values(), SQUARE_ROOT))
_ARITHMETIC = {"add": np.add, "multiply": np.multiply, "power": np.power}


def check_form(form: Any, inputs: int) -> None:
    """Check a form that was read from a file.

    Args:
        form: Form to check.
        inputs: Number of inputs.

    Raises:
        ValueError: If it is not a form.
    """
    match form:
        case int() | float() if np.isfinite(form):
            return
        case {"input": int(index), **others} if not others and 0 <= index < inputs:
            return
        case [str(name), first, second, *rest] if name in _ARITHMETIC and (not rest or name != "power"):
            parts = [first, second, *rest]
        case [str(name), argument] if name in _NUMPY_FUNCTIONS:
            parts = [argument]
        case _:
            raise ValueError("an expression of the inputs is unknown")
    for part in parts:
        check_form(part, inputs)


def evaluate_form(form: Any, columns: Sequence[npt.NDArray[np.float64]]) -> npt.NDArray[np.float64]:
    """Return the values of a form, float64 (rows,).

    Args:
        form: Checked form.
        columns: Contiguous values of the inputs, (rows,) each.
    """
    match form:
        case {"input": index}:
            return columns[int(index)]
        case [name, *arguments]:
            first, *rest = (evaluate_form(each, columns) for each in arguments)
            if name not in _ARITHMETIC:
                return np.asarray(getattr(np, name)(first), np.float64)
            for each in rest:
                first = _ARITHMETIC[name](first, each)
            return np.asarray(first, np.float64)
    return np.full(len(columns[0]), float(form))
