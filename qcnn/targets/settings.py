"""Settings of targets: a single definition for flags, Python arguments and the reference page."""

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
from qcnn.targets.base import TargetSettings
from qcnn.tracking.destination import pod_variables

T = TypeVar("T", bound=TargetSettings)

logger = logging.getLogger("qcnn")


@dataclasses.dataclass(frozen=True)
class Setting:
    """Description of a setting, in addition to its name, type and default.

    `variables` are environment variables for an omitted value; the first that is set is used. `flag` and `short` are
    the flag's name, if it differs from the setting's. `default` is a description of the default. `minimum` and
    `maximum` are bounds of integers. With `is_argument`, the command takes the value without a flag.
    """

    help: str
    variables: tuple[str, ...] = ()
    metavar: str = ""
    flag: str = ""
    short: str = ""
    default: str = ""
    choices: Sequence[str] = ()
    minimum: int | None = None
    maximum: int | None = None
    is_argument: bool = False


def setting(
    help_text: str, default: Any = dataclasses.MISSING, *, shown: str = "", is_secret: bool = False, **described: Any
) -> Any:
    """Return a dataclass field for a setting. Without `default`, the setting is required.

    Args:
        help_text: Description, one sentence.
        default: Value of an omitted setting.
        shown: Description of the default, if `default` does not show it.
        is_secret: Whether to hide the value in messages.
        described: Other fields of `Setting`.
    """
    metadata = {"setting": Setting(help_text, default=shown, **described)}
    if isinstance(default, dict):
        return dataclasses.field(default_factory=dict, metadata=metadata, repr=not is_secret)
    return dataclasses.field(default=default, metadata=metadata, repr=not is_secret)


@dataclasses.dataclass(frozen=True)
class Described:
    """A field of a settings class. `default` is None if the field is required."""

    name: str
    kind: Any
    default: Any
    is_required: bool
    is_secret: bool
    setting: Setting

    @property
    def plain_kind(self) -> Any:
        """The type without None."""
        kinds = typing.get_args(self.kind)
        return next(each for each in kinds if each is not type(None)) if type(None) in kinds else self.kind

    @property
    def shown_default(self) -> str:
        """Text of the default value, or empty if there is none."""
        return self.setting.default or ("" if self.default in (None, "", (), False) else str(self.default))


def describe_settings(kind: type[TargetSettings]) -> list[Described]:
    """Return the fields of a settings class in order of definition."""
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


def settings_from(kind: type[T], values: Mapping[str, Any], target: str) -> T:
    """Return the settings of a target from arguments and environment variables.

    Args:
        kind: Settings class.
        values: Values by setting name.
        target: Name of the target, for messages.

    Raises:
        ConfigError: If a setting is unknown, missing or invalid.
    """
    fields = {each.name: each for each in describe_settings(kind)}
    for name, value in values.items():
        if name not in fields:
            raise ConfigError(
                f"{name}: unknown setting of target {target}; valid settings: {', '.join(fields)}. "
                f"Given: {format_value(value)}"
            )
    resolved = dict(values)
    for name, each in fields.items():
        variables = each.setting.variables
        if name not in resolved and (value := next(filter(None, map(os.environ.get, variables)), None)):
            resolved[name] = value
        if name in resolved:
            resolved[name] = _convert(each, resolved[name])
        elif each.is_required:
            variable = f", or environment variable {variables[0]}" if variables else ""
            raise ConfigError(f"{name}: must be given to target {target}{variable}. Given: none")
    return kind(**resolved)


# Accepted Python types of each setting type, and their description in messages.
_ALLOWED: Mapping[Any, tuple[tuple[type, ...], str]] = {
    str: ((str, int, float), "text"),
    int: ((int,), "an integer"),
    bool: ((bool,), "True or False"),
    Path: ((str, Path), "a path"),
    Mapping[str, Any]: ((Mapping,), "a mapping"),
    Mapping[str, str]: ((Mapping,), "a mapping of names to text"),
    Sequence[str]: ((list, tuple), "a list of text"),
}


def _convert(field: Described, value: Any) -> Any:
    """Return the value of a setting, converted to its type. Text settings accept numbers.

    Raises:
        ConfigError: If the value has a wrong type or is out of bounds.
    """
    if value is None and field.kind is not field.plain_kind:
        return None
    setting, kind = field.setting, field.plain_kind
    types, allowed = _ALLOWED[kind]
    low, high = setting.minimum, setting.maximum
    if setting.choices:
        allowed = f"one of {', '.join(setting.choices)}"
    bounds = [f"at least {low}"] * (low is not None) + [f"at most {high}"] * (high is not None)
    if bounds:
        allowed = f"{allowed}, {' and '.join(bounds)}"
    is_allowed = isinstance(value, types) and (kind is bool or not isinstance(value, bool))
    if not is_allowed or (kind == Sequence[str] and not all(isinstance(item, str) for item in value)):
        raise ConfigError(f"{field.name}: must be {allowed}. Given: {format_value(value)}")
    if kind is str or kind is Path:
        value = kind(str(value))
    is_outside = (low is not None and value < low) or (high is not None and value > high)
    if is_outside or (setting.choices and value not in setting.choices):
        raise ConfigError(f"{field.name}: must be {allowed}. Given: {format_value(value)}")
    return value


@dataclasses.dataclass(frozen=True, kw_only=True)
class CheckSettings(TargetSettings):
    """Settings of the checks of a target."""

    output: str | None = setting("Output folder to check, such as gs://BUCKET/FOLDER.", None, metavar="URI")
    read_only: bool = setting("List the output folder without writing a file to it.", False)


ACCELERATOR_HELP = "GPU model, such as nvidia-l4. Processes with GPUs use the image with the tag suffix -gpu."


@dataclasses.dataclass(frozen=True, kw_only=True)
class PodFields(TargetSettings):
    """Settings of the pods of a job. Separate fields, for those that often differ, override the same in `pod`."""

    image: str | None = setting("Image of the pods.", None, metavar="IMAGE")
    pod: Mapping[str, Any] = setting(
        "Pod settings (a YAML file on the command line). Other settings override its values.", {}, metavar="FILE"
    )
    cpu: str | None = setting("CPUs of each pod, such as 2 or 500m.", None)
    memory: str | None = setting("Memory of each pod, such as 4Gi.", None)
    gpus: int | None = setting("GPUs of each pod (nvidia.com/gpu).", None, shown="1 with an accelerator, else 0")
    accelerator: str | None = setting(ACCELERATOR_HELP, None, metavar="NAME")
    service_account: str | None = setting("Service account of the pods.", None)
    queue: str | None = setting("Kueue LocalQueue for the job.", None)
    priority_class: str | None = setting("Priority class of the pods.", None)
    topology_spread: str | None = setting(
        "Node topology key to spread pods over, such as topology.kubernetes.io/zone.", None
    )
    metrics_port: int | None = setting("Port on which every process serves Prometheus metrics.", None)
    log_format: str | None = setting("Format of the pod logs, text or json.", None)
    environment: Mapping[str, str] = setting("Environment variable for the pods.", {}, flag="env", metavar="NAME=VALUE")

    @property
    def has_pod_settings(self) -> bool:
        """Whether any pod setting is given."""
        return bool(self.pod or self.environment or self._overrides)

    @property
    def _overrides(self) -> dict[str, Any]:
        """Given pod settings with a separate field, except `environment`."""
        names = {each.name for each in dataclasses.fields(self)} & PodSettings.model_fields.keys() - {"environment"}
        return {name: value for name in names if (value := getattr(self, name)) is not None}

    @property
    def _variables(self) -> Mapping[str, str]:
        """Environment variables that override those of `pod`."""
        return self.environment

    def pod_with(self, **defaults: str) -> PodSettings:
        """Return the pod settings, with `defaults` for omitted values.

        Raises:
            ConfigError: If a setting is invalid.
        """
        values = dict(self.pod)
        # The same file is used for training jobs and pipelines, but only pipelines have steps.
        step_resources(values.pop(KEY, None))
        values |= self._overrides
        values |= with_variables(values, self._variables)
        return pod_settings({**defaults, **values})


def with_variables(pod: Mapping[str, Any], variables: Mapping[str, str]) -> dict[str, Any]:
    """Return pod settings with further environment variables. An invalid `environment` is kept, and rejected later."""
    known = pod.get("environment", {})
    return {**pod, "environment": {**known, **variables}} if variables and isinstance(known, Mapping) else dict(pod)


TRACKING_HELP = "MLflow server that records the run, at a URL that the pods can reach."


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrackedPodFields(PodFields):
    """Settings of the pods of a training job, whose chief sends the run to a server."""

    tracking: str | None = setting(TRACKING_HELP, None, metavar="mlflow:URL")

    @property
    def _variables(self) -> Mapping[str, str]:
        return {**self.environment, **(pod_variables(self.tracking) if self.tracking is not None else {})}
