"""How flags become one value: the one way by which commands take what several of them share."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import click

# What click calls a decorator: it gives a command an option.
Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def options_as(name: str, make: Callable[..., Any], *options: Decorator) -> Decorator:
    """Return a decorator that gives a command these options; it is called with what `make` makes of them as `name`."""
    probe = click.Command(name)
    _decorated(probe, options)
    keys = [parameter.name for parameter in probe.params]

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(command)
        def called(**values: Any) -> Any:
            made = make(**{key: values.pop(key) for key in keys})
            return command(**{name: made}, **values)

        return _decorated(called, options)

    return decorate


def _decorated(command: Callable[..., Any], options: Sequence[Decorator]) -> Callable[..., Any]:
    for option in reversed(options):
        command = option(command)
    return command
