"""Which command each target has, and the choice between targets by --target.

A command is there for the targets that have the methods of a protocol of `qcnn.targets.base`. It is a function, which
returns the command of a target, and is loaded when it is asked for.
"""

import copy
import dataclasses
import importlib
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click

from qcnn.targets import TARGETS, target_that, targets_that
from qcnn.targets.base import (
    ComparesRuns,
    Deploys,
    FindsLogs,
    Predicts,
    ReadsJobs,
    RunsStudies,
    Schedules,
    Submits,
    Target,
    Terminates,
)


@dataclasses.dataclass(frozen=True)
class Command:
    """A command that targets have: what a target must do for it, the function that makes it, and its usual target.

    `here`: the function that makes that of this machine, where it is another one. Without a usual target --target must
    be given.
    """

    needs: type[Target]
    made_by: str
    usual: str | None = None
    here: str = ""

    @property
    def targets(self) -> tuple[str, ...]:
        """The names of the targets that have it."""
        known = targets_that(self.needs)
        return tuple(name for name in TARGETS if name in known or (self.here and name == _LOCAL))

    def load(self, target: str) -> click.Command:
        """Return the command of a target."""
        if self.here and target == _LOCAL:
            command: click.Command = _loaded(self.here)
            return command
        make: Callable[[Target], click.Command] = _loaded(self.made_by)
        return make(target_that(self.needs, target))


_LOCAL = "local"
COMMANDS: Mapping[str, Command] = {
    "study": Command(RunsStudies, "qcnn.cli.submit:study_command", _LOCAL, "qcnn.cli.study:study"),
    "compare": Command(ComparesRuns, "qcnn.cli.compare:compare_command", "kubeflow"),
    "tensorboard": Command(FindsLogs, "qcnn.cli.tensorboard:tensorboard_command", "kubeflow"),
    "submit": Command(Submits, "qcnn.cli.submit:submit_command"),
    "status": Command(ReadsJobs, "qcnn.cli.jobs:status_command", "tfjob"),
    "logs": Command(ReadsJobs, "qcnn.cli.jobs:logs_command", "tfjob"),
    "predict": Command(Predicts, "qcnn.cli.predict:predict_command", _LOCAL),
    "deploy": Command(Deploys, "qcnn.cli.deploy:deploy_command"),
    "undeploy": Command(Deploys, "qcnn.cli.deploy:undeploy_command"),
    "delete": Command(ReadsJobs, "qcnn.cli.jobs:delete_command", "tfjob"),
    "schedule": Command(Schedules, "qcnn.cli.schedule:schedule_command", "kubeflow"),
    "terminate": Command(Terminates, "qcnn.cli.jobs:terminate_command", "kubeflow"),
}


@dataclasses.dataclass(frozen=True)
class RequestedTarget:
    """A target that a command line asks for, whether it names it, and the extra that brings its libraries."""

    name: str
    extra: str
    is_given: bool


def requested_target(name: str, words: Sequence[str]) -> RequestedTarget | None:
    """Return the target that a command of this name is asked for by these words, None where it has none."""
    if name not in COMMANDS:
        return None
    given = [word.partition("=")[2] for word in words if word.startswith("--target=")]
    given += [value for word, value in itertools.pairwise(words) if word == "--target"]
    having = COMMANDS[name].targets
    chosen = given[-1] if given else having[0] if len(having) == 1 else COMMANDS[name].usual or ""
    return RequestedTarget(chosen, target_that(Target, chosen).extra, bool(given)) if chosen in having else None


def _loaded(line: str) -> Any:
    module, _, name = line.partition(":")
    return getattr(importlib.import_module(module), name)


def target_command(name: str, help_text: str) -> click.Command | None:
    """Return the command of this name, with a choice of the targets that have one; None where none has."""
    return TargetChoice(name, help_text, COMMANDS[name]) if name in COMMANDS else None


class TargetChoice(click.Command):
    """A command that several targets have, each with options of its own: --target chooses between them."""

    def __init__(self, name: str, help_text: str, command: Command) -> None:
        targets = list(command.targets)
        option = click.Option(
            ["--target"],
            type=click.Choice(targets),
            default=command.usual,
            show_default=True,
            expose_value=False,
            help="Where; each has options of its own, which --target NAME --help shows.",
        )
        metavar = f"--target [{'|'.join(targets)}] [OPTIONS]"
        super().__init__(name, params=[option], help=help_text, options_metavar=metavar)
        self._option, self._targets, self._of_target = option, targets, command

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: object
    ) -> click.Context:
        """Return the context of the command of the target that is asked for."""
        is_completed = bool(extra.get("resilient_parsing"))
        target, rest = self._asked_for(args, parent, resilient_parsing=is_completed)
        if target is None and is_completed:
            # A shell asks how the words go on.
            return super().make_context(info_name, [], parent, **extra)
        if target is None:
            # Help is given without a target; all other words belong to the command of a target.
            help_names = parent.help_option_names if parent else ["--help"]
            help_asked = [word for word in args if word in help_names]
            super().make_context(info_name, help_asked, parent, **extra)
            raise click.UsageError(
                f"{info_name}: --target must be given, one of {', '.join(self._targets)}. Given: none"
            )
        command = copy.copy(self._of_target.load(target))
        command.params = [self._option, *command.params]
        # A group would take --target only before the name of its command.
        own = rest if isinstance(command, click.Group) else args
        return command.make_context(f"{info_name} --target {target}", own, parent, **extra)

    def _asked_for(self, args: list[str], parent: click.Context | None, **how: bool) -> tuple[str | None, list[str]]:
        """Return the target that is asked for, and all other words."""
        option = copy.copy(self._option)
        option.expose_value = True
        only_target = click.Command(
            self.name,
            params=[option],
            add_help_option=False,
            context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
        )
        with only_target.make_context(self.name, list(args), parent, **how) as context:
            return context.params["target"], context.args
