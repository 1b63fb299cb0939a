"""What commands print, ask and end with: tables, JSON, objects of Kubernetes, times, confirmations, exit codes."""

import contextlib
import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import click
import yaml
from tabulate import tabulate

from qcnn.errors import ConfigError
from qcnn.jobs.pod_settings import PodSettings


@contextlib.contextmanager
def stdout_to_stderr(form: str) -> Iterator[None]:
    """Have what is printed in this block on stdout stand on stderr, where JSON alone is to be on stdout."""
    with contextlib.redirect_stdout(sys.stderr) if form == "json" else contextlib.nullcontext():
        yield


def show(form: str, value: Any, text: str) -> None:
    """Print a value as JSON, or the text that people are told instead."""
    click.echo(json.dumps(value, indent=2) if form == "json" else text)


def show_rows(form: str, rows: Mapping[str, Any]) -> None:
    """Print names beside values, as JSON or for people."""
    show(form, dict(rows), tabulate(rows.items(), tablefmt="plain", disable_numparse=True))


def show_table(form: str, header: Sequence[str], rows: Sequence[Sequence[Any]], nothing: str) -> None:
    """Print a table, as a list of objects or for people, who are told by `nothing` that it is empty."""
    described = [dict(zip(header, row, strict=True)) for row in rows]
    show(form, described, tabulate(rows, header, "simple", disable_numparse=True) if rows else nothing)


# Text that readers of YAML 1.1 such as kubectl's take for a number or a boolean, and PyYAML does not: 1e3, y.
_NOT_TEXT = re.compile(r"[-+.]*\d.*|[yYnN]", re.DOTALL)


class _Dumper(yaml.SafeDumper):
    """Writes text so that every reader of YAML takes it for text."""


def _text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style='"' if _NOT_TEXT.fullmatch(text) else None)


_Dumper.add_representer(str, _text)
# Each object is written out, however often it is used.
_Dumper.ignore_aliases = lambda *_: True  # type: ignore[method-assign]


def as_text(objects: Sequence[Mapping[str, Any]], form: Literal["yaml", "json"]) -> str:
    """Return objects of Kubernetes as the documents of a YAML file, or as a List in JSON."""
    if form == "json":
        return json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}, indent=2) + "\n"
    return yaml.dump_all(objects, Dumper=_Dumper, sort_keys=False, width=float("inf"), explicit_start=True)


def print_requests(requests: Sequence[Mapping[str, Any]], are: Literal["json", "yaml"], form: str) -> None:
    """Print what would be sent: objects of Kubernetes for kubectl, a request as JSON."""
    if are == "yaml":
        click.echo(as_text(requests, "json" if form == "json" else "yaml"), nl=False)
        return
    for request in requests:
        click.echo(json.dumps(request, indent=2))


_MINUTE, _HOUR, _DAY = 60, 3600, 86400


def format_duration(seconds: float | None) -> str:
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


def warn_of_gpu_image(pod: PodSettings) -> None:
    """Print on stderr which image can use the GPUs that a job requests; nothing if it requests none."""
    if pod.has_gpus:
        click.echo(
            "pod.gpus: the image must have TensorFlow's CUDA libraries, and the image of the Dockerfile has none; a "
            f"process that sees no GPU ends before it makes data. Given: image {pod.image}",
            err=True,
        )


# The exit codes of qcnn; where a command follows processes elsewhere it may also end with the code of one that failed.
DONE, FAILED, REFUSED = 0, 1, 2
# 128 + the signal: SIGINT; SIGPIPE, where nobody reads the output any more.
INTERRUPTED, UNREAD = 130, 141


class OutputLostError(KeyboardInterrupt):
    """The output of a run can no longer be written, so the run has to end; `code` is the exit code of qcnn.

    It is a KeyboardInterrupt because it is raised inside logging, which swallows other exceptions.
    """

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code
