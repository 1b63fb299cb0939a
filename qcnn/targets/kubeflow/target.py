"""The target kubeflow: pipeline runs in Kubeflow Pipelines (KFP)."""

from __future__ import annotations

import dataclasses
import datetime
import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from qcnn.errors import ConfigError
from qcnn.experiment.config import ExperimentConfig
from qcnn.run_names import timestamp
from qcnn.studies.trials import PARALLELISM, StudyPlan
from qcnn.targets import following
from qcnn.targets.artifacts import Artifact, LogSource, only_model, run_metrics, run_models
from qcnn.targets.base import (
    ComparedRun,
    Deletable,
    JobStatus,
    Prepared,
    ReportLine,
    ScheduleStatus,
    Selection,
    Submitted,
)
from qcnn.targets.compiled_pipeline import (
    Compile,
    PipelineInputs,
    check_arguments,
    compile_for_schedule,
    compile_main,
    compiled_package,
    main_inputs,
    pod_settings_in,
    read_package,
    study_inputs,
    study_pipeline,
)
from qcnn.targets.errors import BackendError, StepError, suppress_output
from qcnn.targets.kubeflow import runs, schedules
from qcnn.targets.kubeflow.client import KfpConnection, connect, page_of, translate_errors
from qcnn.targets.kubeflow.experiments import compared_runs, logs_of_runs, own_runs, runs_of
from qcnn.targets.kubeflow.ml_metadata import MetadataStore
from qcnn.targets.kubeflow.run_objects import StepReader, read_steps, run_logs
from qcnn.targets.kubeflow.runs import (
    ENDED,
    PATIENCE,
    SUCCEEDED,
    RunPoller,
    check_succeeded,
    clean,
    creation_time,
    duration_of,
    find_run,
    is_id,
    namespace_of,
    terminate_run,
)
from qcnn.targets.kubeflow.submission import RunSettings, create_run, create_schedule, request
from qcnn.targets.settings import PodFields, setting
from qcnn.targets.tfjob.client import delete_tensorboard, deploy_tensorboard, logs_of_jobs, tensorboard_objects

if TYPE_CHECKING:
    import kfp
    import kfp_server_api

    from qcnn.components.cost_estimate import PricingPlatform
    from qcnn.jobs.pod_settings import PodSettings
    from qcnn.jobs.pricing import Prices
    from qcnn.pipelines.compiler import PipelineTarget


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings(RunSettings):
    """Settings of a run of the main pipeline.

    Raises:
        ConfigError: If `tensorboard` is given with a compiled pipeline.
    """

    tensorboard: str = setting("URL of a TensorBoard with all logs, to link to. Not with --package.", "", metavar="URL")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.tensorboard and self.package:
            raise ConfigError(
                f"tensorboard: must be without --package, as the compiler adds the link. Given: {self.tensorboard}"
            )


@dataclasses.dataclass(frozen=True, kw_only=True)
class StudySettings(RunSettings):
    """Settings of a study run."""

    parallelism: int = setting("Maximum number of parallel trials.", PARALLELISM, minimum=1)


@dataclasses.dataclass(frozen=True, kw_only=True)
class LogsSettings(PodFields, KfpConnection):
    """TFJobs whose logs are added to those of runs, and pod settings of a TensorBoard on the cluster."""

    jobs: Sequence[str] = setting("TFJob whose logs are added.", (), flag="job", metavar="NAME")


class KubeflowTarget:
    """The target for pipeline runs in Kubeflow Pipelines."""

    name: ClassVar[str] = "kubeflow"
    title: ClassVar[str] = "Kubeflow Pipelines"
    job_kind: ClassVar[str] = "run"
    extra: ClassVar[str] = "kubeflow"
    connection: ClassVar[type[KfpConnection]] = KfpConnection
    settings: ClassVar[type[Settings]] = Settings
    notes: ClassVar[str] = "Each submission creates a new pipeline run. The experiment's fields are its parameters."
    requests_are: ClassVar[Literal["json", "yaml"]] = "json"
    study_settings: ClassVar[type[StudySettings]] = StudySettings
    schedule_settings: ClassVar[type[schedules.ScheduleSettings]] = schedules.ScheduleSettings
    logs_settings: ClassVar[type[LogsSettings]] = LogsSettings
    selections: ClassVar[Sequence[str]] = ("experiment",)
    kinds: ClassVar[Sequence[str]] = ()
    has_experiments: ClassVar[bool] = True
    delete_notes: ClassVar[str] = "Outputs are kept."
    patience: ClassVar[float] = PATIENCE

    def place(self, connection: KfpConnection) -> str:
        """Return the address of the backend."""
        return connection.address

    def pipeline_target(self) -> PipelineTarget:
        """Return the target-specific settings of the pipeline compiler."""
        from qcnn.pipelines.kubeflow import KUBEFLOW

        return KUBEFLOW

    def prepare(self, experiment: ExperimentConfig, settings: Settings) -> Prepared:
        """Compile the pipeline, and return a run of it with an experiment.

        Each submission creates a new run.

        Raises:
            ConfigError: If the target cannot run the experiment, or a setting is invalid.
        """
        compile_now = compile_main(self, board=settings.tensorboard)
        return self._prepared(compile_now, main_inputs(experiment), "qcnn", settings)

    def prepare_study(self, study: StudyPlan, settings: StudySettings) -> Prepared:
        """Compile the study pipeline, and return a run of it with the trials of a study.

        Raises:
            ConfigError: If the target cannot run the trials, or a setting is invalid.
        """
        compile_now = study_pipeline(self, settings.parallelism)
        return self._prepared(compile_now, study_inputs(study.arguments, study.trials), "qcnn-study", settings)

    def _prepared(self, compile_now: Compile, inputs: PipelineInputs, name: str, settings: RunSettings) -> Prepared:
        with compiled_package(settings, compile_now) as package:
            documents = read_package(package, self)
        arguments = inputs.arguments
        check_arguments(documents[0], arguments)
        client = functools.cache(lambda: connect(settings))
        run_name = settings.run_name or f"{name}-{timestamp()}"

        def create() -> Submitted:
            run = create_run(client(), documents, arguments, run_name, settings)
            return Submitted(run, page=page_of(settings, f"runs/details/{run}"))

        return Prepared(
            lambda: [request(documents, arguments, run_name, settings)],
            client,
            create,
            pod_settings_in(documents[0]),
            inputs.trials,
        )

    def prepare_schedule(self, experiment: ExperimentConfig, settings: schedules.ScheduleSettings) -> Prepared:
        """Compile the pipeline, and return a recurring run of it.

        The run name is also the name of the schedule.

        Raises:
            ConfigError: If the target cannot run the experiment, or a setting is invalid.
        """
        with compile_for_schedule(settings, self) as package:
            documents = read_package(package, self)
        inputs = main_inputs(experiment, per_run_seed=True)
        arguments = inputs.arguments
        client = functools.cache(lambda: connect(settings))
        name = settings.run_name or settings.experiment
        check_arguments(documents[0], arguments)
        times, mode = settings.trigger, settings.mode

        def create() -> Submitted:
            as_text = {"max_concurrency": str(settings.max_concurrency)}
            schedule = create_schedule(client(), documents, arguments, name, settings, {**times, **mode, **as_text})
            return Submitted(schedule, page=page_of(settings, f"recurringrun/details/{schedule}"))

        return Prepared(
            lambda: [{**request(documents, arguments, name, settings), **times, **mode}],
            client,
            create,
            pod_settings_in(documents[0]),
            inputs.trials,
        )

    def platform(self, pod: PodSettings, prices: Prices, machine_type: str = "") -> PricingPlatform:
        """Return the cluster nodes that training pods run on, for a cost estimate.

        Args:
            pod: Settings of the pods.
            prices: Price list.
            machine_type: Machine type to price. Empty: selected from the price list.
        """
        from qcnn.components.cost_estimate import on_kubernetes

        return on_kubernetes(pod, prices, machine_type)

    def list_jobs(self, connection: KfpConnection, experiment: str | None = None) -> Sequence[JobStatus]:
        """Return the runs of an experiment, or all runs of qcnn, except archived runs."""
        client = connect(connection)
        found = runs_of(client, connection, experiment) if experiment else own_runs(client, connection)
        return [_status(run, experiment or "") for run in found]

    def get_job(self, job: str, connection: KfpConnection) -> JobStatus:
        """Return a run with its steps, by its ID or name.

        Where KUBECONFIG reaches the cluster of the run, steps have reasons and exit codes.

        Raises:
            BackendError: If the run does not exist, its name is ambiguous, or the backend rejects the request or is
                unavailable.
        """
        client = connect(connection)
        run = find_run(client, connection, job)
        status, steps = _status(run), read_steps(client, connection, run)
        return dataclasses.replace(
            status,
            parts=following.number_parts(steps.parts),
            message=status.message or steps.message,
            page=page_of(connection, f"runs/details/{run.run_id}"),
        )

    def logs(self, job: str, connection: KfpConnection, *, follow: bool) -> Iterator[str]:
        """Yield the log lines of all steps, read from their pods on the cluster of KUBECONFIG.

        Lines of the workers are among those of the training step. Lines of KFP's and Argo's executors are omitted,
        except errors. Logs of deleted pods are not available.

        Args:
            job: ID or name of the run.
            connection: Connection settings.
            follow: Whether to continue until the run ends.

        Raises:
            BackendError: If the run does not exist, or the backend rejects the request or is unavailable.
        """
        return run_logs(job, connection, follow=follow, all_containers=False)

    def container_logs(self, job: str, connection: KfpConnection, *, follow: bool) -> Iterator[str]:
        """Yield the log lines of all containers of all pods of a run, with those of executors and drivers.

        Args:
            job: ID or name of the run.
            connection: Connection settings.
            follow: Whether to continue until the run ends.

        Raises:
            BackendError: If the run does not exist, or the backend rejects the request or is unavailable.
        """
        return run_logs(job, connection, follow=follow, all_containers=True)

    def follow(self, job: str, connection: KfpConnection, report: ReportLine, restarts: int | None = None) -> None:
        """Report the log lines of a run until it ends, read from the pods of its steps.

        Args:
            job: ID or name of the run.
            connection: Connection settings.
            report: Callback for log lines.
            restarts: Unused.

        Raises:
            BackendError: If the run does not exist, or the backend rejects the request or is unavailable.
            StepError: If the run failed.
        """
        for line in self.logs(job, connection, follow=True):
            report(line)
        client = connect(connection)
        run = find_run(client, connection, job)
        steps = read_steps(client, connection, run)
        check_succeeded(run, steps.parts, steps.message)

    def wait(self, job: str, connection: KfpConnection, report: ReportLine) -> None:
        """Report the state changes of a run and its steps until it ends, with the reasons that `get_job` returns.

        Args:
            job: ID or name of the run.
            connection: Connection settings.
            report: Callback for status lines.

        Raises:
            BackendError: If the run does not exist, or the backend rejects a request or is unavailable for ten minutes.
            StepError: If the run failed.
        """
        client = connect(connection)
        run = find_run(client, connection, job)
        with StepReader(client, connection, run) as reader:
            poll = RunPoller(client, connection, run.run_id)
            ended = runs.follow(poll, lambda run: reader.read(run).parts, report)
            steps = reader.read(ended)
        check_succeeded(ended, steps.parts, steps.message)

    def delete(self, job: str, connection: KfpConnection) -> None:
        """Delete a run. An active run and its TFJobs are terminated first.

        Raises:
            BackendError: If the run does not exist, or the backend rejects the request or is unavailable.
        """
        client = connect(connection)
        run = find_run(client, connection, job)
        namespace = namespace_of(client, connection, run.experiment_id)
        if run.state not in ENDED and (reason := terminate_run(client, connection, run, namespace, lambda line: None)):
            raise BackendError(reason)
        _delete(client, connection, run)

    def find(self, selection: Selection, connection: KfpConnection) -> Sequence[Deletable]:
        """Return runs that have ended.

        Raises:
            BackendError: If the run or experiment does not exist, or the backend rejects the request or is unavailable.
            ConfigError: If a run is active.
        """
        client = connect(connection)
        if selection.experiment is not None:
            found = runs_of(client, connection, selection.experiment)
        else:
            found = [find_run(client, connection, name) for name in selection.names]
        if alive := [run.run_id for run in found if run.state not in ENDED]:
            raise ConfigError(f"delete: the run must have ended; use qcnn terminate. Given: {', '.join(alive)}")
        return [Deletable("run", run.run_id, run.display_name, run.run_id, run.state.lower(), run) for run in found]

    def delete_found(self, found: Sequence[Deletable], connection: KfpConnection) -> None:
        """Delete runs, but not their TFJobs.

        Raises:
            BackendError: If the backend rejects the request or is unavailable.
        """
        client = connect(connection)
        for each in found:
            _delete(client, connection, each.object)

    def terminate(self, run: str, connection: KfpConnection, report: ReportLine, seconds: float) -> None:
        """Delete the TFJobs of a run with their dependents, terminate the run, and wait for it to stop.

        Args:
            run: ID or name of the run.
            connection: Connection settings.
            report: Callback for status lines.
            seconds: Timeout for the run to stop, in seconds.

        Raises:
            BackendError: If the run does not exist, or the backend rejects the request or is unavailable.
            StepError: If the run did not stop in time.
        """
        client = connect(connection)
        found = find_run(client, connection, run)
        namespace = namespace_of(client, connection, found.experiment_id)
        if found.state in ENDED:
            report(f"run {found.run_id} has already ended: {found.state.lower()}")
            report(clean(found.run_id, namespace))
        elif reason := terminate_run(client, connection, found, namespace, report, seconds):
            raise StepError(reason)

    def would_terminate(self, run: str, connection: KfpConnection) -> str:
        """Return a line that lists what `terminate` would stop.

        Raises:
            BackendError: If the run does not exist, or the backend rejects the request or is unavailable.
        """
        client = connect(connection)
        found = find_run(client, connection, run)
        namespace = namespace_of(client, connection, found.experiment_id)
        return f"run {found.run_id}, {str(found.state).lower()}: it and its TFJobs in {namespace} would be terminated"

    def list_schedules(self, connection: KfpConnection) -> Sequence[ScheduleStatus]:
        """Return all schedules."""
        return schedules.list_schedules(connection)

    def switch_schedule(self, name: str, connection: KfpConnection, *, enabled: bool, dry_run: bool) -> str:
        """Enable or disable a schedule and return its name.

        Args:
            name: ID or name of the schedule.
            connection: Connection settings.
            enabled: Whether to enable it.
            dry_run: Whether to leave the schedule unchanged.
        """
        return schedules.switch_schedule(name, connection, enabled=enabled, dry_run=dry_run)

    def delete_schedule(self, name: str, connection: KfpConnection, report: ReportLine, warn: ReportLine) -> str:
        """Terminate the runs of a schedule, delete it, and return its name.

        Args:
            name: ID or name of the schedule.
            connection: Connection settings.
            report: Callback for status lines.
            warn: Callback for runs that could not be terminated.
        """
        return schedules.delete_schedule(name, connection, report, warn)

    def would_delete_schedule(self, name: str, connection: KfpConnection) -> tuple[str, Sequence[str]]:
        """Return the name of a schedule, and its runs that would be terminated."""
        return schedules.would_delete_schedule(name, connection)

    def experiment_runs(self, experiment: str, connection: KfpConnection, warn: ReportLine) -> Sequence[ComparedRun]:
        """Return the runs of an experiment. Without a metadata store, they have no metrics.

        Args:
            experiment: Name of the experiment.
            connection: Connection settings.
            warn: Callback for a warning about missing metrics.

        Raises:
            BackendError: If the experiment does not exist, or the backend rejects the request or is unavailable.
        """
        client = connect(connection)
        return compared_runs(client, connection, runs_of(client, connection, experiment), warn)

    def named_runs(self, names: Sequence[str], connection: KfpConnection, warn: ReportLine) -> Sequence[ComparedRun]:
        """Return the runs with these IDs or names. Without a metadata store, they have no metrics.

        Args:
            names: IDs or names of runs.
            connection: Connection settings.
            warn: Callback for a warning about missing metrics.

        Raises:
            BackendError: If a run does not exist, its name is ambiguous, or the backend rejects the request or is
                unavailable.
        """
        client = connect(connection)
        return compared_runs(client, connection, [find_run(client, connection, name) for name in names], warn)

    def is_job_id(self, text: str) -> bool:
        """Return whether a text is a valid run ID."""
        return is_id(text)

    def find_logs(
        self,
        ids: Sequence[str],
        experiment: str | None,
        names: Sequence[str],
        settings: LogsSettings,
        *,
        in_a_pod: bool,
    ) -> list[LogSource]:
        """Return the logs of runs and TFJobs.

        Args:
            ids: IDs of runs.
            experiment: Experiment whose runs are added, or None.
            names: IDs or names of runs of the experiment. Empty: all runs.
            settings: Settings of class `LogsSettings`.
            in_a_pod: Whether TensorBoard runs in a pod, where volumes are readable.

        Raises:
            BackendError: If the run or experiment does not exist, or the backend rejects the request or is unavailable.
            ArtifactError: If none of the requested jobs has logs.
        """
        of_runs = logs_of_runs(ids, experiment, names, settings)
        return [*of_runs, *logs_of_jobs(settings.jobs, settings.namespace, in_a_pod=in_a_pod)]

    def board_requests(self, name: str, logs: Sequence[str], settings: LogsSettings, *, public: bool) -> Sequence[Any]:
        """Return the manifests of a TensorBoard Deployment and its Service.

        Args:
            name: Name of the Deployment.
            logs: URIs or volume paths of log folders.
            settings: Settings of class `LogsSettings`.
            public: Whether to expose it with a LoadBalancer.
        """
        return tensorboard_objects(name, logs, settings, public=public)

    def deploy_board(
        self, name: str, logs: Sequence[str], settings: LogsSettings, *, public: bool
    ) -> Mapping[str, str]:
        """Deploy TensorBoard on the cluster of KUBECONFIG, and return its access commands.

        Args:
            name: Name of the Deployment.
            logs: URIs or volume paths of log folders.
            settings: Settings of class `LogsSettings`.
            public: Whether to expose it with a LoadBalancer.
        """
        return deploy_tensorboard(name, logs, settings, settings.namespace, public=public)

    def delete_board(self, name: str, settings: LogsSettings) -> str:
        """Delete a TensorBoard and return its namespace."""
        return delete_tensorboard(name, settings.namespace)

    def metrics(self, job: str, connection: KfpConnection) -> Mapping[str, float]:
        """Return the evaluation metrics, which the backend rounds to six decimals.

        Raises:
            BackendError: If the run does not exist, or the metadata store is unavailable.
        """
        return run_metrics(self._artifacts(job, connection))

    def model(self, job: str, connection: KfpConnection) -> str:
        """Return the URI of the model that a run exported.

        Raises:
            ArtifactError: If the run has no exported model or several.
            BackendError: If the run does not exist, or the metadata store is unavailable.
        """
        return only_model(run_models(self._artifacts(job, connection)), job)

    def _artifacts(self, job: str, connection: KfpConnection) -> list[Artifact]:
        client = connect(connection)
        run = find_run(client, connection, job)
        return MetadataStore(client, connection).artifacts(run.run_id)


def _delete(client: kfp.Client, backend: KfpConnection, run: kfp_server_api.V2beta1Run) -> None:
    with translate_errors(backend.address), suppress_output():
        client._run_api.run_service_delete_run(run_id=run.run_id)


def _status(run: kfp_server_api.V2beta1Run, experiment: str = "") -> JobStatus:
    now = datetime.datetime.now(datetime.UTC)
    error = run.error.message if run.error else ""
    return JobStatus(
        job=run.run_id,
        name=run.display_name,
        state=str(run.state or "PENDING").lower(),
        has_ended=run.state in ENDED,
        has_succeeded=run.state in SUCCEEDED,
        age=(now - creation_time(run)).total_seconds() if run.created_at else None,
        duration=duration_of(run),
        message=error or "",
        experiment=experiment,
    )
