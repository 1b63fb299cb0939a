"""The target vertex: the pipeline on Vertex AI."""

from __future__ import annotations

import dataclasses
import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from qcnn.errors import ConfigError, single_line
from qcnn.experiment import ExperimentConfig
from qcnn.jobs.vertex import location
from qcnn.jobs.vertex.location import run_page, schedule_page
from qcnn.jobs.vertex.machines import DEFAULT, RULES
from qcnn.studies.trials import PARALLELISM, StudyPlan, search_from_mapping, shared_experiment
from qcnn.targets.artifacts import LogSource, only_model, run_metrics, run_models
from qcnn.targets.base import (
    ComparedRun,
    Deletable,
    Deployed,
    JobStatus,
    PartStatus,
    Prepared,
    Say,
    ScheduleStatus,
    Selection,
    Submitted,
)
from qcnn.targets.compiled_pipeline import (
    Compile,
    compile_for_schedule,
    compile_main,
    compiled,
    main_arguments,
    pod_settings_in,
    read_package,
    study_arguments,
    study_pipeline,
    tuning_pipeline,
)
from qcnn.targets.errors import BackendError, StepError
from qcnn.targets.settings import setting
from qcnn.targets.vertex import jobs, runs, schedules, serving
from qcnn.targets.vertex.client import Connection, VertexClient, age_of, as_json, id_of, seconds_of
from qcnn.targets.vertex.experiments import compared_runs, logs_of_runs
from qcnn.targets.vertex.runs import (
    ENDED,
    EXPERIMENT_LABEL,
    PATIENCE,
    add_to_experiment,
    artifacts_of,
    check_succeeded,
    create,
    find_run,
    get_run,
    is_id,
    jobs_of,
    list_runs,
    state_of,
    steps_in,
    tasks_of,
    terminate_run,
)
from qcnn.targets.vertex.submission import RunSettings, check_bucket, run_request

if TYPE_CHECKING:
    from google.cloud.aiplatform_v1 import PipelineJob

    from qcnn.components.cost_estimate import PricingPlatform
    from qcnn.jobs.pod_settings import PodSettings
    from qcnn.jobs.pricing import Prices
    from qcnn.pipelines.compiler import PipelineTarget


logger = logging.getLogger("qcnn")


@dataclasses.dataclass(frozen=True, kw_only=True)
class StudySettings(RunSettings):
    """How a study is run there."""

    parallelism: int = setting("Trials at the same time.", PARALLELISM, least=1)
    tuner: str | None = setting(
        "Let this one choose each trial by those before, in a tuning job.",
        None,
        shown="the trials of the search",
        choices=("vizier",),
    )
    early_stopping: str = setting(
        "By which rule --tuner ends a trial that will not be the best.", DEFAULT, choices=tuple(RULES)
    )


class VertexTarget:
    """The pipeline on Vertex AI."""

    name: ClassVar[str] = "vertex"
    title: ClassVar[str] = "Vertex AI"
    job_kind: ClassVar[str] = "run"
    extra: ClassVar[str] = "vertex"
    connection: ClassVar[type[Connection]] = Connection
    settings: ClassVar[type[RunSettings]] = RunSettings
    notes: ClassVar[str] = "It is run as a pipeline, every word of it in its type; each time it is another run."
    requests_are: ClassVar[Literal["json", "yaml"]] = "json"
    study_settings: ClassVar[type[StudySettings]] = StudySettings
    schedule_settings: ClassVar[type[schedules.ScheduleSettings]] = schedules.ScheduleSettings
    logs_settings: ClassVar[type[Connection]] = Connection
    predict_settings: ClassVar[type[serving.PredictSettings]] = serving.PredictSettings
    predict_help: ClassVar[str] = serving.PREDICT_HELP
    deploy_settings: ClassVar[type[serving.DeploySettings]] = serving.DeploySettings
    selections: ClassVar[Sequence[str]] = ("experiment", "everything")
    kinds: ClassVar[Sequence[str]] = ()
    has_experiments: ClassVar[bool] = True
    delete_notes: ClassVar[str] = "What they have written stays."
    patience: ClassVar[float] = PATIENCE

    def place(self, connection: Connection) -> str:
        """Return the project and location in which its runs are."""
        return f"{connection.project} in {connection.location}"

    def pipeline_target(self) -> PipelineTarget:
        """Return what is its own of a compiled pipeline."""
        from qcnn.pipelines.vertex import VERTEX

        return VERTEX

    def prepare(self, experiment: ExperimentConfig, settings: RunSettings) -> Prepared:
        """Compile the pipeline, to be run with an experiment; each time it is another run.

        Raises:
            ConfigError: the experiment cannot run there, or a setting is wrong.
        """
        return self._prepared(compile_main(self), main_arguments(experiment), "qcnn", settings)

    def prepare_study(self, study: StudyPlan, settings: StudySettings) -> Prepared:
        """Compile the pipeline of a study, to be run with its trials, or with those that a tuner chooses.

        Raises:
            ConfigError: as `prepare`; or a tuner cannot choose these trials.
        """
        if settings.tuner:
            shared_experiment(study.shared, search_from_mapping(study.search))
        arguments = study_arguments(study.arguments, study.trials)
        if settings.tuner:
            compile_now = tuning_pipeline(self, settings.parallelism, settings.early_stopping)
            return self._prepared(compile_now, arguments, "qcnn-tuning", settings)
        compile_now = study_pipeline(self, settings.parallelism)
        return self._prepared(compile_now, arguments, "qcnn-study", settings)

    def _prepared(
        self, compile_now: Compile, arguments: Mapping[str, Any], name: str, settings: RunSettings
    ) -> Prepared:
        with compiled(settings, compile_now) as package:
            documents = read_package(package, self)
        request = run_request(documents, arguments, name, settings)

        def send() -> Submitted:
            check_bucket(settings.pipeline_root, settings.place, logger.warning)
            vertex = VertexClient(settings.place)
            run = create(vertex, request)
            if reason := add_to_experiment(vertex, settings.experiment, id_of(run)):
                logger.warning("not in the console's experiment %s: %s", settings.experiment, reason)
            return Submitted(id_of(run), page=run_page(settings.place, id_of(run)))

        return Prepared(lambda: [json.loads(as_json(request))], send, pod_settings_in(documents[0]))

    def prepare_schedule(self, experiment: ExperimentConfig, settings: schedules.ScheduleSettings) -> Prepared:
        """Compile the pipeline, to be run again and again; the name of the run is that of the schedule.

        Raises:
            ConfigError: as `prepare`.
        """
        arguments = main_arguments(experiment, seeded_by_run=True)
        with compile_for_schedule(settings, self) as package:
            documents = read_package(package, self)
        request = schedules.schedule_request(documents, arguments, settings)

        def send() -> Submitted:
            check_bucket(settings.pipeline_root, settings.place, logger.warning)
            made = schedules.create_schedule(VertexClient(settings.place), request, disabled=settings.disabled)
            return Submitted(made, page=schedule_page(settings.place, made))

        return Prepared(lambda: [json.loads(as_json(request))], send, pod_settings_in(documents[0]))

    def platform(self, pod: PodSettings, prices: Prices, machine_type: str = "") -> PricingPlatform:
        """Return the machines that Vertex AI gives to processes with these settings."""
        from qcnn.components.cost_estimate import on_vertex

        return on_vertex(pod, prices, machine_type)

    def list_jobs(self, connection: Connection, experiment: str | None = None) -> Sequence[JobStatus]:
        """Return the runs that this package made in the project and location, the newest last."""
        return [_status(run) for run in list_runs(VertexClient(connection.place), experiment)]

    def get_job(self, job: str, connection: Connection) -> JobStatus:
        """Return a run, by its id or name, with its steps and the jobs of its trainings.

        Raises:
            BackendError: there is none, or there are several; or Vertex AI refuses, or does not answer.
        """
        vertex = VertexClient(connection.place)
        run = find_run(vertex, job)
        steps = [
            PartStatus(
                name,
                task.state.name.lower(),
                single_line(task.error.message),
                task.executor_detail.container_detail.main_job,
                duration=seconds_of(task),
            )
            for name, task in tasks_of(run, steps_in(run)).items()
        ]
        trainings = [
            PartStatus(
                each.display_name,
                location.state_of(each).lower(),
                single_line(each.error.message),
                each.name,
                duration=seconds_of(each),
            )
            for each in jobs.list_jobs(vertex, id_of(run))
        ]
        page = run_page(connection.place, id_of(run))
        return dataclasses.replace(_status(run), parts=[*steps, *trainings], page=page)

    def logs(self, job: str, connection: Connection, *, follow: bool) -> Iterator[str]:
        """Yield what the steps of a run and the workers of its trainings have printed, by time.

        Raises:
            BackendError: there is no such run; or Vertex AI or Cloud Logging refuses, or does not answer.
        """
        vertex = VertexClient(connection.place)
        identity = id_of(find_run(vertex, job))

        def look() -> tuple[jobs.Jobs, bool]:
            run = get_run(vertex, identity)
            return jobs_of(vertex, run), state_of(run) in ENDED

        yield from jobs.lines(jobs.LogReader(vertex), look, follow=follow)

    def follow(self, job: str, connection: Connection, say: Say, restarts: int | None = None) -> None:
        """Say what the steps and the workers print until the run has ended.

        Raises:
            BackendError: there is no such run; or Vertex AI or Cloud Logging refuses, or does not answer.
            StepError: it failed.
        """
        for line in self.logs(job, connection, follow=True):
            say(line)
        check_succeeded(find_run(VertexClient(connection.place), job))

    def wait(self, job: str, connection: Connection, say: Say) -> None:
        """Say how the states of a run and its steps change until it has ended.

        Raises:
            BackendError: there is no such run; or Vertex AI refuses, or has not answered for ten minutes.
            StepError: it failed.
        """
        vertex = VertexClient(connection.place)
        check_succeeded(runs.follow(vertex, id_of(find_run(vertex, job)), say))

    def delete(self, job: str, connection: Connection) -> None:
        """Delete a run with the jobs of its trainings; one that has not ended is terminated first.

        Raises:
            BackendError: there is no such run; or Vertex AI refuses, or does not answer.
        """
        vertex = VertexClient(connection.place)
        run = find_run(vertex, job)
        if state_of(run) not in ENDED and (reason := terminate_run(vertex, run, lambda line: None)):
            raise BackendError(reason)
        jobs.delete(vertex, jobs.with_searches(vertex, id_of(run)))
        vertex.delete("PipelineService.delete_pipeline_job", run.name)

    def metrics(self, job: str, connection: Connection) -> Mapping[str, float]:
        """Return the metrics of the evaluation.

        Raises:
            BackendError: there is no such run; or Vertex AI refuses, or does not answer.
        """
        return run_metrics(artifacts_of(find_run(VertexClient(connection.place), job)))

    def model(self, job: str, connection: Connection) -> str:
        """Return the address of the model that a run has exported.

        Raises:
            ArtifactError: it has exported none, or several.
            BackendError: there is no such run; or Vertex AI refuses, or does not answer.
        """
        return only_model(run_models(artifacts_of(find_run(VertexClient(connection.place), job))), job)

    def find(self, selection: Selection, connection: Connection) -> Sequence[Deletable]:
        """Return runs that have ended, with the jobs of their trainings.

        Raises:
            BackendError: there is no such run; or Vertex AI refuses, or does not answer.
            ConfigError: one has not ended.
        """
        vertex = VertexClient(connection.place)
        if selection.names:
            chosen = [find_run(vertex, name) for name in selection.names]
        else:
            chosen = list(list_runs(vertex, selection.experiment))
        if alive := [id_of(run) for run in chosen if state_of(run) not in ENDED]:
            raise ConfigError(f"delete: the run has not ended; qcnn terminate ends it. Given: {', '.join(alive)}")
        found = [
            Deletable("run", id_of(run), run.display_name, id_of(run), state_of(run).lower(), run) for run in chosen
        ]
        for run in chosen:
            found += jobs.found(jobs.with_searches(vertex, id_of(run)))
        return found

    def delete_found(self, found: Sequence[Deletable], connection: Connection) -> None:
        """Delete runs and jobs.

        Raises:
            BackendError: Vertex AI refuses, or does not answer.
        """
        vertex = VertexClient(connection.place)
        jobs.delete(vertex, [each.object for each in found if each.kind != "run"])
        for each in found:
            if each.kind == "run":
                vertex.delete("PipelineService.delete_pipeline_job", each.object.name)

    def terminate(self, run: str, connection: Connection, say: Say, seconds: float) -> None:
        """End a run and the custom jobs of its trainings, and wait for its end.

        Raises:
            BackendError: there is no such run; or Vertex AI refuses, or does not answer.
            StepError: it has not ended.
        """
        vertex = VertexClient(connection.place)
        if reason := terminate_run(vertex, find_run(vertex, run), say, seconds):
            raise StepError(reason)

    def would_terminate(self, run: str, connection: Connection) -> str:
        """Return a line with what `terminate` would end.

        Raises:
            BackendError: there is no such run; or Vertex AI refuses, or does not answer.
        """
        vertex = VertexClient(connection.place)
        found = find_run(vertex, run)
        trainings = "".join(f", and {job.display_name}" for job in jobs.with_searches(vertex, id_of(found)))
        return f"run {id_of(found)}, {state_of(found).lower()}{trainings} would be ended"

    def list_schedules(self, connection: Connection) -> Sequence[ScheduleStatus]:
        """Return all schedules of this package, oldest first."""
        return schedules.list_schedules(VertexClient(connection.place))

    def switch_schedule(self, name: str, connection: Connection, *, enabled: bool, dry_run: bool) -> str:
        """Enable or disable a schedule, and return its name; what it missed is not made up for."""
        return schedules.switch_schedule(VertexClient(connection.place), name, enabled=enabled, dry_run=dry_run)

    def delete_schedule(self, name: str, connection: Connection, say: Say, warn: Say) -> str:
        """Delete a schedule after its runs have been terminated, and return its name."""
        return schedules.delete_schedule(VertexClient(connection.place), name, say, warn)

    def would_delete_schedule(self, name: str, connection: Connection) -> tuple[str, Sequence[str]]:
        """Return the name of a schedule, and the ids of its runs that would be terminated."""
        return schedules.would_delete_schedule(VertexClient(connection.place), name)

    def experiment_runs(self, experiment: str, connection: Connection, warn: Say) -> Sequence[ComparedRun]:
        """Return the runs of an experiment, the newest last.

        Raises:
            BackendError: there are none; or Vertex AI refuses, or does not answer.
        """
        return compared_runs(VertexClient(connection.place), experiment)

    def is_job_id(self, text: str) -> bool:
        """Whether a text can be the id of a run."""
        return is_id(text)

    def find_logs(
        self, ids: Sequence[str], experiment: str | None, names: Sequence[str], settings: Connection, *, in_a_pod: bool
    ) -> list[LogSource]:
        """Return the logs of runs by their ids, and of runs of an experiment by their names.

        Raises:
            BackendError: there is no such run; or Vertex AI refuses, or does not answer.
            ArtifactError: nothing of what was asked for has logs.
        """
        return logs_of_runs(VertexClient(settings.place), ids, experiment, names)

    def predict(self, settings: serving.PredictSettings, say: Say, warn: Say, progress: object) -> Mapping[str, Any]:
        """Predict the rows of a file by an endpoint, or as a batch."""
        return serving.predict(VertexClient(settings.place), settings, say, warn)

    def predict_requests(self, settings: serving.PredictSettings) -> Sequence[Mapping[str, Any]]:
        """Return the job of a batch."""
        return serving.predict_requests(VertexClient(settings.place), settings)

    def deploy_requests(self, settings: serving.DeploySettings) -> Mapping[str, Any]:
        """Return what `deploy` would send for a new endpoint, by kind."""
        return serving.deploy_requests(VertexClient(settings.place), settings)

    def deploy(self, settings: serving.DeploySettings, say: Say, warn: Say) -> tuple[Sequence[Deployed], str]:
        """Have a model answer at an endpoint; return what is deployed there, and the endpoint's page."""
        return serving.deploy(VertexClient(settings.place), settings, say, warn)

    def deployed(self, endpoint: str, connection: Connection) -> Sequence[Deployed]:
        """Return what is deployed at an endpoint."""
        return serving.deployed(VertexClient(connection.place), endpoint)

    def undeploy(self, endpoint: str, connection: Connection) -> None:
        """Take everything from an endpoint, and delete that; the models stay."""
        serving.undeploy(VertexClient(connection.place), endpoint)


def _status(run: PipelineJob) -> JobStatus:
    state = state_of(run)
    return JobStatus(
        job=id_of(run),
        name=run.display_name,
        state=state.lower(),
        has_ended=state in ENDED,
        has_succeeded=state == "SUCCEEDED",
        age=age_of(run),
        duration=seconds_of(run),
        message=single_line(run.error.message),
        experiment=run.labels.get(EXPERIMENT_LABEL, ""),
    )
