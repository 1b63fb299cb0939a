"""The target kubeflow: the pipeline in a backend of Kubeflow Pipelines."""

from __future__ import annotations

import dataclasses
import datetime
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from qcnn.errors import ConfigError
from qcnn.experiment import ExperimentConfig
from qcnn.studies.trials import PARALLELISM, StudyPlan
from qcnn.targets import following
from qcnn.targets.artifacts import Artifact, LogSource, only_model, run_metrics, run_models
from qcnn.targets.base import (
    ComparedRun,
    Deletable,
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
    check_arguments,
    compile_for_schedule,
    compile_main,
    compiled,
    main_arguments,
    pod_settings_in,
    read_package,
    step_names,
    study_arguments,
    study_pipeline,
)
from qcnn.targets.errors import BackendError, StepError, suppress_output
from qcnn.targets.kubeflow import runs, schedules
from qcnn.targets.kubeflow.client import KfpConnection, connect, translate_errors
from qcnn.targets.kubeflow.experiments import compared_runs, logs_of_runs, own_runs, runs_of
from qcnn.targets.kubeflow.ml_metadata import MetadataStore
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
    specification_of,
    states,
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

# Labels and names of the pods in which a run's steps work (Argo and Kubeflow's driver, seen with 2.17).
_RUN_LABEL, _STEP_CONTAINER, _STEP_MARK = "pipeline/runid", "main", "-impl-"
_NODE_NAME = "workflows.argoproj.io/node-name"
_ATTEMPT = re.compile(r"\(\d+\)$")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings(RunSettings):
    """How the main pipeline is run there.

    Raises:
        ConfigError: a TensorBoard is to be linked in a pipeline that is compiled already.
    """

    tensorboard: str = setting(
        "TensorBoard that shows all logs, to be linked, if the pipeline is compiled now.", "", metavar="URL"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.tensorboard and self.package:
            raise ConfigError(
                f"tensorboard: is linked where the pipeline is compiled, not with --package. Given: {self.tensorboard}"
            )


@dataclasses.dataclass(frozen=True, kw_only=True)
class StudySettings(RunSettings):
    """How a study is run there."""

    parallelism: int = setting("Trials at the same time.", PARALLELISM, least=1)


@dataclasses.dataclass(frozen=True, kw_only=True)
class LogsSettings(PodFields, KfpConnection):
    """Whose logs are looked at beside those of runs, and the pod of a TensorBoard on the cluster."""

    jobs: Sequence[str] = setting("TFJob of the cluster.", (), flag="job", metavar="NAME")


class KubeflowTarget:
    """The pipeline in a backend of Kubeflow Pipelines."""

    name: ClassVar[str] = "kubeflow"
    title: ClassVar[str] = "a Kubeflow backend"
    job_kind: ClassVar[str] = "run"
    extra: ClassVar[str] = "kubeflow"
    connection: ClassVar[type[KfpConnection]] = KfpConnection
    settings: ClassVar[type[Settings]] = Settings
    notes: ClassVar[str] = "It is run as a pipeline, every word of it in its type; each time it is another run."
    requests_are: ClassVar[Literal["json", "yaml"]] = "json"
    study_settings: ClassVar[type[StudySettings]] = StudySettings
    schedule_settings: ClassVar[type[schedules.ScheduleSettings]] = schedules.ScheduleSettings
    logs_settings: ClassVar[type[LogsSettings]] = LogsSettings
    selections: ClassVar[Sequence[str]] = ("experiment",)
    kinds: ClassVar[Sequence[str]] = ()
    has_experiments: ClassVar[bool] = True
    delete_notes: ClassVar[str] = "What they have written stays."
    patience: ClassVar[float] = PATIENCE

    def place(self, connection: KfpConnection) -> str:
        """Return the address of the backend."""
        return connection.address

    def pipeline_target(self) -> PipelineTarget:
        """Return what is its own of a compiled pipeline."""
        from qcnn.pipelines.kubeflow import KUBEFLOW

        return KUBEFLOW

    def prepare(self, experiment: ExperimentConfig, settings: Settings) -> Prepared:
        """Compile the pipeline, to be run with an experiment; each time it is another run.

        Raises:
            ConfigError: the experiment cannot run there, or a setting is wrong.
        """
        compile_now = compile_main(self, board=settings.tensorboard)
        return self._prepared(compile_now, main_arguments(experiment), "qcnn", settings)

    def prepare_study(self, study: StudyPlan, settings: StudySettings) -> Prepared:
        """Compile the pipeline of a study, to be run with its trials.

        Raises:
            ConfigError: as `prepare`.
        """
        compile_now = study_pipeline(self, settings.parallelism)
        arguments = study_arguments(study.arguments, study.trials)
        return self._prepared(compile_now, arguments, "qcnn-study", settings)

    def _prepared(
        self, compile_now: Compile, arguments: Mapping[str, Any], name: str, settings: RunSettings
    ) -> Prepared:
        with compiled(settings, compile_now) as package:
            documents = read_package(package, self)
        check_arguments(documents[0], arguments)
        run_name = settings.run_name or f"{name}-{datetime.datetime.now():%Y-%m-%d-%H-%M-%S}"

        def create() -> Submitted:
            run = create_run(connect(settings), documents, arguments, run_name, settings)
            return Submitted(run, page=settings.page(f"runs/details/{run}"))

        return Prepared(
            lambda: [request(documents, arguments, run_name, settings)], create, pod_settings_in(documents[0])
        )

    def prepare_schedule(self, experiment: ExperimentConfig, settings: schedules.ScheduleSettings) -> Prepared:
        """Compile the pipeline, to be run again and again; the name of the run is that of the schedule.

        Raises:
            ConfigError: as `prepare`.
        """
        with compile_for_schedule(settings, self) as package:
            documents = read_package(package, self)
        arguments = main_arguments(experiment, seeded_by_run=True)
        name = settings.run_name or settings.experiment
        check_arguments(documents[0], arguments)
        times, how = settings.trigger, settings.how

        def create() -> Submitted:
            as_text = {"max_concurrency": str(settings.max_concurrency)}
            made = create_schedule(connect(settings), documents, arguments, name, settings, {**times, **how, **as_text})
            return Submitted(made, page=settings.page(f"recurringrun/details/{made}"))

        return Prepared(
            lambda: [{**request(documents, arguments, name, settings), **times, **how}],
            create,
            pod_settings_in(documents[0]),
        )

    def platform(self, pod: PodSettings, prices: Prices, machine_type: str = "") -> PricingPlatform:
        """Return the nodes of a cluster that the pods of a training run on."""
        from qcnn.components.cost_estimate import on_kubernetes

        return on_kubernetes(pod, prices, machine_type)

    def list_jobs(self, connection: KfpConnection, experiment: str | None = None) -> Sequence[JobStatus]:
        """Return the runs of an experiment, all of this package where none is named, but for archived ones."""
        client = connect(connection)
        found = runs_of(client, connection, experiment) if experiment else own_runs(client, connection)
        return [_status(run, experiment=experiment or "") for run in found]

    def get_job(self, job: str, connection: KfpConnection) -> JobStatus:
        """Return a run, by its id or name, with the states of its steps.

        Raises:
            BackendError: there is none, or there are several; or the backend refuses, or does not answer.
        """
        run = find_run(connect(connection), connection, job)
        page = connection.page(f"runs/details/{run.run_id}")
        return dataclasses.replace(_status(run, with_steps=True), page=page)

    def logs(self, job: str, connection: KfpConnection, *, follow: bool) -> Iterator[str]:
        """Yield what the steps have printed, read from their pods: KUBECONFIG must give access to the cluster.

        Lines of the workers stand among those of the step that trains. A pod's lines are gone with it.

        Raises:
            BackendError: there is no such run; or the backend refuses, or does not answer.
        """
        # The client of Kubernetes takes longer to load than everything else here.
        from qcnn.jobs.kubernetes.api import PODS
        from qcnn.jobs.kubernetes.job_watcher import LogCursor
        from qcnn.targets.tfjob.client import cluster

        client = connect(connection)
        run = find_run(client, connection, job)
        cursors: dict[str, LogCursor] = {}
        with cluster(namespace_of(client, connection, run.experiment_id)) as api:
            while True:
                has_ended = find_run(client, connection, run.run_id).state in ENDED
                for pod in sorted(api.find(PODS, labelSelector=f"{_RUN_LABEL}={run.run_id}"), key=_started):
                    name = pod["metadata"]["name"]
                    if _STEP_MARK not in name or pod["status"].get("phase") == "Pending":
                        continue
                    cursor = cursors.setdefault(name, LogCursor(name, _STEP_CONTAINER))
                    yield from (f"[{_step(pod)}] {line}" for _, line in cursor.new(api, follow=False))
                if not follow or has_ended:
                    return
                time.sleep(following.INTERVAL)

    def follow(self, job: str, connection: KfpConnection, say: Say, restarts: int | None = None) -> None:
        """Say what the steps print until the run has ended, read from their pods.

        Raises:
            BackendError: there is no such run; or the backend refuses, or does not answer.
            StepError: it failed.
        """
        for line in self.logs(job, connection, follow=True):
            say(line)
        run = find_run(connect(connection), connection, job)
        check_succeeded(run, step_names(specification_of(run)))

    def wait(self, job: str, connection: KfpConnection, say: Say) -> None:
        """Say how the states of a run and its steps change until it has ended.

        Raises:
            BackendError: there is no such run; or the backend refuses, or has been gone for ten minutes.
            StepError: it failed.
        """
        client = connect(connection)
        run = find_run(client, connection, job)
        steps = step_names(specification_of(run))
        check_succeeded(runs.follow(RunPoller(client, connection, run.run_id), steps, say), steps)

    def delete(self, job: str, connection: KfpConnection) -> None:
        """Delete a run; one that has not ended is terminated first, with its TFJobs.

        Raises:
            BackendError: there is no such run; or the backend refuses, or does not answer.
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
            BackendError: there is no such run or experiment; or the backend refuses, or does not answer.
            ConfigError: one has not ended.
        """
        client = connect(connection)
        if selection.experiment is not None:
            found = runs_of(client, connection, selection.experiment)
        else:
            found = [find_run(client, connection, name) for name in selection.names]
        if alive := [run.run_id for run in found if run.state not in ENDED]:
            raise ConfigError(f"delete: the run has not ended; qcnn terminate ends it. Given: {', '.join(alive)}")
        return [Deletable("run", run.run_id, run.display_name, run.run_id, run.state.lower(), run) for run in found]

    def delete_found(self, found: Sequence[Deletable], connection: KfpConnection) -> None:
        """Delete runs; their TFJobs are deleted by their own commands.

        Raises:
            BackendError: the backend refuses, or does not answer.
        """
        client = connect(connection)
        for each in found:
            _delete(client, connection, each.object)

    def terminate(self, run: str, connection: KfpConnection, say: Say, seconds: float) -> None:
        """End a run, and wait for its end; its TFJobs are deleted first, with all that belongs to them.

        Raises:
            BackendError: there is no such run; or the backend refuses, or does not answer.
            StepError: it has not ended.
        """
        client = connect(connection)
        found = find_run(client, connection, run)
        namespace = namespace_of(client, connection, found.experiment_id)
        if found.state in ENDED:
            say(f"run {found.run_id} had ended before: {found.state.lower()}")
            say(clean(found.run_id, namespace))
        elif reason := terminate_run(client, connection, found, namespace, say, seconds):
            raise StepError(reason)

    def would_terminate(self, run: str, connection: KfpConnection) -> str:
        """Return a line with what `terminate` would end.

        Raises:
            BackendError: there is no such run; or the backend refuses, or does not answer.
        """
        client = connect(connection)
        found = find_run(client, connection, run)
        namespace = namespace_of(client, connection, found.experiment_id)
        return f"run {found.run_id}, {str(found.state).lower()}: it and its TFJobs in {namespace} would be ended"

    def list_schedules(self, connection: KfpConnection) -> Sequence[ScheduleStatus]:
        """Return all schedules."""
        return schedules.list_schedules(connection)

    def switch_schedule(self, name: str, connection: KfpConnection, *, enabled: bool, dry_run: bool) -> str:
        """Enable or disable a schedule, and return its name."""
        return schedules.switch_schedule(name, connection, enabled=enabled, dry_run=dry_run)

    def delete_schedule(self, name: str, connection: KfpConnection, say: Say, warn: Say) -> str:
        """Delete a schedule after its runs have been terminated, and return its name."""
        return schedules.delete_schedule(name, connection, say, warn)

    def would_delete_schedule(self, name: str, connection: KfpConnection) -> tuple[str, Sequence[str]]:
        """Return the name of a schedule, and those of its runs that would be terminated."""
        return schedules.would_delete_schedule(name, connection)

    def experiment_runs(self, experiment: str, connection: KfpConnection, warn: Say) -> Sequence[ComparedRun]:
        """Return the runs of an experiment; without a metadata store they have no metrics, which `warn` is told.

        Raises:
            BackendError: there is no such experiment; or the backend refuses, or does not answer.
        """
        return compared_runs(experiment, connection, warn)

    def is_job_id(self, text: str) -> bool:
        """Whether a text can be the id of a run."""
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
        """Return the logs of runs by their ids, and of runs of an experiment by their names, and of TFJobs.

        Raises:
            BackendError: there is no such run or experiment; or the backend refuses, or does not answer.
            ArtifactError: nothing of what was asked for has logs.
        """
        of_runs = logs_of_runs(ids, experiment, names, settings)
        return [*of_runs, *logs_of_jobs(settings.jobs, settings.namespace, in_a_pod=in_a_pod)]

    def board_requests(self, name: str, logs: Sequence[str], settings: LogsSettings, *, public: bool) -> Sequence[Any]:
        """Return Deployment and Service of a TensorBoard."""
        return tensorboard_objects(name, logs, settings, public=public)

    def deploy_board(
        self, name: str, logs: Sequence[str], settings: LogsSettings, *, public: bool
    ) -> Mapping[str, str]:
        """Let a TensorBoard run on the cluster of KUBECONFIG; return how it is reached."""
        return deploy_tensorboard(name, logs, settings, settings.namespace, public=public)

    def delete_board(self, name: str, settings: LogsSettings) -> str:
        """Delete a TensorBoard, and return the namespace that it was in."""
        return delete_tensorboard(name, settings.namespace)

    def metrics(self, job: str, connection: KfpConnection) -> Mapping[str, float]:
        """Return the metrics of the evaluation, which the backend keeps with six decimals.

        Raises:
            BackendError: there is no such run; or no metadata store answers.
        """
        return run_metrics(self._artifacts(job, connection))

    def model(self, job: str, connection: KfpConnection) -> str:
        """Return the address of the model that a run has exported.

        Raises:
            ArtifactError: it has exported none, or several.
            BackendError: there is no such run; or no metadata store answers.
        """
        return only_model(run_models(self._artifacts(job, connection)), job)

    def _artifacts(self, job: str, connection: KfpConnection) -> list[Artifact]:
        client = connect(connection)
        run = find_run(client, connection, job)
        return MetadataStore(client, connection).artifacts(run.run_id)


def _delete(client: kfp.Client, backend: KfpConnection, run: kfp_server_api.V2beta1Run) -> None:
    with translate_errors(backend.address), suppress_output():
        client._run_api.run_service_delete_run(run_id=run.run_id)


def _status(run: kfp_server_api.V2beta1Run, *, with_steps: bool = False, experiment: str = "") -> JobStatus:
    now = datetime.datetime.now(datetime.timezone.utc)
    # The backend has steps of its own, whose names are no task's of the pipeline.
    steps = step_names(specification_of(run)) if with_steps else ()
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
        parts=[PartStatus(name, state.lower()) for name, state in states(run, steps).items()] if with_steps else (),
    )


def _started(pod: Mapping[str, Any]) -> tuple[str, str]:
    return str(pod["status"].get("startTime", "")), str(pod["metadata"]["name"])


def _step(pod: Mapping[str, Any]) -> str:
    """Return the name of the step that a pod works on: its node is RUN(0).root(0).STEP(0).executor(0) or so."""
    node = str(pod["metadata"].get("annotations", {}).get(_NODE_NAME, ""))
    parts = [_ATTEMPT.sub("", part) for part in node.split(".")[1:]]
    named = [part for part in parts if not part.startswith(("root", "executor", "iteration"))]
    return named[-1] if named else str(pod["metadata"]["name"])
