"""What the pods of a job are given, as a file and as flags."""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from qcnn.cli.options.base import options_as
from qcnn.cli.output import warn_of_gpu_image
from qcnn.components.resources import KEY, step_resources
from qcnn.errors import ConfigError
from qcnn.experiment_io import read_file
from qcnn.jobs.pod_settings import Pod, pod_settings

# What often differs between jobs; the rest belongs in a file.
_FLAGS = {
    "image": "Image of the pods.",
    "cpu": "CPUs of each pod, as 2 or 500m.",
    "memory": "Memory of each pod, as 4Gi.",
    "gpus": "GPUs of each pod (nvidia.com/gpu).",
    "service_account": "Service account of the pods.",
    "queue": "LocalQueue of Kueue in which the job waits for room.",
    "priority_class": "Priority class of the pods.",
    "topology_spread": "Key of a label of nodes over whose values the pods are spread, as topology.kubernetes.io/zone.",
    "metrics_port": "Port on which every process serves metrics for Prometheus.",
    "log_format": "Format of the pods' logs, text or json.",
}
_INTEGERS = ("gpus", "metrics_port")


@dataclasses.dataclass(frozen=True)
class PodFlags:
    """What was typed about a job's pods: a file, and flags that win over it; None for what was not given."""

    pod_file: str | None
    environment: Sequence[str]
    flags: Mapping[str, Any]

    @property
    def is_given(self) -> bool:
        """Whether anything was."""
        return bool(self.pod_file or self.environment or any(value is not None for value in self.flags.values()))

    def settings(self, **defaults: str) -> Pod:
        """Return the settings of the file with the flags laid over them; `defaults` count where nothing is given.

        Raises:
            ConfigError: one line with what is wrong.
        """
        values = read_file(Path(self.pod_file), "pod") if self.pod_file is not None else {}
        # One file serves trainings and pipelines; only these have steps.
        step_resources(values.pop(KEY, None))
        values |= {name: value for name, value in self.flags.items() if value is not None}
        if self.environment:
            known = values.get("environment", {})
            pairs = dict(map(_pair, self.environment))
            values["environment"] = {**known, **pairs} if isinstance(known, dict) else known
        pod = pod_settings({**defaults, **values})
        warn_of_gpu_image(pod)
        return pod


# Gives a command --pod, --env and a flag for what often changes, and hands it `pod`.
pod_options = options_as(
    "pod",
    lambda pod_file, environment, **flags: PodFlags(pod_file, environment, flags),
    click.option(
        "--pod",
        "pod_file",
        metavar="FILE",
        help=f"YAML file with any of {', '.join(Pod.model_fields)}; the flags below win.",
    ),
    *(
        click.option(
            f"--{name.replace('_', '-')}", name, help=text, type=int if name in _INTEGERS else str, metavar="VALUE"
        )
        for name, text in _FLAGS.items()
    ),
    click.option(
        "--env", "environment", multiple=True, metavar="NAME=VALUE", help="Environment of the pods; may come often."
    ),
)


def _pair(text: str) -> tuple[str, str]:
    name, found, value = text.partition("=")
    if not (name and found):
        raise ConfigError(f"env: must be NAME=VALUE. Given: {text}")
    return name, value
