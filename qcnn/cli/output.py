"""Output of commands: tables, JSON, Kubernetes manifests, durations, prompts and exit codes."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import click
import yaml
from tabulate import tabulate

from qcnn.errors import ConfigError
from qcnn.jobs.references import gpu_image

if TYPE_CHECKING:
    from qcnn.jobs.pod_settings import PodSettings


@contextlib.contextmanager
def stdout_to_stderr(output_format: str) -> Iterator[None]:
    """Context manager that redirects stdout to stderr if the output format is JSON."""
    with contextlib.redirect_stdout(sys.stderr) if output_format == "json" else contextlib.nullcontext():
        yield


def show(output_format: str, value: Any, text: str) -> None:
    """Print a value as JSON, or its text.

    Args:
        output_format: "json", or another format for the text.
        value: Value to print as JSON.
        text: Text to print otherwise.
    """
    click.echo(json.dumps(value, indent=2) if output_format == "json" else text)


def show_rows(output_format: str, rows: Mapping[str, Any]) -> None:
    """Print names and values, as a JSON object or a two-column table."""
    show(output_format, dict(rows), tabulate(rows.items(), tablefmt="plain", disable_numparse=True))


def show_table(output_format: str, header: Sequence[str], rows: Sequence[Sequence[Any]], nothing: str) -> None:
    """Print a table, as a JSON list of objects or as text.

    Args:
        output_format: "json", or another format for the text.
        header: Names of the columns.
        rows: Cells of each row.
        nothing: Text to print for a table without rows.
    """
    described = [dict(zip(header, row, strict=True)) for row in rows]
    show(output_format, described, format_table(header, rows) if rows else nothing)


# Spaces between two columns of a table, and spaces that tabulate adds to the name of a column.
_GAP, _PADDING = 2, 2
# Minimum width of the other columns, for which the first column is wrapped.
_OTHERS = 20


def format_table(header: Sequence[str], rows: Sequence[Sequence[Any]], align: Sequence[str] | None = None) -> str:
    """Return a table as text that fits the terminal of stdout, or of any width if stdout is no terminal.

    In a narrow terminal, columns continue in further tables below, each with the first column.

    Args:
        header: Names of the columns.
        rows: Cells of each row.
        align: Alignment of each column, "left" or "right". None: left.
    """
    texts = [["" if cell is None else str(cell) for cell in row] for row in rows]
    widths = [
        max(len(name) + _PADDING, *map(len, column)) for name, *column in zip(header, header, *texts, strict=True)
    ]
    sides = align or ["left"] * len(header)

    def tabulated(columns: Mapping[int, int]) -> str:
        return tabulate(
            [[_wrap(row[column], limit) for column, limit in columns.items()] for row in texts],
            [_wrap(header[column], limit) for column, limit in columns.items()],
            "simple",
            disable_numparse=True,
            colalign=[sides[column] for column in columns] if rows else None,
        )

    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    if width is None or sum(widths) + _GAP * (len(widths) - 1) <= width:
        return tabulated(dict(enumerate(widths)))
    return "\n\n".join(map(tabulated, _fitting_tables(widths, width)))


def _fitting_tables(widths: Sequence[int], width: int) -> list[dict[int, int]]:
    """Return the columns of each table that fits a terminal, with the maximum width of each column.

    The first column is wrapped to half of the terminal if it is too wide, and another one to the rest.

    Args:
        widths: Width of each column.
        width: Width of the terminal.
    """
    first = widths[0] if widths[0] + _GAP + _OTHERS <= width else min(widths[0], width // 2)
    tables: list[dict[int, int]] = []
    left = 0
    for column, needed in enumerate(widths[1:], 1):
        limit = min(needed, width - first - _GAP)
        if left < limit + _GAP:
            tables.append({0: first})
            left = width - first
        tables[-1][column] = limit
        left -= limit + _GAP
    return tables or [{0: width}]


def _wrap(text: str, limit: int) -> str:
    """Return text in lines of a maximum width, preferably broken after a space, hyphen, underscore or slash."""
    lines = [""]
    for part in re.findall(r"[^-_/\s]*[-_/\s]|[^-_/\s]+", text):
        if lines[-1] and len(f"{lines[-1]}{part}".rstrip()) > limit:
            lines.append("")
        lines[-1] += part
        while len(lines[-1].rstrip()) > limit:
            lines[-1:] = [lines[-1][:limit], lines[-1][limit:]]
    return "\n".join(lines)


# Text that YAML 1.1 parsers such as kubectl's read as a number or a boolean, but PyYAML does not: 1e3, y.
_AMBIGUOUS = re.compile(r"[-+.]*\d.*|[yYnN]", re.DOTALL)


class _Dumper(yaml.SafeDumper):
    """YAML dumper that quotes text which a parser could read as another type."""


def _text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style='"' if _AMBIGUOUS.fullmatch(text) else None)


_Dumper.add_representer(str, _text)
# Repeated objects are written in full, because kubectl users do not expect YAML anchors.
_Dumper.ignore_aliases = lambda *_: True  # type: ignore[method-assign]


def as_text(objects: Sequence[Mapping[str, Any]], output_format: Literal["yaml", "json"]) -> str:
    """Return Kubernetes manifests as YAML documents, or as a List in JSON."""
    if output_format == "json":
        return json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}, indent=2) + "\n"
    return yaml.dump_all(objects, Dumper=_Dumper, sort_keys=False, width=float("inf"), explicit_start=True)


def print_requests(
    requests: Sequence[Mapping[str, Any]], request_format: Literal["json", "yaml"], output_format: str
) -> None:
    """Print requests without sending them.

    Args:
        requests: Kubernetes manifests or JSON requests.
        request_format: "yaml" for Kubernetes manifests.
        output_format: "json" prints manifests as JSON instead of YAML.
    """
    if request_format == "yaml":
        click.echo(as_text(requests, "json" if output_format == "json" else "yaml"), nl=False)
        return
    for request in requests:
        click.echo(json.dumps(request, indent=2))


_MINUTE, _HOUR, _DAY = 60, 3600, 86400


def format_duration(seconds: float | None) -> str:
    """Return a duration in its two largest units, or an empty text for None."""
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
    """Prompt before the deletion of `count` objects, unless `yes` is set.

    Raises:
        ConfigError: If there is no terminal.
    """
    if yes:
        return
    message = f"delete: must be confirmed; without a terminal, pass --yes. Given: {count} objects to delete"
    ask("Delete these objects?", message)


def ask(question: str, message: str, *, err: bool = False) -> None:
    """Prompt on the terminal, and abort the command unless the answer is yes.

    Args:
        question: Text of the prompt.
        message: Error message without a terminal.
        err: Whether to prompt on stderr.

    Raises:
        ConfigError: If there is no terminal.
    """
    if not sys.stdin.isatty():
        raise ConfigError(message)
    click.confirm(question, abort=True, err=err)


def on_stderr(line: str) -> None:
    """Print a line on stderr."""
    click.echo(line, err=True)


def report_gpu_image(pod: PodSettings) -> None:
    """Print on stderr which image the processes with GPUs of a job use, if it requests GPUs."""
    if pod.has_gpus:
        click.echo(
            f"pod.gpus: processes with GPUs use the image {gpu_image('pod.image', pod.image)}, which must contain "
            "TensorFlow's CUDA libraries (make push EXTRA=gpu); a process without a visible GPU fails at its start. "
            f"Given: image {pod.image}",
            err=True,
        )


def report_unpinned_image(pod: PodSettings) -> None:
    """Print on stderr that the steps of a pipeline use an image without a digest, if they do."""
    # This import loads pydantic, which help and completion do not need.
    from qcnn.components.resources import is_pinned

    if not is_pinned(pod.image):
        click.echo(
            "pod.image: the tag can refer to another image later, so training and the steps after it are not cached; "
            f"pin the image by its digest (NAME@sha256:DIGEST). Given: {pod.image}",
            err=True,
        )


# Exit codes of qcnn. A command that follows remote processes may also return the exit code of a failed process.
DONE, FAILED, REJECTED = 0, 1, 2
# A version is not better than the promoted one.
NOT_PROMOTED = 3
# 128 + the signal: SIGINT, and SIGPIPE for a closed output pipe.
INTERRUPTED, PIPE_CLOSED = 130, 141


class OutputLostError(KeyboardInterrupt):
    """Error that terminates a run whose output can no longer be written.

    It is a KeyboardInterrupt because it is raised inside logging, which swallows other exceptions.

    Args:
        message: Reason.
        code: Exit code of qcnn.
    """

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code
