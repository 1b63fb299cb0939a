"""The tune step, which runs a search with Vertex AI's tuner."""

import contextlib
import json
import logging
import os
import posixpath
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from qcnn.components.steps.study import select_best
from qcnn.components.steps.train_vertex import run_of
from qcnn.components.training_job import vertex_trial
from qcnn.errors import ArtifactError, RetryableError
from qcnn.experiment.config import ALL_FIELDS
from qcnn.experiment.fields import field_type
from qcnn.experiment.parsing import from_json
from qcnn.jobs.job import JobIdentity
from qcnn.jobs.pod_settings import pod_settings
from qcnn.jobs.vertex.client import TUNING, JobClient
from qcnn.jobs.vertex.custom_job import custom_job, outputs
from qcnn.jobs.vertex.launch import launch
from qcnn.jobs.vertex.location import VertexLocation, endpoint_of
from qcnn.jobs.vertex.tuning_job import (
    Candidates,
    FinishedTrial,
    NumericRange,
    StudySpec,
    TrialReporter,
    finished_trials,
    tuning_job,
)
from qcnn.model import checkpoints
from qcnn.monitoring.validation_metrics import VAL_LOSS
from qcnn.provenance import provenance
from qcnn.storage.copies import local_copy
from qcnn.studies.trials import FailedTrial, Search, save_failure, search_from_mapping, shared_experiment, whole_bounds


def parameters(search: Search) -> list[Candidates | NumericRange]:
    """Return the candidates or the range of each searched field."""
    candidates: list[Candidates | NumericRange] = [Candidates(name, values) for name, values in search.grid.items()]
    return candidates + [
        NumericRange(
            name,
            *whole_bounds(name, bounds),
            whole=field_type(ALL_FIELDS[name]) is int,
            by_logarithm=bounds.scale == "log",
        )
        for name, bounds in search.ranges.items()
    ]


logger = logging.getLogger("qcnn")

_TASK = "tune"
# Subfolders of a trial's folder, which is below that of its job (google.cloud.aiplatform_v1,
# CustomJobSpec.base_output_directory).
_TRAINING, _LOGS = "checkpoints", "logs"


def tune(
    experiment: Mapping[str, Any],
    search: Mapping[str, Any],
    tuner: tuple[int, str],
    pod: str,
    place: tuple[str, str],
    dataset: str,
    training: str,
    table: tuple[str, str],
    metric: str = VAL_LOSS,
) -> tuple[str, str, dict[str, Any], dict[str, Any]]:
    """Run a search with Vertex AI's tuner and tabulate its trials.

    Args:
        experiment: Fields that all trials share.
        search: Grid, ranges and number of trials.
        tuner: Maximum number of parallel trials, and the early-stopping rule.
        pod: Settings of the job's processes as JSON.
        place: Project and location of the pipeline run.
        dataset: URI of the dataset.
        training: URI of the output that Vertex AI assigned to this task.
        table: Paths of the table of trials as CSV and as HTML.
        metric: Metric that selects the best trial.

    Returns:
        The URIs of training and logs of the best trial, the metadata of both, and the metadata of the table.
    """
    searched = search_from_mapping(search)
    shared = shared_experiment(experiment, searched)
    run_folder, run = run_of(training)
    location = VertexLocation(*place, endpoint_of(os.environ))
    job = vertex_trial(experiment, run_folder, pod_settings(json.loads(pod)), dataset, metric)
    trial = custom_job(job, JobIdentity(run, _TASK), location)
    study = StudySpec(
        parameters(searched),
        metric,
        searched.random,
        parallel=tuner[0],
        stopping=tuner[1],
        best_report=shared.options.export_checkpoint != "last",
    )
    folder = posixpath.dirname(outputs(job, trial)["training"])
    logger.info("the trials write to %s", folder)
    tuned = launch(tuning_job(trial, study), location, restarts=job.restarts, news=TrialReporter)
    trials = _finished_trials(location, tuned.name)
    text = json.dumps(dict(experiment))
    with contextlib.ExitStack() as stack:
        folders = [stack.enter_context(_training(each, folder, text)) for each in trials]
        best, _ = select_best([str(each) for each in folders], *table, metric=metric)
    chosen = trials[best]
    metadata = provenance(from_json(text, chosen.values))
    trial_folder = posixpath.join(folder, chosen.id)
    table_metadata = {"trials": len(trials), "best": best}
    return posixpath.join(trial_folder, _TRAINING), posixpath.join(trial_folder, _LOGS), metadata, table_metadata


def _finished_trials(location: VertexLocation, job: str) -> Sequence[FinishedTrial]:
    with contextlib.closing(JobClient(location, TUNING)) as api:
        found = api.get(job)
    if found is None:
        raise RetryableError(f"tuning job: was deleted before its trials were read. Given: {job}")
    if trials := finished_trials(found):
        return trials
    raise ArtifactError(f"tuning job: has no trial. Given: {job}")


@contextlib.contextmanager
def _training(trial: FinishedTrial, folder: str, experiment: str) -> Iterator[Path]:
    """Context manager for a local folder with a trial's training or the reason of its failure."""
    config = from_json(experiment, trial.values)
    with contextlib.ExitStack() as stack:
        failure = trial.failure
        if not failure:
            copied = stack.enter_context(local_copy(posixpath.join(folder, trial.id, _TRAINING)))
            checkpoint = checkpoints.load_latest(copied / checkpoints.FOLDER)
            if checkpoint and checkpoint.is_complete:
                yield copied
                return
            failure = f"was stopped early, after {checkpoint.epochs if checkpoint else 0} epochs"
        empty = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="qcnn-")))
        save_failure(FailedTrial(config, failure), empty)
        yield empty
