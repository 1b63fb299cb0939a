"""The target kubeflow: pipeline runs in Kubeflow Pipelines (KFP)."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Literal

from typing_extensions import override

from qcnn.errors import ConfigError
from qcnn.experiment.config import ExperimentConfig
from qcnn.jobs.kubernetes.api import NamespaceClient
from qcnn.run_names import timestamp
from qcnn.studies.trials import PARALLELISM, StudyPlan
from qcnn.targets import following
from qcnn.targets.artifacts import Artifact, only_model, run_metrics, run_models
from qcnn.targets.base import (
    Deletable,
    IsChecked,
    JobStatus,
    Prepared,
    ReadsContainerLogs,
    ReportLine,
    RunsStudies,
    Selection,
    Submits,
    Submitted,
    Terminates,
)
from qcnn.targets.bound import BoundJobs
from qcnn.targets.checks import Check
from qcnn.targets.cluster import cluster
from qcnn.targets.compiled_pipeline import (
    Compile,
    PipelineInputs,
    RegistrationFields,
    check_arguments,
    compile_main,
    compiled_package,
    main_inputs,
    pod_settings_in,
    read_package,
    study_inputs,
    study_pipeline,
)
from qcnn.targets.errors import BackendError, StepError, suppress_output
from qcnn.targets.kubeflow import runs
from qcnn.targets.kubeflow.checks import kubeflow_checks
from qcnn.targets.kubeflow.client import SINGLE_USER, KfpConnection, page_of, translate_errors
from qcnn.targets.kubeflow.experiments import KubeflowExperiments, LogsSettings, own_runs, runs_of
from qcnn.targets.kubeflow.ml_metadata import MetadataStore
from qcnn.targets.kubeflow.run_objects import RunSteps, StepReader, read_steps, run_logs
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
    namespace_of,
    terminate_run,
)
from qcnn.targets.kubeflow.schedules import KubeflowSchedules
from qcnn.targets.kubeflow.submission import RunSettings, create_run, request
from qcnn.targets.output_check import output_checks
from qcnn.targets.settings import CheckSettings, setting

if TYPE_CHECKING:
    import kfp_server_api


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings(RegistrationFields, RunSettings):
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
class KfpCheckSettings(KfpConnection, CheckSettings):
    """Settings of the checks of a backend."""

    service_account: str | None = setting("Kubernetes service account of the steps to check.", None, metavar="NAME")


class KubeflowTarget(
    KubeflowExperiments,
    KubeflowSchedules[LogsSettings],
    BoundJobs[KfpConnection],
    ReadsContainerLogs,
    Submits[Settings],
    RunsStudies[StudySettings],
    Terminates,
    IsChecked[KfpCheckSettings],
):
    """The target for pipeline runs in Kubeflow Pipelines."""

    name: ClassVar[str] = "kubeflow"
    title: ClassVar[str] = "Kubeflow Pipelines"
    job_kind: ClassVar[str] = "run"
    extra: ClassVar[str] = "kubeflow"
    connection_settings: ClassVar[type[KfpConnection]] = KfpConnection
    submit_settings: ClassVar[type[Settings]] = Settings
    notes: ClassVar[str] = "Each submission creates a new pipeline run. The experiment's fields are its parameters."
    requests_are: ClassVar[Literal["json", "yaml"]] = "json"
    study_settings: ClassVar[type[StudySettings]] = StudySettings
    selections: ClassVar[Sequence[str]] = ("experiment",)
    has_experiments: ClassVar[bool] = True
    patience: ClassVar[float] = PATIENCE
    check_settings: ClassVar[type[KfpCheckSettings]] = KfpCheckSettings

    @override
    def place(self) -> str:
        return self.connection.address

    @override
    def checks(self, settings: KfpCheckSettings) -> Sequence[Check]:
        def connect() -> NamespaceClient:
            return self._open(cluster(self.connection.namespace or SINGLE_USER))

        found = kubeflow_checks(self.backend, connect, settings.service_account or "")
        return (*found, *output_checks(settings))

    @override
    def prepare(self, experiment: ExperimentConfig, settings: Settings) -> Prepared:
        """Compile the pipeline, and return a run of it with an experiment. Each submission creates a new run."""
        compile_now = compile_main(type(self), settings.registration(settings.package), board=settings.tensorboard)
        return self._prepared(compile_now, main_inputs(experiment), "qcnn", settings)

    @override
    def prepare_study(self, study: StudyPlan, settings: StudySettings) -> Prepared:
        compile_now = study_pipeline(type(self), settings.parallelism)
        return self._prepared(compile_now, study_inputs(study.arguments, study.trials), "qcnn-study", settings)

    def _prepared(self, compile_now: Compile, inputs: PipelineInputs, name: str, settings: RunSettings) -> Prepared:
        with compiled_package(settings, compile_now) as package:
            documents = read_package(package, type(self))
        arguments = inputs.arguments
        check_arguments(documents[0], arguments)
        run_name = settings.run_name or f"{name}-{timestamp()}"

        def create() -> Submitted:
            run = create_run(self.backend, documents, arguments, run_name, settings)
            return Submitted(run, page=page_of(settings, f"runs/details/{run}"))

        return Prepared(
            lambda: [request(documents, arguments, run_name, settings)],
            lambda: self.backend.client,
            create,
            pod_settings_in(documents[0]),
            inputs.trials,
        )

    @override
    def list_jobs(self, experiment: str | None = None) -> Sequence[JobStatus]:
        """Return the runs of an experiment, or all runs of qcnn, except archived runs."""
        found = runs_of(self.backend, experiment) if experiment else own_runs(self.backend)
        return [_status(run, experiment=experiment or "") for run in found]

    @override
    def get_job(self, job: str) -> JobStatus:
        """Return a run with its steps, by its ID or name.

        Where KUBECONFIG reaches the cluster of the run, steps have reasons and exit codes.
        """
        run = find_run(self.backend, job)
        status = _status(run, read_steps(self.backend, run))
        return dataclasses.replace(status, page=page_of(self.connection, f"runs/details/{run.run_id}"))

    @override
    def logs(self, job: str, *, follow: bool) -> Iterator[str]:
        """Yield the log lines of all steps, read from their pods on the cluster of KUBECONFIG.

        Lines of the workers are among those of the training step. Lines of KFP's and Argo's executors are omitted,
        except errors. Logs of deleted pods are not available.
        """
        return run_logs(self.backend, job, follow=follow, all_containers=False)

    @override
    def container_logs(self, job: str, *, follow: bool) -> Iterator[str]:
        return run_logs(self.backend, job, follow=follow, all_containers=True)

    @override
    def wait(self, job: str, report: ReportLine, timeout: float | None = None) -> JobStatus:
        """Report state changes with the reasons that `get_job` returns. Expired tokens are renewed."""
        run = find_run(self.backend, job)
        with StepReader(self.backend, run) as reader:
            poll = RunPoller(self.backend, run.run_id)
            ended = runs.follow(poll, lambda run: reader.read(run).parts, report, timeout)
            steps = reader.read(ended)
        status = following.check_ended(_status(ended, steps), timeout)
        check_succeeded(ended, steps.parts, steps.message)
        return status

    @override
    def check_succeeded(self, job: str) -> None:
        run = find_run(self.backend, job)
        steps = read_steps(self.backend, run)
        check_succeeded(run, steps.parts, steps.message)

    @override
    def delete(self, job: str) -> None:
        """Delete a run. An active run and its training jobs are terminated first."""
        run = find_run(self.backend, job)
        namespace = namespace_of(self.backend, run.experiment_id)
        if run.state not in ENDED and (reason := terminate_run(self.backend, run, namespace, lambda line: None)):
            raise BackendError(reason)
        self._delete(run)

    @override
    def find(self, selection: Selection) -> Sequence[Deletable]:
        if selection.experiment is not None:
            found = runs_of(self.backend, selection.experiment)
        else:
            found = [find_run(self.backend, name) for name in selection.names]
        if alive := [run.run_id for run in found if run.state not in ENDED]:
            raise ConfigError(f"delete: the run must have ended; use qcnn terminate. Given: {', '.join(alive)}")
        return [Deletable("run", run.run_id, run.display_name, run.run_id, run.state.lower(), run) for run in found]

    @override
    def delete_found(self, found: Sequence[Deletable]) -> None:
        """Delete runs, but not their training jobs."""
        for each in found:
            self._delete(each.object)

    def _delete(self, run: kfp_server_api.V2beta1Run) -> None:
        with translate_errors(self.backend.address), suppress_output():
            self.backend.client._run_api.run_service_delete_run(run_id=run.run_id)

    @override
    def terminate(self, run: str, report: ReportLine, seconds: float) -> None:
        """Delete the training jobs of a run with their dependents, terminate the run, and wait for it to stop."""
        found = find_run(self.backend, run)
        namespace = namespace_of(self.backend, found.experiment_id)
        if found.state in ENDED:
            report(f"run {found.run_id} has already ended: {found.state.lower()}")
            report(clean(found.run_id, namespace))
        elif reason := terminate_run(self.backend, found, namespace, report, seconds):
            raise StepError(reason)

    @override
    def would_terminate(self, run: str) -> str:
        found = find_run(self.backend, run)
        namespace = namespace_of(self.backend, found.experiment_id)
        state = str(found.state).lower()
        return f"run {found.run_id}, {state}: it and its training jobs in {namespace} would be terminated"

    @override
    def metrics(self, job: str) -> Mapping[str, float]:
        """Return the evaluation metrics, which the backend rounds to six decimals."""
        return run_metrics(self._artifacts(job))

    @override
    def model(self, job: str) -> str:
        return only_model(run_models(self._artifacts(job)), job)

    def _artifacts(self, job: str) -> list[Artifact]:
        run = find_run(self.backend, job)
        return MetadataStore(self.backend).artifacts(run.run_id)


def _status(run: kfp_server_api.V2beta1Run, steps: RunSteps | None = None, experiment: str = "") -> JobStatus:
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
        message=error or (steps.message if steps else ""),
        experiment=experiment,
        parts=following.number_parts(steps.parts) if steps else (),
    )
