"""The experiment's words as flags, generated from the experiment's own description."""

import dataclasses
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click
from pydantic.fields import FieldInfo

from cli.options.group import options_as
from trainer.config import (
    MODELS,
    WORDS,
    ExperimentConfig,
    describe,
    from_mapping,
    is_switch,
    merge,
    parse_flag,
    read_file,
)


@dataclasses.dataclass(frozen=True)
class Words:
    """What was typed about an experiment: a file, and the text of each flag; None for what was not given."""

    config: str | None
    flags: Mapping[str, str | None]

    @property
    def given(self) -> list[str]:
        """The flags that were given."""
        values = {"config": self.config, **self.flags}
        return [_flag(name) for name, text in values.items() if text is not None]

    def mapping(self) -> dict[str, Any]:
        """Return what the file holds with the flags laid over it, not yet validated.

        Raises:
            ConfigError: the file cannot be read.
        """
        given = {name: parse_flag(WORDS[name], text) for name, text in self.flags.items() if text is not None}
        return merge(read_file(Path(self.config)) if self.config is not None else {}, given)

    def experiment(self) -> ExperimentConfig:
        """Return the experiment.

        Raises:
            ConfigError: one line with what is wrong.
        """
        return from_mapping(self.mapping())


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _option(name: str, field: FieldInfo) -> Callable[..., Any]:
    help_text = f"{describe(field)} [default: {field.default}]"
    if is_switch(field):
        # For yes it needs no value.
        return click.option(_flag(name), name, help=help_text, metavar="VALUE", is_flag=False, flag_value="1")
    return click.option(_flag(name), name, help=help_text, metavar="VALUE")


# Gives a command --config and a flag for each word, and hands it `words`.
experiment_options = options_as(
    "words",
    lambda config, **flags: Words(config, flags),
    click.option("--config", help="YAML file with any of the words below; flags win.", metavar="FILE"),
    *(
        # As text, so that file, flag and pipeline parameter are refused with the same message.
        _option(name, field)
        for name, field in WORDS.items()
    ),
)


def check_model(experiment: ExperimentConfig) -> None:
    """Refuse a circuit of the user's own that cannot be used, before anything is written or started.

    Its module is found in the folder that the user runs from, as the processes of a run find it.

    Raises:
        ConfigError: one line with what is wrong.
    """
    if experiment.model in MODELS:
        return
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    # It takes a second to load.
    from trainer.simulators.structure.gates import read_model

    read_model(experiment.model, experiment.qubits)
