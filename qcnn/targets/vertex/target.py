"""The target vertex: the pipeline on Vertex AI."""

from __future__ import annotations

import dataclasses
import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from qcnn.errors import ConfigError, one_line
from qcnn.experiment import ExperimentConfig
from qcnn.jobs.vertex.location import run_page
from qcnn.targets.artifacts import metrics_of, models_of, only_model
from qcnn.targets.base import JobStatus, PartStatus, Submitted, setting
from qcnn.targets.compiled_pipeline import compiled_now, main_arguments, main_pipeline, read_package
from qcnn.targets.vertex import jobs
from qcnn.targets.vertex.client import Vertex, age_of, as_json, id_of, seconds_of
from qcnn.targets.vertex.connection import Connection
from qcnn.targets.vertex.runs import (
    ENDED,
    add_to_experiment,
    artifacts_of,
    create,
    end_run,
    find_run,
    get_run,
    jobs_of,
    list_runs,
    state_of,
    steps_in,
    tasks_of,
)
from qcnn.targets.vertex.submission import EXPERIMENT, Submission, check_bucket, run_request

if TYPE_CHECKING:
    from google.cloud.aiplatform_v1 import CreatePipelineJobRequest, PipelineJob


logger = logging.getLogger("qcnn")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings(Connection):
    """How a pipeline is run there."""

    pipeline_root: str = setting("Where artifacts go, such as gs://BUCKET/FOLDER.")
    image: str | None = setting("Image of every step.", None)
    pod: Mapping[str, Any] = setting("Settings of the training's machines, as a file for --pod has them.", {})
    experiment: str = setting("What the run belongs to; a label of it.", EXPERIMENT)
    run_name: str | None = setting("Name of the run; without it the pipeline and the time.", None)
    service_account: str | None = setting("Google service account that the steps run as.", None)
    network: str | None = setting("Network to peer with, as projects/NUMBER/global/networks/NAME.", None)
    labels: Sequence[str] = setting("Labels of the run, each as KEY=VALUE.", ())
    caching: bool | None = setting("Caching of all steps; without it as compiled.", None)

    @property
    def submission(self) -> Submission:
        """How the run is created."""
        return Submission(**{each.name: getattr(self, each.name) for each in dataclasses.fields(Submission)})


class VertexTarget:
    """The pipeline on Vertex AI."""

    name: ClassVar[str] = "vertex"
    extra: ClassVar[str] = "vertex"
    connection: ClassVar[type[Connection]] = Connection
    settings: ClassVar[type[Settings]] = Settings

    def requests(self, experiment: ExperimentConfig, settings: Settings) -> Sequence[Mapping[str, Any]]:
        """Return the request that creates the run.

        Raises:
            ConfigError: the experiment cannot run there, or a setting is wrong.
        """
        return [json.loads(as_json(self._request(experiment, settings)))]

    def submit(self, experiment: ExperimentConfig, settings: Settings) -> Submitted:
        """Compile the pipeline and run it; each time it is another run.

        Raises:
            BackendError: Vertex AI refuses, or does not answer.
            ConfigError: the experiment cannot run there, or a setting is wrong.
        """
        request = self._request(experiment, settings)
        check_bucket(settings.pipeline_root, settings.place, logger.warning)
        vertex = Vertex(settings.place)
        run = create(vertex, request)
        if reason := add_to_experiment(vertex, settings.experiment, id_of(run)):
            logger.warning("not in the console's experiment %s: %s", settings.experiment, reason)
        return Submitted(id_of(run), "created", page=run_page(settings.place, id_of(run)))

    def list_jobs(self, connection: Connection) -> Sequence[JobStatus]:
        """Return the runs that this package made in the project and location, the newest last."""
        return [_status(run) for run in list_runs(Vertex(connection.place))]

    def get_job(self, job: str, connection: Connection) -> JobStatus:
        """Return a run, by its id or name, with its steps.

        Raises:
            BackendError: there is none, or there are several; or Vertex AI refuses, or does not answer.
        """
        return _status(find_run(Vertex(connection.place), job), with_steps=True)

    def logs(self, job: str, connection: Connection, *, follow: bool) -> Iterator[str]:
        """Yield what the steps of a run and the workers of its trainings have printed, by time.

        Raises:
            BackendError: there is no such run; or Vertex AI or Cloud Logging refuses, or does not answer.
        """
        vertex = Vertex(connection.place)
        identity = id_of(find_run(vertex, job))

        def look() -> tuple[jobs.Jobs, bool]:
            run = get_run(vertex, identity)
            return jobs_of(vertex, run), state_of(run) in ENDED

        yield from jobs.lines(jobs.Reader(vertex), look, follow=follow)

    def delete(self, job: str, connection: Connection) -> None:
        """Delete a run with the jobs of its trainings; one that has not ended is terminated first.

        Raises:
            BackendError: there is no such run; or Vertex AI refuses, or does not answer.
        """
        vertex = Vertex(connection.place)
        run = find_run(vertex, job)
        if state_of(run) not in ENDED and (reason := end_run(vertex, run, lambda line: None)):
            raise ConfigError(reason)
        jobs.delete(vertex, jobs.with_searches(vertex, id_of(run)))
        vertex.delete("PipelineService.delete_pipeline_job", run.name)

    def metrics(self, job: str, connection: Connection) -> Mapping[str, float]:
        """Return the metrics of the evaluation.

        Raises:
            BackendError: there is no such run; or Vertex AI refuses, or does not answer.
        """
        return metrics_of(artifacts_of(find_run(Vertex(connection.place), job)))

    def model(self, job: str, connection: Connection) -> str:
        """Return the address of the model that a run has exported.

        Raises:
            ArtifactError: it has exported none, or several.
            BackendError: there is no such run; or Vertex AI refuses, or does not answer.
        """
        return only_model(models_of(artifacts_of(find_run(Vertex(connection.place), job))), job)

    def _request(self, experiment: ExperimentConfig, settings: Settings) -> CreatePipelineJobRequest:
        arguments = main_arguments(experiment)
        with compiled_now(main_pipeline(self.name), settings.image, settings.pod) as path:
            documents = read_package(path, self.name)
        return run_request(settings.place, documents, arguments, "qcnn", settings.submission)


def _status(run: PipelineJob, *, with_steps: bool = False) -> JobStatus:
    state = state_of(run)
    steps = tasks_of(run, steps_in(run)) if with_steps else {}
    return JobStatus(
        job=id_of(run),
        name=run.display_name,
        state=state.lower(),
        has_ended=state in ENDED,
        has_succeeded=state == "SUCCEEDED",
        age=age_of(run),
        duration=seconds_of(run),
        message=one_line(run.error.message),
        parts=[PartStatus(name, task.state.name.lower(), one_line(task.error.message)) for name, task in steps.items()],
    )
