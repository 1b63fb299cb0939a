"""Commands by target, and their selection by --target.

A target has a command if its class inherits from a protocol of `qcnn.targets.base`. The command is created by a
function of the class, which is imported on first use.
"""

import copy
import dataclasses
import importlib
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click

from qcnn import plugins
from qcnn.targets import TARGETS, target_class, target_classes
from qcnn.targets.base import (
    ComparesRuns,
    Deploys,
    FindsLogs,
    IsChecked,
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
    """A command that several targets have.

    Attributes:
        protocol: Protocol that a target must inherit from.
        factory: "module:function" that creates the command of a target.
        default: Target if --target is not given. None: --target is required.
        local: "module:command" for the local target, if the factory does not create it.
    """

    protocol: type[Target]
    factory: str
    default: str | None = None
    local: str = ""

    @property
    def targets(self) -> tuple[str, ...]:
        """Names of the targets that have the command."""
        implementing = target_classes(self.protocol)
        return tuple(name for name in TARGETS if name in implementing or (self.local and name == _LOCAL))

    def load(self, target: str) -> click.Command:
        """Import and return the command of a target."""
        if self.local and target == _LOCAL:
            command: click.Command = _import(self.local)
            return command
        create: Callable[[type[Target]], click.Command] = _import(self.factory)
        return create(target_class(target, self.protocol))


_LOCAL = "local"
COMMANDS: Mapping[str, Command] = {
    "study": Command(RunsStudies, "qcnn.cli.submit:study_command", _LOCAL, "qcnn.cli.study:study"),
    "doctor": Command(IsChecked, "qcnn.cli.doctor:doctor_command", _LOCAL),
    "compare": Command(ComparesRuns, "qcnn.cli.compare:compare_command", "kubeflow"),
    "tensorboard": Command(FindsLogs, "qcnn.cli.tensorboard:tensorboard_command", "kubeflow"),
    "submit": Command(Submits, "qcnn.cli.submit:submit_command"),
    "status": Command(ReadsJobs, "qcnn.cli.jobs:status_command", "kubernetes"),
    "logs": Command(ReadsJobs, "qcnn.cli.jobs:logs_command", "kubernetes"),
    "predict": Command(Predicts, "qcnn.cli.predict:predict_command", _LOCAL),
    "deploy": Command(Deploys, "qcnn.cli.deploy:deploy_command"),
    "undeploy": Command(Deploys, "qcnn.cli.deploy:undeploy_command"),
    "delete": Command(ReadsJobs, "qcnn.cli.jobs:delete_command", "kubernetes"),
    "schedule": Command(Schedules, "qcnn.cli.schedule:schedule_command", "kubeflow"),
    "terminate": Command(Terminates, "qcnn.cli.jobs:terminate_command", "kubeflow"),
}


class TargetName(click.Choice[str]):
    """Type of --target: a target of this package, or of an installed plug-in. Help lists only the former."""

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the name of a target, whose capabilities are checked when it is loaded.

        Args:
            value: Given name.
            param: The option.
            ctx: Context of the command.

        Raises:
            click.BadParameter: If no target has this name.
        """
        if value not in self.choices and value in plugins.installed(plugins.TARGETS):
            return value
        return super().convert(value, param, ctx)


@dataclasses.dataclass(frozen=True)
class RequestedTarget:
    """Target of a command line, the extra that installs its libraries, and whether --target names it."""

    name: str
    extra: str
    is_given: bool


def requested_target(name: str, arguments: Sequence[str]) -> RequestedTarget | None:
    """Return the target of a command line, or None if the command has no such target."""
    if name not in COMMANDS:
        return None
    given = [argument.partition("=")[2] for argument in arguments if argument.startswith("--target=")]
    given += [value for argument, value in itertools.pairwise(arguments) if argument == "--target"]
    targets = COMMANDS[name].targets
    target = given[-1] if given else targets[0] if len(targets) == 1 else COMMANDS[name].default or ""
    return RequestedTarget(target, target_class(target, Target).extra, bool(given)) if target in targets else None


def _import(reference: str) -> Any:
    module, _, name = reference.partition(":")
    return getattr(importlib.import_module(module), name)


def target_command(name: str, help_text: str) -> click.Command | None:
    """Return the command of a name that --target selects, or None if no target has it."""
    return TargetChoice(name, help_text, COMMANDS[name]) if name in COMMANDS else None


class TargetChoice(click.Command):
    """Command with separate options for each target, which --target selects."""

    def __init__(self, name: str, help_text: str, command: Command) -> None:
        targets = list(command.targets)
        option = click.Option(
            ["--target"],
            type=TargetName(targets),
            default=command.default,
            show_default=True,
            expose_value=False,
            help="Execution target.",
        )
        metavar = f"--target [{'|'.join(targets)}] [OPTIONS]"
        super().__init__(name, params=[option], help=help_text, options_metavar=metavar)
        self._option, self._targets, self._command = option, targets, command

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: object
    ) -> click.Context:
        """Return the context of the command of the requested target."""
        is_completion = bool(extra.get("resilient_parsing"))
        target, rest = self._split_target(args, parent, resilient_parsing=is_completion)
        if target is None and is_completion:
            return super().make_context(info_name, [], parent, **extra)
        if target is None:
            # Only help works without a target: all other arguments belong to the command of a target.
            help_names = parent.help_option_names if parent else ["--help"]
            help_arguments = [argument for argument in args if argument in help_names]
            super().make_context(info_name, help_arguments, parent, **extra)
            raise click.UsageError(f"{info_name}: --target must be one of {', '.join(self._targets)}. Given: none")
        command = copy.copy(self._command.load(target))
        command.params = [self._option, *command.params]
        # A group would accept --target only before the name of its command.
        arguments = rest if isinstance(command, click.Group) else args
        return command.make_context(f"{info_name} --target {target}", arguments, parent, **extra)

    def _split_target(
        self, args: list[str], parent: click.Context | None, **settings: bool
    ) -> tuple[str | None, list[str]]:
        """Return the requested target, and all other arguments."""
        option = copy.copy(self._option)
        option.expose_value = True
        only_target = click.Command(
            self.name,
            params=[option],
            add_help_option=False,
            context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
        )
        with only_target.make_context(self.name, list(args), parent, **settings) as context:
            return context.params["target"], context.args
