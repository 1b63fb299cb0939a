"""The local train step: one job for one experiment, run as local processes."""

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from qcnn.components.training_job import local_job
from qcnn.experiment.parsing import from_json
from qcnn.jobs.job import JobSpec
from qcnn.jobs.local.processes import EventHandler
from qcnn.jobs.local.runner import run_processes
from qcnn.model import checkpoints
from qcnn.process.error_lines import one_line_errors
from qcnn.provenance import provenance
from qcnn.storage.copies import local_copy
from qcnn.studies.trials import failure_kept

# Modules that the fork server imports for training processes. They must not start a thread or open a device, because
# neither survives a fork.
PRELOADED_MODULES = ("tensorflow", "tf_keras", "qcnn.trainer.loop")


def train(
    experiment: str,
    dataset: str,
    training: str,
    logs: str,
    *,
    trial: bool = False,
    run: Callable[[JobSpec, EventHandler], None] = run_processes,
    on_event: EventHandler = lambda process, event: None,
) -> dict[str, Any]:
    """Train locally and return the metadata of training and logs.

    Args:
        experiment: Experiment as JSON.
        dataset: Folder of the dataset.
        training: Folder for checkpoints. Training resumes from its last checkpoint.
        logs: Folder for TensorBoard events.
        trial: Whether the job is a trial of a study. If it fails, the reason is written to `training` and nothing is
            raised.
        run: Function that runs the job, in new processes or in those of a process pool.
        on_event: Handler of the events of the processes.
    """
    with one_line_errors():
        config = from_json(experiment)
        with failure_kept(config, Path(training)) if trial else contextlib.nullcontext():
            if config.options.continue_from:
                with local_copy(config.options.continue_from) as source:
                    checkpoints.copy_latest(source, Path(training))
            run(local_job(config, dataset, training, logs), on_event)
        trained = checkpoints.load_latest(Path(training) / checkpoints.FOLDER)
    return provenance(config, trained.simulator if trained else "")
