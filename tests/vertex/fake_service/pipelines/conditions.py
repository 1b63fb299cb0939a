"""Trigger conditions of tasks and parameter selectors, which the KFP compiler writes in CEL."""

import ast
import json
import re
from collections.abc import Mapping
from typing import Any

_OPERATORS = {"&&": " and ", "||": " or ", "true": "True", "false": "False"}
_SELECTOR = re.compile(r'parseJson\(string_value\)\["(?P<key>[^"]+)"\]')


def holds(condition: str, parameters: Mapping[str, Any]) -> bool:
    """Return whether a condition on the parameters of a task is true."""
    strings: list[str] = []

    def hide(found: re.Match[str]) -> str:
        strings.append(found.group())
        return f"__string_{len(strings) - 1}__"

    text = re.sub(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"", hide, condition)
    for operator, python in _OPERATORS.items():
        text = re.sub(rf"\b{operator}\b" if operator.isalpha() else re.escape(operator), python, text)
    text = re.sub(r"!(?!=)", " not ", text).replace("inputs.parameter_values", "parameters")
    text = re.sub(r"__string_(\d+)__", lambda found: strings[int(found[1])], text).strip()
    tree = ast.parse(text, mode="eval")
    functions = {"int": int, "double": float, "string": str, "bool": bool}
    scope = {"__builtins__": {}, **functions, "parameters": dict(parameters)}
    return bool(eval(compile(tree, condition, "eval"), scope))


def select(selector: str, value: Any) -> Any:
    """Return the part of a parameter value that a selector names."""
    found = _SELECTOR.fullmatch(selector)
    if not found:
        raise ValueError(f"unknown selector: {selector}")
    return (json.loads(value) if isinstance(value, str) else value)[found["key"]]
