"""What a shell offers for a word that has been begun: values of words, runs, files."""

from collections.abc import Callable
from pathlib import Path
from typing import Literal, get_args, get_origin

import click
from click.shell_completion import CompletionItem
from pydantic.fields import FieldInfo

from qcnn.circuits.formats.embedded import MODELS
from qcnn.experiment import GENERATED, is_switch
from qcnn.results.local_run import FILE

# What click asks for the items of a parameter whose value has been begun.
Complete = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]
# Words whose value may be a file, with the values that are none.
_OR_FILE = {"model": MODELS, "data": GENERATED, "continue_from": ()}


def complete_word(name: str, field: FieldInfo) -> Complete:
    """Return what completes the value of an experiment's word."""

    def complete(context: click.Context, parameter: click.Parameter, begun: str) -> list[CompletionItem]:
        found = [CompletionItem(value) for value in _values(name, field) if value.startswith(begun)]
        return found or (complete_file(context, parameter, begun) if name in _OR_FILE else [])

    return complete


def complete_file(context: click.Context, parameter: click.Parameter, begun: str) -> list[CompletionItem]:
    """Let the shell complete the name of a file."""
    return [CompletionItem(begun, type="file")]


def complete_run(context: click.Context, parameter: click.Parameter, begun: str) -> list[CompletionItem]:
    """Return the runs in the folder of --runs that begin so, or let the shell complete a folder."""
    runs = Path(context.params.get("runs") or "runs")
    names = sorted(path.parent.name for path in runs.glob(f"*/{FILE}")) if runs.is_dir() else []
    found = [name for name in names if name.startswith(begun)]
    if parameter.nargs == 1:
        # An option takes the path of a run.
        found = [str(runs / name) for name in names if str(runs / name).startswith(begun)]
    return [CompletionItem(name) for name in found] or [CompletionItem(begun, type="dir")]


def _values(name: str, field: FieldInfo) -> tuple[str, ...]:
    if get_origin(field.annotation) is Literal:
        return get_args(field.annotation)
    return _OR_FILE.get(name, ("0", "1") if is_switch(field) else ())
