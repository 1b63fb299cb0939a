"""Trains the line by one of the launchers: python -m examples.linear_regression.run --help."""

import dataclasses
import sys
from collections.abc import Mapping
from typing import Any

import click

from examples.linear_regression.train import HANG_SECONDS, STRATEGY
from qcnn import requirements
from qcnn.cli.main import run
from qcnn.cli.options.settings import settings_options
from qcnn.errors import ConfigError
from qcnn.jobs.job import Job, JobIdentity
from qcnn.jobs.kubernetes.api import own_namespace
from qcnn.jobs.local.runner import run_processes
from qcnn.jobs.pod_settings import PodSettings
from qcnn.jobs.tfjob.launch import launch
from qcnn.jobs.tfjob.manifest import JobTimeouts, tfjob
from qcnn.monitoring.logs import JOB_VARIABLE
from qcnn.startup import one_line_errors
from qcnn.targets.settings import PodFields
from qcnn.targets.tfjob.client import Connection


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings(PodFields, Connection):
    """The pods of a TFJob, and in which namespace it is."""


_REPLICAS = {"chief": 1, "ps": 1, "worker": 1}


def described(python: str, output: str, updates: int, pod: PodSettings | None) -> Job:
    """Describe the training as a job, whatever runs it: a chief, a parameter server and a worker."""
    words = ("--output", output, "--updates", str(updates))
    return Job(
        argv=(python, "-m", "examples.linear_regression.train", *words),
        replicas=_REPLICAS,
        restarts=3,
        heartbeat_timeout_seconds=HANG_SECONDS,
        ignore_exit=requirements.ignore_exit(STRATEGY),
        restart_individually=requirements.restart_individually(STRATEGY),
        pod=pod,
        outputs={"training": output},
    )


@click.command()
@click.option("--target", type=click.Choice(["local", "tfjob"]), default="local", show_default=True)
@click.option("--output", required=True, metavar="ADDRESS", help="Folder of the line; in a bucket for tfjob.")
@click.option("--updates", type=click.IntRange(1), default=4000, show_default=True)
@settings_options(Settings, "tfjob")
def train(target: str, output: str, updates: int, settings: Settings) -> None:
    """Fit y = w x + b to points of y = 2 x with noise, on one chief, one parameter server and one worker."""
    with one_line_errors():
        if target == "local":
            if settings.namespace or settings.has_pod_settings:
                raise ConfigError("target: only tfjob takes a namespace and settings of pods. Given: local")
            run_processes(described(sys.executable, output, updates, None), _ignore)
            return
        job = described("python", f"{output.rstrip('/')}/$({JOB_VARIABLE})", updates, settings.pod_with())
        manifest = tfjob(job, JobIdentity("linear-regression", "train"), JobTimeouts(lease_seconds=None))
        launch(manifest, settings.namespace or own_namespace())


def _ignore(process: str, event: Mapping[str, Any]) -> None:
    pass


if __name__ == "__main__":
    run(train)
