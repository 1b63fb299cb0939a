"""The target vertex: the pipeline on Vertex AI."""

from __future__ import annotations

import dataclasses
import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from qcnn.errors import ConfigError, service_message
from qcnn.experiment.config import ExperimentConfig
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
    ReportLine,
    ScheduleStatus,
    Selection,
    Submitted,
)
from qcnn.targets.compiled_pipeline import (
    Compile,
    PipelineInputs,
    compile_for_schedule,
    compile_main,
    compiled_package,
    main_inputs,
    pod_settings_in,
    read_package,
    study_inputs,
    study_pipeline,
    tuning_pipeline,
)
from qcnn.targets.errors import BackendError, StepError
from qcnn.targets.settings import setting
from qcnn.targets.vertex import jobs, runs, schedules, serving
from qcnn.targets.vertex.client import Connection, VertexClient, age_of, as_json, id_of, seconds_of
from qcnn.targets.vertex.experiments import compared_runs, logs_of_runs, named_runs
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
    step_parts,
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
    """Settings of a study run."""

    parallelism: int = setting("Maximum number of parallel trials.", PARALLELISM, minimum=1)
    tuner: str | None = setting(
        "Vertex AI tuner that selects the trials.",
        None,
        shown="no tuner, all trials of the search",
        choices=("vizier",),
    )
    early_stopping: str = setting("Early-stopping rule for --tuner.", DEFAULT, choices=tuple(RULES))


class VertexTarget:
    """The target for Vertex AI pipeline runs."""

    name: ClassVar[str] = "vertex"
    title: ClassVar[str] = "Vertex AI"
    job_kind: ClassVar[str] = "run"
    extra: ClassVar[str] = "vertex"
    connection: ClassVar[type[Connection]] = Connection
    settings: ClassVar[type[RunSettings]] = RunSettings
    notes: ClassVar[str] = "Each submission creates a new pipeline run. The experiment's fields are its parameters."
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
    delete_notes: ClassVar[str] = "Outputs are kept."
    patience: ClassVar[float] = PATIENCE

    def place(self, connection: Connection) -> str:
        """Return the project and location of the runs as a phrase."""
        return f"{connection.project} in {connection.location}"

    def pipeline_target(self) -> PipelineTarget:
        """Return the target-specific settings of the pipeline compiler."""
        from qcnn.pipelines.vertex import VERTEX

        return VERTEX

    def prepare(self, experiment: ExperimentConfig, settings: RunSettings) -> Prepared:
        """Compile the pipeline, and return a run of it with an experiment.

        Each submission creates a new run.

        Raises:
            ConfigError: If the target cannot run the experiment, or a setting is invalid.
        """
        return self._prepared(compile_main(self), main_inputs(experiment), "qcnn", settings)

    def prepare_study(self, study: StudyPlan, settings: StudySettings) -> Prepared:
        """Compile the study pipeline, and return a run of it.

        The trials are those of the study, or are selected by a Vertex AI tuner.

        Raises:
            ConfigError: If the target cannot run the trials, a setting is invalid, or the tuner does not support the
                search.
        """
        if settings.tuner:
            shared_experiment(study.shared, search_from_mapping(study.search))
        inputs = study_inputs(study.arguments, study.trials)
        if settings.tuner:
            compile_now = tuning_pipeline(self, settings.parallelism, settings.early_stopping)
            return self._prepared(compile_now, inputs, "qcnn-tuning", settings)
        compile_now = study_pipeline(self, settings.parallelism)
        return self._prepared(compile_now, inputs, "qcnn-study", settings)

    def _prepared(self, compile_now: Compile, inputs: PipelineInputs, name: str, settings: RunSettings) -> Prepared:
        with compiled_package(settings, compile_now) as package:
            documents = read_package(package, self)
        request = run_request(documents, inputs.arguments, name, settings)

        def send() -> Submitted:
            vertex = VertexClient(settings.place)
            run = create(vertex, request)
            if reason := add_to_experiment(vertex, settings.experiment, id_of(run)):
                logger.warning("run not added to experiment %s: %s", settings.experiment, reason)
            return Submitted(id_of(run), page=run_page(settings.place, id_of(run)))

        return Prepared(
            lambda: [json.loads(as_json(request))],
            lambda: check_bucket(settings.pipeline_root, settings.place, logger.warning),
            send,
            pod_settings_in(documents[0]),
            inputs.trials,
        )

    def prepare_schedule(self, experiment: ExperimentConfig, settings: schedules.ScheduleSettings) -> Prepared:
        """Compile the pipeline, and return a recurring run of it.

        The run name is also the name of the schedule.

        Raises:
            ConfigError: If the target cannot run the experiment, or a setting is invalid.
        """
        inputs = main_inputs(experiment, per_run_seed=True)
        with compile_for_schedule(settings, self) as package:
            documents = read_package(package, self)
        request = schedules.schedule_request(documents, inputs.arguments, settings)

        def send() -> Submitted:
            schedule = schedules.create_schedule(VertexClient(settings.place), request, disabled=settings.disabled)
            return Submitted(schedule, page=schedule_page(settings.place, schedule))

        return Prepared(
            lambda: [json.loads(as_json(request))],
            lambda: check_bucket(settings.pipeline_root, settings.place, logger.warning),
            send,
            pod_settings_in(documents[0]),
            inputs.trials,
        )

    def platform(self, pod: PodSettings, prices: Prices, machine_type: str = "") -> PricingPlatform:
        """Return the Vertex AI machines that training processes run on, for a cost estimate.

        Args:
            pod: Settings of the pods.
            prices: Price list.
            machine_type: Machine type to price. Empty: selected by the resources.
        """
        from qcnn.components.cost_estimate import on_vertex

        return on_vertex(pod, prices, machine_type)

    def list_jobs(self, connection: Connection, experiment: str | None = None) -> Sequence[JobStatus]:
        """Return the runs of qcnn in the project and location, newest last."""
        return [_status(run) for run in list_runs(VertexClient(connection.place), experiment)]

    def get_job(self, job: str, connection: Connection) -> JobStatus:
        """Return a run with its steps and training jobs, by its ID or name.

        Raises:
            BackendError: If the run does not exist, its name is ambiguous, or Vertex AI rejects the request or is
                unavailable.
        """
        vertex = VertexClient(connection.place)
        run = find_run(vertex, job)
        training_jobs = [
            PartStatus(
                each.display_name,
                location.state_of(each).lower(),
                service_message(each.error.message),
                each.name,
                duration=seconds_of(each),
            )
            for each in jobs.list_jobs(vertex, id_of(run))
        ]
        page = run_page(connection.place, id_of(run))
        return dataclasses.replace(_status(run), parts=[*step_parts(run), *training_jobs], page=page)

    def logs(self, job: str, connection: Connection, *, follow: bool) -> Iterator[str]:
        """Yield the log lines of the steps and training workers in chronological order.

        Args:
            job: ID or name of the run.
            connection: Connection settings.
            follow: Whether to continue until the run ends.

        Raises:
            BackendError: If the run does not exist, or Vertex AI or Cloud Logging rejects a request or is unavailable.
        """
        vertex = VertexClient(connection.place)
        identity = id_of(find_run(vertex, job))

        def look() -> tuple[jobs.Jobs, bool]:
            run = get_run(vertex, identity)
            return jobs_of(vertex, run), state_of(run) in ENDED

        yield from jobs.lines(jobs.LogReader(vertex), look, follow=follow)

    def follow(self, job: str, connection: Connection, report: ReportLine, restarts: int | None = None) -> None:
        """Report the log lines of a run until it ends.

        Args:
            job: ID or name of the run.
            connection: Connection settings.
            report: Callback for log lines.
            restarts: Unused.

        Raises:
            BackendError: If the run does not exist, or Vertex AI or Cloud Logging rejects a request or is unavailable.
            StepError: If the run failed.
        """
        for line in self.logs(job, connection, follow=True):
            report(line)
        check_succeeded(find_run(VertexClient(connection.place), job))

    def wait(self, job: str, connection: Connection, report: ReportLine) -> None:
        """Report the state changes of a run and its steps until it ends.

        Args:
            job: ID or name of the run.
            connection: Connection settings.
            report: Callback for status lines.

        Raises:
            BackendError: If the run does not exist, or Vertex AI rejects a request or is unavailable for ten minutes.
            StepError: If the run failed.
        """
        vertex = VertexClient(connection.place)
        check_succeeded(runs.follow(vertex, id_of(find_run(vertex, job)), report))

    def delete(self, job: str, connection: Connection) -> None:
        """Delete a run and its training jobs. An active run is terminated first.

        Raises:
            BackendError: If the run does not exist, or Vertex AI rejects the request or is unavailable.
        """
        vertex = VertexClient(connection.place)
        run = find_run(vertex, job)
        if state_of(run) not in ENDED and (reason := terminate_run(vertex, run, lambda line: None)):
            raise BackendError(reason)
        jobs.delete(vertex, jobs.with_searches(vertex, id_of(run)))
        vertex.delete("PipelineService.delete_pipeline_job", run.name)

    def metrics(self, job: str, connection: Connection) -> Mapping[str, float]:
        """Return the evaluation metrics of a run.

        Raises:
            BackendError: If the run does not exist, or Vertex AI rejects the request or is unavailable.
        """
        return run_metrics(artifacts_of(find_run(VertexClient(connection.place), job)))

    def model(self, job: str, connection: Connection) -> str:
        """Return the URI of the model that a run exported.

        Raises:
            ArtifactError: If the run has no exported model or several.
            BackendError: If the run does not exist, or Vertex AI rejects the request or is unavailable.
        """
        return only_model(run_models(artifacts_of(find_run(VertexClient(connection.place), job))), job)

    def find(self, selection: Selection, connection: Connection) -> Sequence[Deletable]:
        """Return runs that have ended, with their training jobs.

        Raises:
            BackendError: If the run does not exist, or Vertex AI rejects the request or is unavailable.
            ConfigError: If a run is active.
        """
        vertex = VertexClient(connection.place)
        if selection.names:
            chosen = [find_run(vertex, name) for name in selection.names]
        else:
            chosen = list(list_runs(vertex, selection.experiment))
        if alive := [id_of(run) for run in chosen if state_of(run) not in ENDED]:
            raise ConfigError(f"delete: the run must have ended; use qcnn terminate. Given: {', '.join(alive)}")
        found = [
            Deletable("run", id_of(run), run.display_name, id_of(run), state_of(run).lower(), run) for run in chosen
        ]
        for run in chosen:
            found += jobs.as_deletables(jobs.with_searches(vertex, id_of(run)))
        return found

    def delete_found(self, found: Sequence[Deletable], connection: Connection) -> None:
        """Delete runs and jobs.

        Raises:
            BackendError: If Vertex AI rejects the request or is unavailable.
        """
        vertex = VertexClient(connection.place)
        jobs.delete(vertex, [each.object for each in found if each.kind != "run"])
        for each in found:
            if each.kind == "run":
                vertex.delete("PipelineService.delete_pipeline_job", each.object.name)

    def terminate(self, run: str, connection: Connection, report: ReportLine, seconds: float) -> None:
        """Cancel a run and its custom jobs, and wait for it to stop.

        Args:
            run: ID or name of the run.
            connection: Connection settings.
            report: Callback for status lines.
            seconds: Timeout for the run to stop, in seconds.

        Raises:
            BackendError: If the run does not exist, or Vertex AI rejects the request or is unavailable.
            StepError: If the run did not stop in time.
        """
        vertex = VertexClient(connection.place)
        if reason := terminate_run(vertex, find_run(vertex, run), report, seconds):
            raise StepError(reason)

    def would_terminate(self, run: str, connection: Connection) -> str:
        """Return a line that lists what `terminate` would stop.

        Raises:
            BackendError: If the run does not exist, or Vertex AI rejects the request or is unavailable.
        """
        vertex = VertexClient(connection.place)
        found = find_run(vertex, run)
        active_jobs = "".join(f", and {job.display_name}" for job in jobs.with_searches(vertex, id_of(found)))
        return f"run {id_of(found)}, {state_of(found).lower()}{active_jobs} would be terminated"

    def list_schedules(self, connection: Connection) -> Sequence[ScheduleStatus]:
        """Return all schedules of qcnn, oldest first."""
        return schedules.list_schedules(VertexClient(connection.place))

    def switch_schedule(self, name: str, connection: Connection, *, enabled: bool, dry_run: bool) -> str:
        """Enable or disable a schedule and return its name. Missed runs are not started later.

        Args:
            name: ID or name of the schedule.
            connection: Connection settings.
            enabled: Whether to enable it.
            dry_run: Whether to leave the schedule unchanged.
        """
        return schedules.switch_schedule(VertexClient(connection.place), name, enabled=enabled, dry_run=dry_run)

    def delete_schedule(self, name: str, connection: Connection, report: ReportLine, warn: ReportLine) -> str:
        """Terminate the runs of a schedule, delete it, and return its name.

        Args:
            name: ID or name of the schedule.
            connection: Connection settings.
            report: Callback for status lines.
            warn: Callback for runs that could not be terminated.
        """
        return schedules.delete_schedule(VertexClient(connection.place), name, report, warn)

    def would_delete_schedule(self, name: str, connection: Connection) -> tuple[str, Sequence[str]]:
        """Return the name of a schedule, and the IDs of its runs that would be terminated."""
        return schedules.would_delete_schedule(VertexClient(connection.place), name)

    def experiment_runs(self, experiment: str, connection: Connection, warn: ReportLine) -> Sequence[ComparedRun]:
        """Return the runs of an experiment, newest last.

        Args:
            experiment: Name of the experiment.
            connection: Connection settings.
            warn: Unused.

        Raises:
            BackendError: If there are no runs, or Vertex AI rejects the request or is unavailable.
        """
        return compared_runs(VertexClient(connection.place), experiment)

    def named_runs(self, names: Sequence[str], connection: Connection, warn: ReportLine) -> Sequence[ComparedRun]:
        """Return the runs with these IDs or names.

        Args:
            names: IDs or names of runs.
            connection: Connection settings.
            warn: Unused.

        Raises:
            BackendError: If a run does not exist, its name is ambiguous, or Vertex AI rejects the request or is
                unavailable.
        """
        return named_runs(VertexClient(connection.place), names)

    def is_job_id(self, text: str) -> bool:
        """Return whether a text is a valid run ID."""
        return is_id(text)

    def find_logs(
        self, ids: Sequence[str], experiment: str | None, names: Sequence[str], settings: Connection, *, in_a_pod: bool
    ) -> list[LogSource]:
        """Return the logs of runs.

        Args:
            ids: IDs of runs.
            experiment: Experiment whose runs are added, or None.
            names: IDs or names of runs of the experiment. Empty: all runs.
            settings: Connection settings.
            in_a_pod: Unused.

        Raises:
            BackendError: If the run does not exist, or Vertex AI rejects the request or is unavailable.
            ArtifactError: If none of the requested jobs has logs.
        """
        return logs_of_runs(VertexClient(settings.place), ids, experiment, names)

    def predict(
        self, settings: serving.PredictSettings, report: ReportLine, warn: ReportLine, progress: object
    ) -> Mapping[str, Any]:
        """Predict the rows of a file with an endpoint, or as a batch prediction job.

        Args:
            settings: Settings of class `PredictSettings`.
            report: Callback for status lines.
            warn: Callback for warnings.
            progress: Unused.
        """
        return serving.predict(VertexClient(settings.place), settings, report, warn)

    def predict_requests(self, settings: serving.PredictSettings) -> Sequence[Mapping[str, Any]]:
        """Return the request for the batch prediction job."""
        return serving.predict_requests(VertexClient(settings.place), settings)

    def deploy_requests(self, settings: serving.DeploySettings) -> Mapping[str, Any]:
        """Return the requests that `deploy` would send for a new endpoint, by type."""
        return serving.deploy_requests(VertexClient(settings.place), settings)

    def deploy(
        self, settings: serving.DeploySettings, report: ReportLine, warn: ReportLine
    ) -> tuple[Sequence[Deployed], str]:
        """Deploy a model to an endpoint and return the deployed versions and the endpoint's page.

        Args:
            settings: Settings of class `DeploySettings`.
            report: Callback for status lines.
            warn: Callback for warnings.
        """
        return serving.deploy(VertexClient(settings.place), settings, report, warn)

    def deployed(self, endpoint: str, connection: Connection) -> Sequence[Deployed]:
        """Return the versions deployed to an endpoint."""
        return serving.list_deployed(VertexClient(connection.place), endpoint)

    def undeploy(self, endpoint: str, connection: Connection) -> None:
        """Undeploy all versions and delete the endpoint. Models are kept."""
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
        message=service_message(run.error.message),
        experiment=run.labels.get(EXPERIMENT_LABEL, ""),
    )
