"""What the train step does: one job for one experiment, run as processes of this machine."""

import sys

from components.train.job import Job
from components.train.local import run_processes
from trainer.config import ExperimentConfig, from_json
from trainer.startup import one_line_errors


def train(experiment: str, dataset: str, training: str, logs: str) -> None:
    """Train in the folder `training`, with TensorBoard events in `logs`; end with one line where that fails."""
    with one_line_errors():
        run_processes(describe_job(from_json(experiment), dataset, training, logs))


def describe_job(config: ExperimentConfig, dataset: str, training: str, logs: str) -> Job:
    """Describe the training job of an experiment."""
    arguments = {"experiment": config.to_json(), "dataset": dataset, "workdir": training, "logs": logs}
    return Job(
        argv=(
            sys.executable,
            "-m",
            "trainer.worker",
            *(word for name, value in arguments.items() for word in (f"--{name}", value)),
        ),
        replicas={"worker": config.workers},
        port_flags=("--profiler-port",),
    )
