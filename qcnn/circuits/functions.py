"""Functions of the user's modules, which experiments name as `module:function`."""

import contextlib
import importlib
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from qcnn.errors import ConfigError, single_line
from qcnn.process.import_path import append_to_path
from qcnn.process.signals import deferred_interrupts

_NAME = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
_PROGRAM = "__main__:"
_Result = TypeVar("_Result")


def is_function_name(name: str) -> bool:
    """Return whether text has the form `module:function` of a module that other processes can import."""
    # No other process can import a function of the program that a process runs.
    return bool(_NAME.fullmatch(name)) and not name.startswith(_PROGRAM)


def load_function(field: str, name: str) -> Any:
    """Import the user's function.

    Args:
        field: Experiment field, for messages.
        name: Name of the function, `module:function`.

    Raises:
        ConfigError: If it cannot be imported.
    """
    # The working directory is searched last, so that the user's files do not shadow libraries.
    with contextlib.suppress(OSError):
        append_to_path(str(Path.cwd()))
    module, _, function = name.partition(":")
    # An experiment from an untrusted source also contains a function's name.
    if module.partition(".")[0] in sys.stdlib_module_names:
        raise ConfigError(f"{field}: must not be a function of Python's standard library. Given: {name}")
    return call_guarded(field, name, lambda: getattr(importlib.import_module(module), function))


def call_guarded(field: str, name: str, call: Callable[[], _Result]) -> _Result:
    """Return the result of a call of the user's code.

    Args:
        field: Experiment field, for messages.
        name: Name of the function, for messages.
        call: Call of the user's code.

    Raises:
        ConfigError: If it fails.
    """
    with deferred_interrupts() as noted:
        try:
            return call()
        except ConfigError:
            raise
        except BaseException as error:
            if not noted:
                reason = f"{type(error).__name__}: {single_line(error)}"
                raise ConfigError(f"{field}: cannot be imported or fails ({reason}). Given: {name}") from None
    # The context manager has raised an interrupt before.
    raise KeyboardInterrupt
