"""Settings of targets: each is described once, for flags of the command, arguments of Python and the reference page."""

from __future__ import annotations

import dataclasses
import logging
import os
import typing
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from qcnn.components.resources import KEY, step_resources
from qcnn.errors import ConfigError, format_value
from qcnn.jobs.pod_settings import PodSettings, pod_settings

T = TypeVar("T")

logger = logging.getLogger("qcnn")


@dataclasses.dataclass(frozen=True)
class Setting:
    """What is said of a setting beside its name, type and default.

    `variables`: environment variables that it is taken from where it is not given, the first that is set. `flag` and
    `short`: what the command calls it, where that is not its name. `is_argument`: the command takes it without a flag.
    `default`: what stands in for no value, in words.
    """

    help: str
    variables: tuple[str, ...] = ()
    metavar: str = ""
    flag: str = ""
    short: str = ""
    default: str = ""
    choices: Sequence[str] = ()
    least: int | None = None
    most: int | None = None
    is_argument: bool = False


def setting(
    help_text: str, default: Any = dataclasses.MISSING, *, shown: str = "", is_secret: bool = False, **described: Any
) -> Any:
    """Return a field of a target's settings; without a default it must be given.

    Args:
        help_text: What it is, one sentence.
        default: Its value where it is not given.
        shown: That value in words, where it is none.
        is_secret: Whether it is kept out of messages.
        described: What else `Setting` says.
    """
    metadata = {"setting": Setting(help_text, default=shown, **described)}
    if isinstance(default, dict):
        return dataclasses.field(default_factory=dict, metadata=metadata, repr=not is_secret)
    return dataclasses.field(default=default, metadata=metadata, repr=not is_secret)


@dataclasses.dataclass(frozen=True)
class Described:
    """A field of settings: its name, type, default (None where it has none), and what is said of it."""

    name: str
    kind: Any
    default: Any
    is_required: bool
    is_secret: bool
    setting: Setting

    @property
    def plain_kind(self) -> Any:
        """Its type without None."""
        kinds = typing.get_args(self.kind)
        return next(each for each in kinds if each is not type(None)) if type(None) in kinds else self.kind

    @property
    def shown_default(self) -> str:
        """What stands in where it is not given, in words; empty where nothing does."""
        return self.setting.default or ("" if self.default in (None, "", (), False) else str(self.default))


def described(kind: type[Any]) -> list[Described]:
    """Return the fields of a class of settings, in their order."""
    types = typing.get_type_hints(kind)
    return [
        Described(
            each.name,
            types[each.name],
            None if each.default is dataclasses.MISSING else each.default,
            each.default is each.default_factory is dataclasses.MISSING,
            not each.repr,
            each.metadata["setting"],
        )
        for each in dataclasses.fields(kind)
    ]


# Earlier names, which are accepted with a warning until 0.2.
RENAMED_SETTINGS: Mapping[str, str] = {
    "active_seconds": "active_deadline_seconds",
    "keep_seconds": "ttl_seconds_after_finished",
    "least": "min_replicas",
    "most": "max_replicas",
}


def settings_from(kind: type[T], values: Mapping[str, Any], target: str) -> T:
    """Return settings of a target, from arguments and from the environment variables of those that are not given.

    Raises:
        ConfigError: a setting is unknown, missing or wrong; one line.
    """
    fields = {each.name: each for each in described(kind)}
    values = {_current_name(name): value for name, value in values.items()}
    for name, value in values.items():
        if name not in fields:
            raise ConfigError(
                f"{name}: unknown setting of target {target}; the settings are {', '.join(fields)}. "
                f"Given: {format_value(value)}"
            )
    found = dict(values)
    for name, each in fields.items():
        variables = each.setting.variables
        if name not in found and (value := next(filter(None, map(os.environ.get, variables)), None)):
            found[name] = value
        if name in found:
            found[name] = _checked(each, found[name])
        elif each.is_required:
            variable = f", or environment variable {variables[0]}" if variables else ""
            raise ConfigError(f"{name}: must be given to target {target}{variable}. Given: none")
    return kind(**found)


def _current_name(name: str) -> str:
    if name not in RENAMED_SETTINGS:
        return name
    logger.warning("%s: renamed to %s; the earlier name is accepted until version 0.2", name, RENAMED_SETTINGS[name])
    return RENAMED_SETTINGS[name]


def connection_of(kind: type[T], settings: Any) -> T:
    """Return the part of a target's settings by which it is reached."""
    return kind(**{each.name: getattr(settings, each.name) for each in described(kind)})


# What a setting of a type may be given as, and how messages call it.
_ALLOWED: Mapping[Any, tuple[tuple[type, ...], str]] = {
    str: ((str, int, float), "text"),
    int: ((int,), "an integer"),
    bool: ((bool,), "True or False"),
    Path: ((str, Path), "a path"),
    Mapping[str, Any]: ((Mapping,), "a mapping"),
    Mapping[str, str]: ((Mapping,), "a mapping of names to text"),
    Sequence[str]: ((list, tuple), "a list of texts"),
}


def _checked(field: Described, value: Any) -> Any:
    """Return the value of a setting in its type; a number is its text where that is asked for.

    Raises:
        ConfigError: it has another type, or is out of its bounds.
    """
    if value is None and field.kind is not field.plain_kind:
        return None
    said, kind = field.setting, field.plain_kind
    kinds, allowed = _ALLOWED[kind]
    if said.choices:
        allowed = f"one of {', '.join(said.choices)}"
    bounds = [f"at least {said.least}"] * (said.least is not None) + [f"at most {said.most}"] * (said.most is not None)
    if bounds:
        allowed = f"{allowed}, {' and '.join(bounds)}"
    if not isinstance(value, kinds) or (isinstance(value, bool) and kind is not bool):
        raise ConfigError(f"{field.name}: must be {allowed}. Given: {format_value(value)}")
    if kind is str or kind is Path:
        value = kind(str(value))
    is_below = said.least is not None and value < said.least
    if is_below or (said.most is not None and value > said.most) or (said.choices and value not in said.choices):
        raise ConfigError(f"{field.name}: must be {allowed}. Given: {format_value(value)}")
    return value


# Settings of pods that often differ between jobs; the rest belongs in `pod`.
_OF_PODS = (
    *("image", "cpu", "memory", "gpus", "service_account", "queue", "priority_class", "topology_spread"),
    *("metrics_port", "log_format"),
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class PodFields:
    """What each pod of a job is given; a setting of its own counts over the same one in `pod`."""

    image: str | None = setting("Image of the pods.", None, metavar="IMAGE")
    pod: Mapping[str, Any] = setting(
        f"Settings of the pods, any of {', '.join(PodSettings.model_fields)}; for the command a YAML file.",
        {},
        metavar="FILE",
    )
    cpu: str | None = setting("CPUs of each pod, as 2 or 500m.", None)
    memory: str | None = setting("Memory of each pod, as 4Gi.", None)
    gpus: int | None = setting("GPUs of each pod (nvidia.com/gpu).", None)
    service_account: str | None = setting("Service account of the pods.", None)
    queue: str | None = setting("LocalQueue of Kueue in which the job waits for room.", None)
    priority_class: str | None = setting("Priority class of the pods.", None)
    topology_spread: str | None = setting(
        "Key of a label of nodes over whose values the pods are spread, as topology.kubernetes.io/zone.", None
    )
    metrics_port: int | None = setting("Port on which every process serves metrics for Prometheus.", None)
    log_format: str | None = setting("Format of the pods' logs, text or json.", None)
    environment: Mapping[str, str] = setting("Environment of the pods.", {}, flag="env", metavar="NAME=VALUE")

    @property
    def has_pod_settings(self) -> bool:
        """Whether any of these is given."""
        return bool(self.pod or self.environment) or any(getattr(self, name) is not None for name in _OF_PODS)

    def pod_with(self, **defaults: str) -> PodSettings:
        """Return the settings of the pods; `defaults` count where nothing is given.

        Raises:
            ConfigError: one line with the first that is wrong.
        """
        values = dict(self.pod)
        # One file serves trainings and pipelines; only these have steps.
        step_resources(values.pop(KEY, None))
        values |= {name: value for name in _OF_PODS if (value := getattr(self, name)) is not None}
        if self.environment:
            known = values.get("environment", {})
            values["environment"] = {**known, **self.environment} if isinstance(known, dict) else known
        return pod_settings({**defaults, **values})
