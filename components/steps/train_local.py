"""The local train step: one job for one experiment, run as local processes."""

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from qcnn.components.training_job import local_job
from qcnn.experiment.config import ExperimentConfig
from qcnn.experiment.parsing import from_json
from qcnn.jobs.job import JobSpec
from qcnn.jobs.local.runner import run_processes
from qcnn.jobs.local.session import Session
from qcnn.model import checkpoints
from qcnn.provenance import provenance
from qcnn.storage.copies import local_copy
from qcnn.studies.trials import failure_kept

# Modules that the fork server imports for training processes. They must not start a thread or open a device, because
# neither survives a fork.
PRELOADED_MODULES = ("tensorflow", "tf_keras", "qcnn.trainer.loop")


def train(experiment: str, dataset: str, training: str, logs: str, *, trial: bool = False) -> dict[str, Any]:
    """Train in new processes and return the metadata of training and logs. See `train_experiment`.

    Args:
        experiment: Experiment as JSON.
        dataset: Folder of the dataset.
        training: Folder for checkpoints.
        logs: Folder for TensorBoard events.
        trial: Whether the job is a trial of a study.
    """
    return train_experiment(from_json(experiment), dataset, training, logs, _run_in_new_processes, trial=trial)


def _run_in_new_processes(job: JobSpec) -> None:
    """Run a job in new processes, which load the libraries once, also for restarts."""
    with contextlib.closing(Session(PRELOADED_MODULES)) as session:
        run_processes(job, lambda process, event: None, server=session.start())


def train_experiment(
    config: ExperimentConfig,
    dataset: str,
    training: str,
    logs: str,
    run: Callable[[JobSpec], None],
    *,
    trial: bool = False,
) -> dict[str, Any]:
    """Train locally and return the metadata of training and logs.

    Args:
        config: Experiment.
        dataset: Folder of the dataset.
        training: Folder for checkpoints. Training resumes from its last checkpoint.
        logs: Folder for TensorBoard events.
        run: Runs the job.
        trial: Whether the job is a trial of a study. If it fails, the reason is written to `training` and nothing is
            raised.
    """
    with failure_kept(config, Path(training)) if trial else contextlib.nullcontext():
        if config.options.continue_from:
            with local_copy(config.options.continue_from) as source:
                checkpoints.copy_latest(source, Path(training))
        run(local_job(config, dataset, training, logs))
    trained = checkpoints.load_latest(Path(training) / checkpoints.FOLDER)
    return provenance(config, trained.simulator if trained else "")
