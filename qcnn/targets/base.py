"""Interfaces of targets, used by the Python interface and the command line.

`Target` is the interface that all targets share. Each capability is a separate protocol. A command or a function of
`qcnn` is available for the targets that inherit from its protocol. A target class describes the target; an instance is
bound to connection settings. The data classes are parameters and results.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Literal, Protocol, Self, TypeVar, runtime_checkable

if TYPE_CHECKING:
    from pathlib import Path

    from qcnn.costs.platforms import PricingPlatform
    from qcnn.experiment.config import ExperimentConfig
    from qcnn.jobs.pod_settings import PodSettings
    from qcnn.jobs.pricing import Prices
    from qcnn.model.history import EpochMetrics
    from qcnn.pipelines.compiler import PipelineTarget
    from qcnn.results.batch_prediction import Progress
    from qcnn.studies.trials import StudyPlan
    from qcnn.targets.artifacts import LogSource
    from qcnn.targets.checks import Check

# Callback that receives one line of text for the user.
ReportLine = Callable[[str], None]


# Request to a platform, as JSON.
Request = Mapping[str, object]


@dataclasses.dataclass(frozen=True, kw_only=True)
class TargetSettings:
    """Base class of settings, whose fields are those of `qcnn.targets.settings.setting`."""


# Settings of a job, a schedule, a study, a prediction or a deployment.
S_contra = TypeVar("S_contra", bound=TargetSettings, contravariant=True)


@runtime_checkable
class Target(Protocol):
    """A place to run experiments.

    The class describes the target without a connection. An instance is bound to connection settings. It is a context
    manager that opens its clients at first use and closes them at the end.

    Args:
        connection: Connection settings, or other settings of the target, which include them.

    Attributes:
        name: Value of `--target` and of the argument `target`.
        title: Name of the target in sentences.
        job_kind: Name of its job type in sentences.
        extra: Package extra that installs its libraries, or empty.
        connection_settings: Class of its connection settings. All other settings classes of the target inherit from it.
        connection: The connection settings.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    job_kind: ClassVar[str]
    extra: ClassVar[str]
    connection_settings: ClassVar[type[TargetSettings]]
    connection: TargetSettings

    def __init__(self, connection: TargetSettings) -> None: ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *raised: object) -> None: ...

    def close(self) -> None:
        """Close the clients."""
        ...

    def place(self) -> str:
        """Return the location of its jobs as a phrase that follows "in"."""
        ...


@dataclasses.dataclass(frozen=True)
class Submitted:
    """A submitted job.

    `job` is its name on the target. `outputs` maps output names to URIs. `page` is the URL of its web page, and `pages`
    maps the subjects of further pages to their URLs.
    """

    job: str
    outcome: Literal["created", "adopted", "succeeded"] = "created"
    outputs: Mapping[str, str] = dataclasses.field(default_factory=dict)
    page: str = ""
    pages: Mapping[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Prepared:
    """A job that is ready for submission.

    `requests` returns the requests that `submit` sends. `check` raises an error if the target is unavailable or would
    reject the job; call it before `submit`. `pod` holds the settings of its pods, or None if unknown. `trials` are the
    experiments that it trains, with the metadata of data files that were read.
    """

    requests: Callable[[], Sequence[Request]]
    check: Callable[[], object]
    submit: Callable[[], Submitted]
    pod: PodSettings | None
    trials: Sequence[ExperimentConfig]


@runtime_checkable
class Prepares(Target, Protocol):
    """A target whose jobs are prepared before submission and have a cost.

    `requests_are` is the format of its requests: YAML for Kubernetes manifests.
    """

    requests_are: ClassVar[Literal["json", "yaml"]]

    @classmethod
    def platform(cls, pod: PodSettings, prices: Prices, machine_type: str = "") -> PricingPlatform:
        """Return the machines that pods run on, for a cost estimate.

        Args:
            pod: Settings of the pods.
            prices: Price list.
            machine_type: Machine type to price. Empty: selected by the target.

        Raises:
            ConfigError: If no machine type has the requested resources.
        """
        ...


@runtime_checkable
class Submits(Prepares, Protocol[S_contra]):
    """A target that experiments are submitted to.

    `submit_settings` is the class of the job settings. `notes` describes its jobs in the command's help.
    """

    submit_settings: ClassVar[type[TargetSettings]]
    notes: ClassVar[str]

    def prepare(self, experiment: ExperimentConfig, settings: S_contra) -> Prepared:
        """Return the job that runs an experiment, without network requests.

        On targets with job names, resubmitting an experiment under the same name does not retrain it.

        Args:
            experiment: Experiment to run.
            settings: Settings of class `submit_settings`, with the connection settings of this target.

        Raises:
            ConfigError: If the target cannot run the experiment, or a setting is invalid.
        """
        ...


@runtime_checkable
class IsChecked(Target, Protocol[S_contra]):
    """A target that can be checked before training. `check_settings` is the class of the settings of its checks."""

    check_settings: ClassVar[type[TargetSettings]]

    def checks(self, settings: S_contra) -> Sequence[Check]:
        """Return the checks, without network requests."""
        ...


@runtime_checkable
class Compiles(Target, Protocol):
    """A target that runs pipelines compiled by compile.py."""

    @classmethod
    def pipeline_target(cls) -> PipelineTarget:
        """Return the target-specific settings of the pipeline compiler. Imports the KFP SDK."""
        ...


@runtime_checkable
class RunsStudies(Prepares, Protocol[S_contra]):
    """A target that runs all trials of a study as one job."""

    study_settings: ClassVar[type[TargetSettings]]

    def prepare_study(self, study: StudyPlan, settings: S_contra) -> Prepared:
        """Return the job that runs a study.

        Raises:
            ConfigError: If the target cannot run the study, or a setting is invalid.
        """
        ...


@dataclasses.dataclass(frozen=True)
class PartStatus:
    """Status of one process of a job, or of one step of a run.

    `reason` explains why it does not start, or why it ended. `resource` is its pod or cloud job. `duration` is in
    seconds.
    """

    name: str
    state: str
    reason: str = ""
    resource: str = ""
    exit_code: int | None = None
    duration: float | None = None


@dataclasses.dataclass(frozen=True)
class JobStatus:
    """Status of a job.

    `age` and `duration` are in seconds, or None if unknown. `processes` and `running` are numbers of processes.
    `restarts` is the number of process restarts. `parts` are processes or steps, and empty in lists of jobs.
    """

    job: str
    name: str
    state: str
    has_ended: bool
    has_succeeded: bool
    age: float | None = None
    duration: float | None = None
    message: str = ""
    experiment: str = ""
    processes: int | None = None
    running: int | None = None
    restarts: int | None = None
    outputs: Mapping[str, str] = dataclasses.field(default_factory=dict)
    page: str = ""
    parts: Sequence[PartStatus] = ()


@dataclasses.dataclass(frozen=True)
class Selection:
    """Selection of jobs to delete: by name, run, kind or experiment, all orphans, or everything."""

    names: Sequence[str] = ()
    run: str | None = None
    kind: str | None = None
    experiment: str | None = None
    orphans: bool = False
    everything: bool = False


@dataclasses.dataclass(frozen=True)
class Deletable:
    """A deletable object of a target, with the fields to display and the client's `object`."""

    kind: str
    job: str
    name: str
    run: str
    state: str
    object: object = dataclasses.field(repr=False)


@runtime_checkable
class ReadsJobs(Target, Protocol):
    """A target whose jobs can be listed, inspected, followed and deleted.

    `selections` are the supported fields of `Selection` besides `names`. `kinds` are the allowed values of `kind`. With
    `has_experiments`, jobs can be listed by experiment. `delete_notes` states what happens to the outputs of deleted
    jobs.
    """

    selections: ClassVar[Sequence[str]]
    kinds: ClassVar[Sequence[str]]
    has_experiments: ClassVar[bool]
    delete_notes: ClassVar[str]

    def list_jobs(self, experiment: str | None = None) -> Sequence[JobStatus]:
        """Return the jobs that this package submitted to the target, newest last."""
        ...

    def get_job(self, job: str) -> JobStatus:
        """Return a job with its parts, by its name on the target or its run name."""
        ...

    def logs(self, job: str, *, follow: bool) -> Iterator[str]:
        """Yield the log lines of all processes, each line once.

        Args:
            job: Name of the job.
            follow: Whether to continue until the job ends.
        """
        ...

    def follow(self, job: str, report: ReportLine, restarts: int | None = None) -> None:
        """Print or report the log lines of a job until the job ends.

        Args:
            job: Name of the job.
            report: Callback for log lines.
            restarts: Maximum number of restarts, after which the job is canceled. None: no limit.

        Raises:
            StepError: If the job failed.
        """
        ...

    def wait(self, job: str, report: ReportLine, timeout: float | None = None) -> JobStatus:
        """Report state changes of a job and its parts until the job has succeeded, and return its last status.

        A service that is unavailable for less than ten minutes is tolerated.

        Args:
            job: Name of the job.
            report: Callback for status lines.
            timeout: Timeout in seconds. None: no limit.

        Raises:
            StepError: If the job failed or was canceled.
            TimeoutError: If the job has not ended in time.
        """
        ...

    def check_succeeded(self, job: str) -> None:
        """Raise StepError if a finished job has not succeeded.

        Raises:
            StepError: If the job failed or was canceled.
        """
        ...

    def metrics(self, job: str) -> Mapping[str, float]:
        """Return the metrics of a finished job."""
        ...

    def model(self, job: str) -> str:
        """Return the URI of the model that a job exported."""
        ...

    def delete(self, job: str) -> None:
        """Delete a job and its dependent objects, and stop running processes first. Outputs are kept."""
        ...

    def find(self, selection: Selection) -> Sequence[Deletable]:
        """Return the selected objects with their dependents.

        Raises:
            ConfigError: If a selected run is still active and must be terminated first.
        """
        ...

    def delete_found(self, found: Sequence[Deletable]) -> None:
        """Delete the objects that `find` returned, and wait until they no longer exist."""
        ...


@runtime_checkable
class ReadsContainerLogs(ReadsJobs, Protocol):
    """A target whose pods have containers, and lines, that do not belong to the processes or steps of a job."""

    def container_logs(self, job: str, *, follow: bool) -> Iterator[str]:
        """Yield the log lines of all containers of all pods, each line once.

        Args:
            job: Name of the job.
            follow: Whether to continue until the job ends.
        """
        ...


@runtime_checkable
class Terminates(Target, Protocol):
    """A target whose runs can be terminated, by default within `patience` seconds."""

    patience: ClassVar[float]

    def terminate(self, run: str, report: ReportLine, seconds: float) -> None:
        """Terminate a run and its training jobs.

        Args:
            run: ID or name of the run.
            report: Callback for status lines.
            seconds: Timeout for the run to stop, in seconds.

        Raises:
            StepError: If the run did not stop in time.
        """
        ...

    def would_terminate(self, run: str) -> str:
        """Return a line that lists what `terminate` would stop."""
        ...


@dataclasses.dataclass(frozen=True)
class ScheduleStatus:
    """A schedule of recurring runs.

    `schedule` is its ID on the target. `catch_up`: whether missed runs are started later. `queue`: whether late runs
    wait for active runs. Both are None if the target has no such setting.
    """

    name: str
    schedule: str
    when: str
    state: str
    max_concurrency: int
    catch_up: bool | None = None
    queue: bool | None = None


@runtime_checkable
class Schedules(Prepares, Protocol[S_contra]):
    """A target that runs an experiment on a recurring schedule, with a new seed for each run."""

    schedule_settings: ClassVar[type[TargetSettings]]

    def prepare_schedule(self, experiment: ExperimentConfig, settings: S_contra) -> Prepared:
        """Return the schedule of an experiment, ready for submission.

        Raises:
            ConfigError: If the target cannot run the experiment, or a setting is invalid.
        """
        ...

    def list_schedules(self) -> Sequence[ScheduleStatus]:
        """Return all schedules."""
        ...

    def switch_schedule(self, name: str, *, enabled: bool, dry_run: bool) -> str:
        """Enable or disable a schedule and return its name. Active runs continue.

        Args:
            name: ID or name of the schedule.
            enabled: Whether to enable it.
            dry_run: Whether to leave the schedule unchanged.
        """
        ...

    def delete_schedule(self, name: str, report: ReportLine, warn: ReportLine) -> str:
        """Delete a schedule and return its name. Its active runs are terminated first.

        Args:
            name: ID or name of the schedule.
            report: Callback for status lines.
            warn: Callback for runs that could not be terminated.
        """
        ...

    def would_delete_schedule(self, name: str) -> tuple[str, Sequence[str]]:
        """Return the name of a schedule and the runs that `delete_schedule` would terminate."""
        ...


@dataclasses.dataclass(frozen=True)
class ComparedRun:
    """One run of a comparison.

    `state` is running, succeeded, failed, interrupted, another state of the target, damaged or unknown. `parameters`
    are the experiment's fields, options included. `duration` is in seconds, or None if it is unknown or the run is
    active. `report` is the local HTML report, or None. Unreadable parts are empty.
    """

    name: str
    state: str
    parameters: Mapping[str, object]
    metrics: dict[str, float]
    history: tuple[EpochMetrics, ...]
    duration: float | None
    report: Path | None = None


@runtime_checkable
class ComparesRuns(Target, Protocol):
    """A target whose runs belong to experiments and can be compared."""

    def experiment_runs(self, experiment: str, warn: ReportLine) -> Sequence[ComparedRun]:
        """Return the runs of an experiment, newest last.

        Args:
            experiment: Name of the experiment.
            warn: Callback for warnings.

        Raises:
            BackendError: If the experiment does not exist.
        """
        ...

    def named_runs(self, names: Sequence[str], warn: ReportLine) -> Sequence[ComparedRun]:
        """Return the runs with these IDs or names, in this order.

        Args:
            names: IDs or names of runs.
            warn: Callback for warnings.

        Raises:
            BackendError: If a run does not exist, or its name is ambiguous.
        """
        ...


@runtime_checkable
class FindsLogs(Target, Protocol[S_contra]):
    """A target whose jobs have TensorBoard logs."""

    logs_settings: ClassVar[type[TargetSettings]]

    def is_job_id(self, text: str) -> bool:
        """Return whether a text is a valid job ID of the target."""
        ...

    def find_logs(
        self, ids: Sequence[str], experiment: str | None, names: Sequence[str], settings: S_contra, *, in_a_pod: bool
    ) -> list[LogSource]:
        """Return the logs of jobs, and of runs of an experiment.

        Args:
            ids: Job IDs.
            experiment: Experiment whose runs are added, or None.
            names: IDs or names of runs of the experiment. Empty: all runs.
            settings: Settings of class `logs_settings`.
            in_a_pod: Whether TensorBoard runs in a pod, where volumes are readable.

        Raises:
            ArtifactError: If none of the requested jobs has logs.
        """
        ...


@runtime_checkable
class HostsTensorBoard(FindsLogs[S_contra], Protocol[S_contra]):
    """A target that can run TensorBoard on its cluster."""

    def board_requests(self, name: str, logs: Sequence[str], settings: S_contra, *, public: bool) -> Sequence[Request]:
        """Return the manifests that `deploy_board` would create.

        Args:
            name: Name of the Deployment.
            logs: Log folders as NAME=FOLDER or FOLDER.
            settings: Settings of class `logs_settings`.
            public: Whether to expose TensorBoard with a LoadBalancer.

        Raises:
            ConfigError: If the pod cannot read the logs, or a setting is invalid.
        """
        ...

    def deploy_board(self, name: str, logs: Sequence[str], settings: S_contra, *, public: bool) -> Mapping[str, str]:
        """Deploy TensorBoard and return its access information, including "namespace".

        Args:
            name: Name of the Deployment.
            logs: Log folders as NAME=FOLDER or FOLDER.
            settings: Settings of class `logs_settings`.
            public: Whether to expose TensorBoard with a LoadBalancer.
        """
        ...

    def delete_board(self, name: str) -> str:
        """Delete a TensorBoard and return its namespace."""
        ...


@runtime_checkable
class Predicts(Target, Protocol[S_contra]):
    """A target that predicts with trained models.

    Settings have the fields `data` and `output`. With `data` and without `output`, predictions are printed as CSV.
    """

    predict_settings: ClassVar[type[TargetSettings]]
    predict_help: ClassVar[str]

    def predict(
        self, settings: S_contra, report: ReportLine, warn: ReportLine, progress: Progress
    ) -> Mapping[str, float | str]:
        """Predict and return a summary: the number of rows and, with labels, the error metrics.

        Args:
            settings: Settings of class `predict_settings`.
            report: Callback for status lines, or for printed predictions.
            warn: Callback for warnings.
            progress: Display of the number of rows.
        """
        ...


@runtime_checkable
class SendsPredictions(Predicts[S_contra], Protocol[S_contra]):
    """A target that predicts remotely, so that the requests can be shown before they are sent."""

    requests_are: ClassVar[Literal["json", "yaml"]]

    def predict_requests(self, settings: S_contra) -> Sequence[Request]:
        """Return the requests that `predict` would send."""
        ...


@dataclasses.dataclass(frozen=True)
class Deployed:
    """A model version deployed to an endpoint, with its traffic percentage."""

    id: str
    version: str
    traffic: int


@runtime_checkable
class Deploys(Target, Protocol[S_contra]):
    """A target with endpoints that serve models.

    `deploy_help` describes deployments in the command's help. `requests_are` is the format of their requests.
    """

    deploy_settings: ClassVar[type[TargetSettings]]
    deploy_help: ClassVar[str]
    requests_are: ClassVar[Literal["json", "yaml"]]

    def deploy_requests(self, settings: S_contra) -> Sequence[Request]:
        """Return the requests that `deploy` would send for a new endpoint."""
        ...

    def deploy(
        self, settings: S_contra, report: ReportLine, warn: ReportLine
    ) -> tuple[Sequence[Deployed], Mapping[str, str]]:
        """Deploy a model to an endpoint and return the deployed versions and the access information of the endpoint.

        Args:
            settings: Settings of class `deploy_settings`.
            report: Callback for status lines.
            warn: Callback for warnings.
        """
        ...

    def deployed(self, endpoint: str) -> Sequence[Deployed]:
        """Return the versions deployed to an endpoint."""
        ...

    def undeploy(self, endpoint: str) -> None:
        """Undeploy all versions and delete the endpoint. Models are kept."""
        ...
