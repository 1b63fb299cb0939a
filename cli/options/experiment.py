"""The experiment's words as flags, generated from the experiment's own description."""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click

from trainer.config import (
    EXPERIMENT_FIELDS,
    MODELS,
    OPTION_FIELDS,
    ExperimentConfig,
    describe,
    from_mapping,
    merge,
    parse_flag,
    read_file,
)

WORDS = {**EXPERIMENT_FIELDS, **OPTION_FIELDS}


def experiment_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command --config and one flag a word; `read_experiment` turns their values into an experiment."""
    for name, field in reversed(WORDS.items()):
        help_text = f"{describe(field)} [default: {field.default}]"
        # Text, so that config file, flag and pipeline parameter are refused in the same words.
        command = click.option(f"--{name.replace('_', '-')}", name, help=help_text, metavar="VALUE")(command)
    return click.option("--config", help="YAML file with any of the words below; flags win.", metavar="FILE")(command)


def read_experiment(config: str | None, flags: Mapping[str, str | None]) -> ExperimentConfig:
    """Return the experiment of a config file with flags laid over it.

    Raises:
        ConfigError: one line with what is wrong.
    """
    return from_mapping(read_words(config, flags))


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
    from trainer.simulators.gates import read_model

    read_model(experiment.model, experiment.qubits)


def read_words(config: str | None, flags: Mapping[str, str | None]) -> dict[str, Any]:
    """Return what a config file holds with flags laid over it, not yet validated.

    Raises:
        ConfigError: the file cannot be read.
    """
    given = {name: parse_flag(WORDS[name], text) for name, text in flags.items() if text is not None}
    return merge(read_file(Path(config)) if config is not None else {}, given)
