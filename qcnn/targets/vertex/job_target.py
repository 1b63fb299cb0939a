"""The target vertex-job: training as a Vertex AI custom job, without a pipeline."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from typing_extensions import override

from qcnn.components.training_job import vertex_job, with_data_file
from qcnn.errors import ArtifactError
from qcnn.experiment.config import ExperimentConfig
from qcnn.jobs.job import OUTCOMES, JobIdentity, JobSpec, check_run
from qcnn.jobs.pod_settings import PodSettings
from qcnn.jobs.vertex.location import ENDED, job_page, state_of, tensorboard_page
from qcnn.targets.base import Deletable, JobStatus, Prepared, Request, Selection, Submits, Submitted
from qcnn.targets.bound import BoundJobs
from qcnn.targets.errors import logs_to_stderr, suppress_output
from qcnn.targets.settings import TrackedPodFields, setting
from qcnn.targets.vertex import jobs, runs
from qcnn.targets.vertex.bound import VertexBound
from qcnn.targets.vertex.client import Connection, NotFoundError, VertexClient, as_json, id_of, status_of
from qcnn.targets.vertex.submission import check_bucket

if TYPE_CHECKING:
    from google.cloud.aiplatform_v1 import CustomJob

    from qcnn.targets.vertex.jobs import TrainingJob


logger = logging.getLogger("qcnn")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings(TrackedPodFields, Connection):
    """Settings of a custom job."""

    output: str = setting("Output folder of checkpoints, logs and model, as gs://BUCKET/FOLDER.", metavar="URI")
    name: str = setting(
        "Run name. Resubmitting an experiment under the same name does not retrain it.", "qcnn", metavar="NAME"
    )

    @functools.cached_property
    def pods(self) -> PodSettings:
        """The settings of the training machines."""
        return self.pod_with()


class VertexJobTarget(VertexBound, BoundJobs[Connection], Submits[Settings]):
    """The target for Vertex AI custom jobs."""

    name: ClassVar[str] = "vertex-job"
    job_kind: ClassVar[str] = "custom job"
    submit_settings: ClassVar[type[Settings]] = Settings
    notes: ClassVar[str] = (
        "Resubmitting an experiment does not retrain it: an active or succeeded job is adopted. A failed job is "
        "replaced by a new one, which resumes from the last checkpoint."
    )
    selections: ClassVar[Sequence[str]] = ("run", "orphans", "everything")

    @override
    def prepare(self, experiment: ExperimentConfig, settings: Settings) -> Prepared:
        experiment, data_sha256 = with_data_file(experiment)
        job, message = training_job(experiment, data_sha256, settings)

        def requests() -> Sequence[Request]:
            with suppress_output():
                from qcnn.jobs.vertex.client import aiplatform

            request = aiplatform.CreateCustomJobRequest(parent=settings.place.parent, custom_job=message)
            return [json.loads(as_json(request))]

        def create() -> Submitted:
            # Importing Google's library takes 1.5 seconds.
            from qcnn.jobs.vertex.attempts import create_or_adopt
            from qcnn.jobs.vertex.client import JobClient
            from qcnn.jobs.vertex.custom_job import outputs

            with logs_to_stderr(), contextlib.closing(JobClient(settings.place)) as api:
                attempt, outcome = create_or_adopt(api, message)
            board = message.job_spec.tensorboard
            pages = {"TensorBoard": tensorboard_page(board, attempt.id)} if board else {}
            page = job_page(settings.place, attempt.id)
            return Submitted(attempt.id, OUTCOMES[outcome], outputs(job, message), page, pages)

        return Prepared(
            requests,
            lambda: check_bucket(settings.output, settings.place, logger.warning),
            create,
            settings.pods,
            [experiment],
        )

    @override
    def list_jobs(self, experiment: str | None = None) -> Sequence[JobStatus]:
        return [_status(job) for job in jobs.list_jobs(self.vertex)]

    @override
    def get_job(self, job: str) -> JobStatus:
        found = jobs.find_job(self.vertex, job)
        return dataclasses.replace(_status(found), page=job_page(self.connection.place, id_of(found)))

    @override
    def logs(self, job: str, *, follow: bool) -> Iterator[str]:
        identity = id_of(jobs.find_job(self.vertex, job))

        def look() -> tuple[jobs.Jobs, bool]:
            found = jobs.get_job(self.vertex, identity)
            return jobs.lines_of(found), state_of(found) in ENDED

        yield from jobs.lines(jobs.LogReader(self.vertex), look, follow=follow)

    @override
    def delete(self, job: str) -> None:
        jobs.delete(self.vertex, [jobs.find_job(self.vertex, job)])

    @override
    def find(self, selection: Selection) -> Sequence[Deletable]:
        """Return custom jobs and tuning jobs."""
        run = check_run(selection.run) if selection.run is not None else None
        if selection.names:
            return jobs.as_deletables([jobs.find_job(self.vertex, name) for name in selection.names])
        known = jobs.with_searches(self.vertex, run)
        return jobs.as_deletables(_orphans(self.vertex, known) if selection.orphans else known)

    @override
    def delete_found(self, found: Sequence[Deletable]) -> None:
        jobs.delete(self.vertex, jobs.of_deletables(found))

    @override
    def metrics(self, job: str) -> Mapping[str, float]:
        """Return the losses and accuracies of the last epoch, and the number of epochs."""
        from qcnn.model.checkpoints import last_metrics

        return last_metrics(self._output("training", job))

    @override
    def model(self, job: str) -> str:
        return self._output("model", job)

    def _output(self, output: str, job: str) -> str:
        from qcnn.jobs.vertex.custom_job import outputs_of

        found = jobs.find_job(self.vertex, job)
        if not (address := outputs_of(found).get(output)):
            raise ArtifactError(f"{output}: the job has no such output. Given: {job}")
        return address


def _orphans(vertex: VertexClient, known: Sequence[TrainingJob]) -> list[TrainingJob]:
    """Return the jobs whose run no longer exists, or has ended before them."""
    # Looked up by ID, because a run that was not submitted by qcnn has no qcnn label.
    states = {name: _state(vertex, name) for name in {jobs.run_of(job) for job in known}}
    return [job for job in known if jobs.is_orphan(job, states[jobs.run_of(job)])]


def _state(vertex: VertexClient, run: str) -> str | None:
    """Return the state of a run, or None if it no longer exists."""
    try:
        return runs.state_of(runs.get_run(vertex, run)) if runs.is_id(run) else None
    except NotFoundError:
        return None


def training_job(experiment: ExperimentConfig, data_sha256: str, settings: Settings) -> tuple[JobSpec, CustomJob]:
    """Return the job of an experiment, which has the metadata of its data file, and its custom job.

    Raises:
        ConfigError: If the target cannot run the experiment, or a setting is invalid.
    """
    # Importing Google's library takes 1.5 seconds.
    from qcnn.jobs.vertex.custom_job import custom_job

    job = vertex_job(experiment, settings.output, settings.pods, data_sha256=data_sha256)
    return job, custom_job(job, JobIdentity(check_run(settings.name), jobs.ALONE), settings.place)


def _status(job: CustomJob) -> JobStatus:
    output = job.job_spec.base_output_directory.output_uri_prefix
    return dataclasses.replace(
        status_of(job, state_of(job), has_ended=state_of(job) in ENDED),
        name=jobs.run_of(job) or job.display_name,
        processes=sum(pool.replica_count for pool in job.job_spec.worker_pool_specs),
        outputs={"output": output} if output else {},
    )
