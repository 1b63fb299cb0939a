"""Train the linear model locally or as a TFJob: python -m examples.linear_regression.run --help."""

import contextlib
import dataclasses
import sys
from collections.abc import Mapping
from typing import Any

import click

from examples.linear_regression.train import HEARTBEAT_TIMEOUT_SECONDS, STRATEGY
from qcnn.cli.main import run
from qcnn.cli.options.settings import settings_options
from qcnn.errors import ConfigError
from qcnn.experiment import requirements
from qcnn.jobs.job import JobIdentity, JobSpec
from qcnn.jobs.kubernetes.cluster_config import own_namespace
from qcnn.jobs.kubernetes.launch import launch
from qcnn.jobs.kubernetes.training_manifest import JobTimeouts
from qcnn.jobs.local.runner import run_processes
from qcnn.jobs.local.session import Session
from qcnn.jobs.pod_settings import PodSettings
from qcnn.jobs.tfjob.engine import TFJOB
from qcnn.monitoring.logs import JOB_VARIABLE
from qcnn.process.error_lines import one_line_errors
from qcnn.targets.cluster import ClusterConnection
from qcnn.targets.settings import PodFields


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings(PodFields, ClusterConnection):
    """Pod settings and namespace of a TFJob."""


_REPLICAS = {"chief": 1, "ps": 1, "worker": 1}


def described(python: str, output: str, updates: int, pod: PodSettings | None) -> JobSpec:
    """Return the training job with a chief, a parameter server and a worker.

    Args:
        python: Path to the Python interpreter.
        output: Folder or URI of the output.
        updates: Number of updates.
        pod: Pod settings, or None for a local job.
    """
    arguments = ("--output", output, "--updates", str(updates))
    return JobSpec(
        argv=(python, "-m", "examples.linear_regression.train", *arguments),
        replicas=_REPLICAS,
        restarts=3,
        heartbeat_timeout_seconds=HEARTBEAT_TIMEOUT_SECONDS,
        ignore_exit=requirements.ignore_exit(STRATEGY),
        restart_individually=requirements.restart_individually(STRATEGY),
        pod=pod,
        outputs={"training": output},
    )


@click.command()
@click.option(
    "--target", type=click.Choice(["local", "tfjob"]), default="local", show_default=True, help="Execution target."
)
@click.option("--output", required=True, metavar="URI", help="Output folder. Must be in a bucket for tfjob.")
@click.option("--updates", type=click.IntRange(1), default=4000, show_default=True, help="Number of updates.")
@settings_options(Settings, "tfjob")
def train(target: str, output: str, updates: int, settings: Settings) -> None:
    """Fit y = w x + b to noisy points with a chief, a parameter server and a worker."""
    with one_line_errors():
        if target == "local":
            if settings.namespace or settings.has_pod_settings:
                raise ConfigError("target: must be tfjob with a namespace or pod settings. Given: local")
            # The processes load TensorFlow once.
            with contextlib.closing(Session(("tensorflow",))) as session:
                run_processes(described(sys.executable, output, updates, None), _ignore, server=session.start())
            return
        job = described("python", f"{output.rstrip('/')}/$({JOB_VARIABLE})", updates, settings.pod_with())
        training = TFJOB.training(job, JobIdentity("linear-regression", "train"), JobTimeouts(lease_seconds=None))
        launch(training, settings.namespace or own_namespace())


def _ignore(process: str, event: Mapping[str, Any]) -> None:
    pass


if __name__ == "__main__":
    run(train)
