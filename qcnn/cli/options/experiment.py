"""The experiment's words as flags, generated from its own description, and what a shell offers for them."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import click
from click.shell_completion import CompletionItem
from pydantic.fields import FieldInfo

from qcnn import data
from qcnn.circuits.formats.embedded import MODELS
from qcnn.circuits.formats.loading import with_circuit
from qcnn.cli.options.settings import options_as
from qcnn.experiment import ALL_FIELDS, ExperimentConfig
from qcnn.experiment_io import as_yaml, from_mapping, merge, parse_flag, read_file
from qcnn.fields import GENERATED, describe, is_switch, written_default
from qcnn.results.local_run import FILE
from qcnn.simulators.registry import check_published

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


@dataclasses.dataclass(frozen=True)
class ExperimentOptions:
    """What was typed about an experiment: a file, and the text of each flag; None for what was not given.

    Where it is only to be printed, whatever reads the experiment prints it and ends the command.
    """

    config: str | None
    flags: Mapping[str, str | None]
    only_printed: bool = False

    @property
    def given(self) -> list[str]:
        """The flags that were given."""
        values = {"config": self.config, **self.flags}
        return [_flag(name) for name, text in values.items() if text is not None]

    def mapping(self) -> dict[str, Any]:
        """Return what the file holds with the flags laid over it, not yet validated; a circuit's file is read.

        Raises:
            ConfigError: a file cannot be read.
        """
        given = {name: parse_flag(ALL_FIELDS[name], text) for name, text in self.flags.items() if text is not None}
        return with_circuit(merge(read_file(Path(self.config)) if self.config is not None else {}, given))

    def experiment(self) -> ExperimentConfig:
        """Return the experiment.

        Raises:
            ConfigError: one line with what is wrong.
        """
        experiment = from_mapping(self.mapping())
        self.print_if_asked(experiment.model_dump())
        return experiment

    def print_if_asked(self, words: Mapping[str, Any]) -> None:
        """Print words as a file for --config, and end the command, if that is all it was asked for."""
        if self.only_printed:
            click.echo(as_yaml(words), nl=False)
            raise click.exceptions.Exit(0)


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _option(name: str, field: FieldInfo) -> Callable[..., Any]:
    help_text, complete = f"{describe(field)} [default: {written_default(field)}]", complete_word(name, field)
    if is_switch(field):
        # For yes it needs no value.
        return click.option(
            _flag(name), name, help=help_text, metavar="VALUE", is_flag=False, flag_value="1", shell_complete=complete
        )
    return click.option(_flag(name), name, help=help_text, metavar="VALUE", shell_complete=complete)


# Gives a command --config and a flag for each word, and hands it `words`.
experiment_options = options_as(
    "words",
    lambda config, print_config, **flags: ExperimentOptions(config, flags, print_config),
    click.option(
        "--config",
        help="YAML file with any of the words below; flags win.",
        metavar="FILE",
        shell_complete=complete_file,
    ),
    click.option("--print-config", is_flag=True, help="Print all words with their values as such a file, and end."),
    *(
        # As text, so that file, flag and pipeline parameter are refused with the same message.
        _option(name, field)
        for name, field in ALL_FIELDS.items()
    ),
)


def unwarned(line: str) -> None:
    """Leave a line about a file out, which the step that makes the dataset prints."""


def prepare_experiments(
    experiments: Sequence[ExperimentConfig], warn: Callable[[str], None] = data.warn_once
) -> list[ExperimentConfig]:
    """Return experiments as they will run here: circuits are checked and files are read, and nothing has begun.

    Raises:
        ArtifactError: a file cannot be read or used; one line, which names the row that is wrong.
        ConfigError: a circuit or an experiment cannot be used.
    """
    for experiment in experiments:
        check_model(experiment)
        check_published(experiment.simulator)
    return data.resolve_files(experiments, warn)


def check_model(experiment: ExperimentConfig) -> None:
    """Refuse a circuit of the user's own that cannot be used, before anything is written or started.

    Its module is found in the folder that the user runs from, as the processes of a run find it.

    Raises:
        ConfigError: one line with what is wrong.
    """
    if experiment.model in MODELS:
        return
    # It takes a second to load.
    from qcnn.simulators.structure.gates import read_model

    read_model(experiment.model, experiment.qubits)
