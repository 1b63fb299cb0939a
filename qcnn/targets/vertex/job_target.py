"""The target vertex-job: training as a custom job of Vertex AI, without a pipeline."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from qcnn import data
from qcnn.components.training_job import check_data, vertex_job
from qcnn.errors import ArtifactError, one_line
from qcnn.experiment import ExperimentConfig
from qcnn.jobs.job import Identity, Job, check_run
from qcnn.jobs.pod_settings import Pod
from qcnn.jobs.vertex.location import Place, job_page
from qcnn.jobs.vertex.states import ENDED, state_of
from qcnn.model.history import last_metrics
from qcnn.targets.base import JobStatus, Submitted, pods, setting
from qcnn.targets.library_output import quiet
from qcnn.targets.vertex import jobs
from qcnn.targets.vertex.client import Vertex, age_of, as_json, id_of, seconds_of
from qcnn.targets.vertex.connection import Connection
from qcnn.targets.vertex.submission import check_bucket

if TYPE_CHECKING:
    from google.cloud.aiplatform_v1 import CustomJob


logger = logging.getLogger("qcnn")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings(Connection):
    """How an experiment is trained there."""

    output: str = setting("Where checkpoints, logs and model go, as gs://BUCKET/FOLDER.")
    name: str = setting("Name of the run, which trains the same experiment only once.", "qcnn")
    image: str | None = setting("Image of the processes.", None)
    pod: Mapping[str, Any] = setting("Settings of the machines, as a file for --pod has them.", {})

    @functools.cached_property
    def pods(self) -> Pod:
        """The settings of the training's machines."""
        return pods(self.image, self.pod)


class VertexJobTarget:
    """Training as a custom job of Vertex AI."""

    name: ClassVar[str] = "vertex-job"
    extra: ClassVar[str] = "vertex"
    connection: ClassVar[type[Connection]] = Connection
    settings: ClassVar[type[Settings]] = Settings

    def requests(self, experiment: ExperimentConfig, settings: Settings) -> Sequence[Mapping[str, Any]]:
        """Return the request that creates the job.

        Raises:
            ConfigError: the experiment cannot run there, or a setting is wrong.
        """
        with quiet():
            from qcnn.jobs.vertex.client import aiplatform

        made = described(experiment, settings.output, settings.name, settings.pods, settings.place)[2]
        return [json.loads(as_json(aiplatform.CreateCustomJobRequest(parent=settings.place.parent, custom_job=made)))]

    def submit(self, experiment: ExperimentConfig, settings: Settings) -> Submitted:
        """Create the custom job, or take up the one that runs or has succeeded.

        Raises:
            ConfigError: the experiment cannot run there, a setting is wrong, or Vertex AI refuses it.
        """
        # The library takes a second and a half to load.
        from qcnn.jobs.vertex.attempts import How, create_or_adopt
        from qcnn.jobs.vertex.client import Api
        from qcnn.jobs.vertex.custom_job import outputs

        _, job, made = described(experiment, settings.output, settings.name, settings.pods, settings.place)
        check_bucket(settings.output, settings.place, logger.warning)
        with contextlib.closing(Api(settings.place)) as api:
            found, how = create_or_adopt(api, made)
        outcome = {How.CREATED: "created", How.ADOPTED: "adopted", How.SUCCEEDED: "succeeded"}[how]
        return Submitted(found.id, outcome, outputs(job, made), job_page(settings.place, found.id))  # type: ignore[arg-type]

    def list_jobs(self, connection: Connection) -> Sequence[JobStatus]:
        """Return the custom jobs that this package made in the project and location, the newest last."""
        return [_status(job) for job in jobs.list_jobs(Vertex(connection.place))]

    def get_job(self, job: str, connection: Connection) -> JobStatus:
        """Return a custom job, by its id or name.

        Raises:
            BackendError: there is none; or Vertex AI refuses, or does not answer.
        """
        return _status(jobs.find_job(Vertex(connection.place), job))

    def logs(self, job: str, connection: Connection, *, follow: bool) -> Iterator[str]:
        """Yield what the workers of a job have printed, by time, each line with its worker's name.

        Raises:
            BackendError: there is no such job; or Vertex AI or Cloud Logging refuses, or does not answer.
        """
        vertex = Vertex(connection.place)
        identity = id_of(jobs.find_job(vertex, job))

        def look() -> tuple[jobs.Jobs, bool]:
            found = jobs.get_job(vertex, identity)
            return jobs.lines_of(found), state_of(found) in ENDED

        yield from jobs.lines(jobs.Reader(vertex), look, follow=follow)

    def delete(self, job: str, connection: Connection) -> None:
        """Delete a custom job; one that runs is cancelled first.

        Raises:
            BackendError: there is none; or Vertex AI refuses, or does not answer.
        """
        vertex = Vertex(connection.place)
        jobs.delete(vertex, [jobs.find_job(vertex, job)])

    def metrics(self, job: str, connection: Connection) -> Mapping[str, float]:
        """Return the losses and accuracies of the last epoch, and the number of epochs.

        Raises:
            ArtifactError: it has written no history.
            BackendError: there is no such job; or Vertex AI refuses, or does not answer.
        """
        return last_metrics(self._output("training", job, connection))

    def model(self, job: str, connection: Connection) -> str:
        """Return the address of the model that a job has exported.

        Raises:
            ArtifactError: it names none.
            BackendError: there is no such job; or Vertex AI refuses, or does not answer.
        """
        return self._output("model", job, connection)

    def _output(self, output: str, job: str, connection: Connection) -> str:
        from qcnn.jobs.vertex.custom_job import outputs_of

        found = jobs.find_job(Vertex(connection.place), job)
        if not (address := outputs_of(found).get(output)):
            raise ArtifactError(f"{output}: the job names no folder. Given: {job}")
        return address


def described(
    experiment: ExperimentConfig, output: str, name: str, pod: Pod, place: Place
) -> tuple[ExperimentConfig, Job, CustomJob]:
    """Return an experiment, with what its file of samples says of it, its job, and the custom job that is that.

    Raises:
        ConfigError: the experiment cannot run there, or a setting is wrong.
    """
    check_data(experiment.data)
    (experiment,) = data.files_read([experiment])
    job = vertex_job(experiment, output, pod)
    # The library takes a second and a half to load.
    from qcnn.jobs.vertex.custom_job import custom_job

    return experiment, job, custom_job(job, Identity(check_run(name), jobs.ALONE), place)


def _status(job: CustomJob) -> JobStatus:
    state = state_of(job)
    return JobStatus(
        job=id_of(job),
        name=job.display_name,
        state=state.lower(),
        has_ended=state in ENDED,
        has_succeeded=state == "SUCCEEDED",
        age=age_of(job),
        duration=seconds_of(job),
        message=one_line(job.error.message),
    )
