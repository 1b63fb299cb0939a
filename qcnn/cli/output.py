"""What commands print and ask: times, notes on stderr, confirmations."""

import sys
from collections.abc import Callable, Mapping

import click

from qcnn.errors import ConfigError
from qcnn.jobs.pod_settings import Pod

_MINUTE, _HOUR, _DAY = 60, 3600, 86400


def in_two_units(seconds: float | None) -> str:
    """Return a time in its two largest units, empty where it is not known."""
    if seconds is None:
        return ""
    days, hours, minutes = int(seconds // _DAY), int(seconds % _DAY // _HOUR), int(seconds % _HOUR // _MINUTE)
    if days:
        return f"{days}d{hours}h"
    if hours:
        return f"{hours}h{minutes}m"
    rest = int(seconds % _MINUTE)
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"


def check_one_given(given: Mapping[str, bool]) -> None:
    """Refuse all but exactly one of the words that say what is to be deleted, each with whether it was given.

    Raises:
        ConfigError: there are none, or several.
    """
    if sum(given.values()) != 1:
        words = " ".join(word for word, is_given in given.items() if is_given) or "none"
        raise ConfigError(f"delete: takes one of {', '.join(given)}. Given: {words}")


def confirm(count: int, yes: bool) -> None:
    """Ask whether to delete so many objects, unless that was answered with `yes` beforehand.

    Raises:
        ConfigError: there is no terminal to ask at.
    """
    if yes:
        return
    refusal = f"delete: asks whether to; without a terminal give --yes. Given: {count} objects to delete"
    ask("delete these?", refusal)


def ask(question: str, refusal: str, *, err: bool = False) -> None:
    """Ask at the terminal, on stderr if `err`, and end the command unless it is answered with yes.

    Raises:
        ConfigError: there is no terminal, which is the `refusal`.
    """
    if not sys.stdin.isatty():
        raise ConfigError(refusal)
    click.confirm(question, abort=True, err=err)


def on_stderr(line: str) -> None:
    """Print a line on stderr."""
    click.echo(line, err=True)


def goes_on(hint: str) -> Callable[[], None]:
    """Return what says on stderr that a training which is not followed any more goes on."""
    return lambda: click.echo(f"\nnot followed any more; the training goes on. {hint}", err=True)


def warn_of_gpu_image(pod: Pod) -> None:
    """Print on stderr which image can use the GPUs that a job requests; nothing if it requests none."""
    if pod.has_gpus:
        click.echo(
            "pod.gpus: the image must have TensorFlow's CUDA libraries, and the image of the Dockerfile has none; a "
            f"process that sees no GPU ends before it makes data. Given: image {pod.image}",
            err=True,
        )
