"""Flags for the fields of an experiment, generated from the schema, and their shell completion."""

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import click
from click.shell_completion import CompletionItem
from pydantic.fields import FieldInfo

from qcnn.circuits.formats.embedded import MODELS
from qcnn.circuits.formats.loading import with_embedded_circuit
from qcnn.cli.options.settings import options_as
from qcnn.experiment.config import ALL_FIELDS, ExperimentConfig
from qcnn.experiment.fields import GENERATED, describe, is_switch, written_default
from qcnn.experiment.parsing import from_mapping, merge, parse_flag
from qcnn.results.local_run import FILE
from qcnn.yaml_files import as_yaml, read_file

# Completion function of click: returns the completions of an incomplete value.
Complete = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]
# Fields whose value may be a file, with their values that are not files.
_OR_FILE = {"model": MODELS, "data": GENERATED, "continue_from": ()}


def complete_field(name: str, field: FieldInfo) -> Complete:
    """Return the completion function of an experiment's field."""

    def complete(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
        matching = [CompletionItem(value) for value in _values(name, field) if value.startswith(incomplete)]
        return matching or (complete_file(context, parameter, incomplete) if name in _OR_FILE else [])

    return complete


def complete_file(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Delegate completion of a file name to the shell.

    Args:
        context: Context of the command.
        parameter: Option or argument to complete.
        incomplete: Start of the value.
    """
    return [CompletionItem(incomplete, type="file")]


def complete_run(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the matching runs in the folder of --runs, or delegate completion of a folder to the shell.

    Args:
        context: Context of the command, with the value of --runs.
        parameter: Argument, completed by names of runs, or option, completed by paths.
        incomplete: Start of the value.
    """
    runs = Path(context.params.get("runs") or "runs")
    names = sorted(path.parent.name for path in runs.glob(f"*/{FILE}")) if runs.is_dir() else []
    matching = [name for name in names if name.startswith(incomplete)]
    if parameter.nargs == 1:
        # An option takes the path of a run.
        matching = [str(runs / name) for name in names if str(runs / name).startswith(incomplete)]
    return [CompletionItem(name) for name in matching] or [CompletionItem(incomplete, type="dir")]


def _values(name: str, field: FieldInfo) -> tuple[str, ...]:
    if get_origin(field.annotation) is Literal:
        return get_args(field.annotation)
    return _OR_FILE.get(name, ("0", "1") if is_switch(field) else ())


@dataclasses.dataclass(frozen=True)
class ExperimentOptions:
    """Options that define an experiment.

    Attributes:
        config: Experiment file, or None.
        flags: Text of each flag, or None if it is not given.
        print_config: Whether to print the experiment and exit when it is read.
    """

    config: str | None
    flags: Mapping[str, str | None]
    print_config: bool = False

    @property
    def given(self) -> list[str]:
        """The given flags."""
        values = {"config": self.config, **self.flags}
        return [_flag(name) for name, text in values.items() if text is not None]

    def merged(self) -> dict[str, Any]:
        """Return the unvalidated fields of the file, overridden by the flags.

        Raises:
            ConfigError: If the file cannot be read.
        """
        given = {name: parse_flag(ALL_FIELDS[name], text) for name, text in self.flags.items() if text is not None}
        return merge(read_file(Path(self.config)) if self.config is not None else {}, given)

    def mapping(self) -> dict[str, Any]:
        """Return the fields of `merged`, in which the content of a circuit file replaces its name.

        Raises:
            ConfigError: If a file cannot be read.
        """
        return with_embedded_circuit(self.merged())

    def experiment(self) -> ExperimentConfig:
        """Return the validated experiment.

        Raises:
            ConfigError: If a file cannot be read or a field is invalid.
        """
        experiment = from_mapping(self.mapping())
        self.print_if_requested(experiment.model_dump())
        return experiment

    def print_if_requested(self, fields: Mapping[str, Any]) -> None:
        """Print fields as a file for --config and exit, if --print-config is given."""
        if self.print_config:
            click.echo(as_yaml(fields), nl=False)
            raise click.exceptions.Exit(0)


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _option(name: str, field: FieldInfo) -> Callable[..., Any]:
    help_text, complete = f"{describe(field)} [default: {written_default(field)}]", complete_field(name, field)
    if is_switch(field):
        # Without a value, the flag means 1.
        return click.option(
            _flag(name), name, help=help_text, metavar="VALUE", is_flag=False, flag_value="1", shell_complete=complete
        )
    return click.option(_flag(name), name, help=help_text, metavar="VALUE", shell_complete=complete)


# Adds --config, --print-config and a flag for each field to a command, and passes it `options`.
experiment_options = options_as(
    "options",
    lambda config, print_config, **flags: ExperimentOptions(config, flags, print_config),
    click.option(
        "--config",
        help="Path to an experiment file (YAML). Flags override its values.",
        metavar="FILE",
        shell_complete=complete_file,
    ),
    click.option("--print-config", is_flag=True, help="Print the resolved experiment as YAML and exit."),
    *(
        # As text, so that a file, a flag and a pipeline parameter give the same error message.
        _option(name, field)
        for name, field in ALL_FIELDS.items()
    ),
)
