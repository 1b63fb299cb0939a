"""What the pods of a job are given, as a file and as flags."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from components.resources import KEY, step_resources
from launchers.pod import Pod, pod_settings
from trainer.config import read_file
from trainer.errors import ConfigError

# What differs from one job to the next; all else is written down once, in a file.
_FLAGS = {
    "image": "Image of the pods.",
    "cpu": "CPUs of each pod, as 2 or 500m.",
    "memory": "Memory of each pod, as 4Gi.",
    "gpus": "GPUs of each pod (nvidia.com/gpu).",
    "service_account": "Service account of the pods.",
}


def pod_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command --pod, --env and a flag for what often changes; `read_pod` turns them into settings."""
    command = click.option(
        "--env", "environment", multiple=True, metavar="NAME=VALUE", help="Environment of the pods; may come often."
    )(command)
    for name, text in reversed(_FLAGS.items()):
        kind = int if name == "gpus" else str
        command = click.option(f"--{name.replace('_', '-')}", name, help=text, type=kind, metavar="VALUE")(command)
    keys = ", ".join(Pod.model_fields)
    return click.option(
        "--pod", "pod_file", metavar="FILE", help=f"YAML file with any of {keys}; the flags below win."
    )(command)


def given(pod_file: str | None, environment: Sequence[str], **flags: Any) -> bool:
    """Whether any of the options was given."""
    return bool(pod_file or environment or any(value is not None for value in flags.values()))


def read_pod(pod_file: str | None, environment: Sequence[str], **flags: Any) -> Pod:
    """Return the settings of a file with flags laid over them.

    Raises:
        ConfigError: one line with what is wrong.
    """
    values = read_file(Path(pod_file), "pod") if pod_file is not None else {}
    # One file serves trainings and pipelines; only these have steps.
    step_resources(values.pop(KEY, None))
    values |= {name: value for name, value in flags.items() if value is not None}
    if environment:
        known = values.get("environment", {})
        values["environment"] = {**known, **dict(map(_pair, environment))} if isinstance(known, dict) else known
    return pod_settings(values)


def _pair(text: str) -> tuple[str, str]:
    name, found, value = text.partition("=")
    if not (name and found):
        raise ConfigError(f"env: must be NAME=VALUE. Given: {text}")
    return name, value
