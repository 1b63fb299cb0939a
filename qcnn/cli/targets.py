"""The targets, and which commands each has; what their pipelines are compiled with is in pipelines/targets.py.

A command of a target is the one of the module of its name in the target's folder, and is loaded when it is asked for. A
new target is a folder, and a line here and there.
"""

import copy
import dataclasses
import importlib
import itertools
from collections.abc import Sequence

import click


@dataclasses.dataclass(frozen=True)
class Target:
    """What commands there are for a target, in which package, and the extra that brings their libraries."""

    package: str
    commands: tuple[str, ...]
    extra: str

    def load(self, name: str) -> click.Command:
        """Return one of its commands."""
        return load_command(self.package, name)


TARGETS = {
    "local": Target("qcnn.cli.local", ("run", "study", "circuit", "predict"), "run"),
    "kubeflow": Target(
        "qcnn.cli.kubeflow", ("submit", "study", "schedule", "compare", "tensorboard", "terminate"), "kubeflow"
    ),
    # The client of Kubernetes is always there.
    "tfjob": Target("qcnn.cli.tfjob", ("submit", "status", "logs", "predict", "delete"), ""),
    "vertex": Target(
        "qcnn.cli.vertex",
        (
            *("submit", "study", "schedule", "compare", "tensorboard", "status", "logs", "terminate", "delete"),
            *("deploy", "predict", "undeploy"),
        ),
        "vertex",
    ),
    "vertex-job": Target("qcnn.cli.vertex_job", ("submit", "status", "logs", "delete"), "vertex"),
}
_HERE = "local"
# The target of a command where --target is not given; what is not here needs --target.
_DEFAULTS = {
    "study": "local",
    "compare": "kubeflow",
    "tensorboard": "kubeflow",
    "schedule": "kubeflow",
    "terminate": "kubeflow",
    "status": "tfjob",
    "logs": "tfjob",
    "delete": "tfjob",
    "predict": "local",
}


@dataclasses.dataclass(frozen=True)
class Asked:
    """A target that a command line asks for, whether it names it, and the extra that brings its libraries."""

    name: str
    extra: str
    is_given: bool


def asked_target(name: str, words: Sequence[str]) -> Asked | None:
    """Return the target that a command of this name is asked for by these words, None where it has none."""
    given = [word.partition("=")[2] for word in words if word.startswith("--target=")]
    given += [value for word, value in itertools.pairwise(words) if word == "--target"]
    having = [target for target, described in TARGETS.items() if name in described.commands]
    chosen = given[-1] if given else having[0] if len(having) == 1 else _DEFAULTS.get(name, "")
    return Asked(chosen, TARGETS[chosen].extra, bool(given)) if chosen in having else None


def load_command(package: str, name: str) -> click.Command:
    """Return the command of the module of its name in a package."""
    command: click.Command = getattr(importlib.import_module(f"{package}.{name}"), name)
    return command


def target_command(name: str, help_text: str) -> click.Command | None:
    """Return the command of this name, with a choice of the targets that have one; None where none has.

    What this machine alone has needs no choice.
    """
    names = [target for target, described in TARGETS.items() if name in described.commands]
    if names in ([], [_HERE]):
        return TARGETS[_HERE].load(name) if names else None
    return _Choice(name, help_text, names)


class _Choice(click.Command):
    """A command that several targets have, each with options of its own: --target chooses between them."""

    def __init__(self, name: str, help_text: str, targets: list[str]) -> None:
        option = click.Option(
            ["--target"],
            type=click.Choice(targets),
            default=_DEFAULTS.get(name),
            show_default=True,
            expose_value=False,
            help="Where; each has options of its own, which --target NAME --help shows.",
        )
        metavar = f"--target [{'|'.join(targets)}] [OPTIONS]"
        super().__init__(name, params=[option], help=help_text, options_metavar=metavar)
        self._option, self._targets = option, targets

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
        command = copy.copy(TARGETS[target].load(str(self.name)))
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
