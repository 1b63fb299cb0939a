"""The train step on one machine: one job for one experiment, run as processes."""

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from qcnn.components.training_job import local_job
from qcnn.experiment_io import from_json
from qcnn.jobs.job import Job
from qcnn.jobs.local.processes import EventHandler
from qcnn.jobs.local.runner import run_processes
from qcnn.model import checkpoints
from qcnn.provenance import provenance
from qcnn.startup import one_line_errors
from qcnn.storage.copies import local_copy
from qcnn.studies.trials import failure_kept

# What the processes of a training load first. None of these may start a thread or touch a device: neither outlives a
# fork.
LOADED = ("tensorflow", "tf_keras", "qcnn.trainer.loop")


def train(
    experiment: str,
    dataset: str,
    training: str,
    logs: str,
    *,
    trial: bool = False,
    run: Callable[[Job, EventHandler], None] = run_processes,
    on_event: EventHandler = lambda process, event: None,
) -> dict[str, Any]:
    """Train in the folder `training`, with TensorBoard events in `logs`; return the metadata of both.

    `run` runs the job: by processes of its own, or by those of a crew. `on_event` takes what they tell. Where a `trial`
    fails, the reason is written into `training`, and nothing is raised.
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
