"""What a target is: where experiments are sent, as one object that the Python interface and the command ask.

`Target` is what all of them say of themselves. What a target can do is a protocol each: a command, or a function of
`qcnn`, is there for the targets that have its methods. All data classes here are what these methods take and return.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, runtime_checkable

if TYPE_CHECKING:
    from qcnn.components.cost_estimate import PricingPlatform
    from qcnn.experiment import ExperimentConfig
    from qcnn.jobs.pod_settings import PodSettings
    from qcnn.jobs.pricing import Prices
    from qcnn.model.history import EpochMetrics
    from qcnn.pipelines.compiler import PipelineTarget
    from qcnn.studies.trials import StudyPlan
    from qcnn.targets.artifacts import LogSource

# Is told a line for people.
Say = Callable[[str], None]


@runtime_checkable
class Target(Protocol):
    """Where experiments are sent, or run.

    `title` is what sentences call it, `job_kind` what its jobs are. `extra` is the extra of this package that brings
    its libraries, empty for none. `connection` is the class of the settings by which it is reached, a frozen dataclass
    whose fields are made by `qcnn.targets.settings.setting`; so are all other classes of settings, which begin with
    these fields.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    job_kind: ClassVar[str]
    extra: ClassVar[str]
    connection: ClassVar[type[Any]]

    def place(self, connection: Any) -> str:
        """Return where its jobs are, in words that follow "in"."""
        ...


@dataclasses.dataclass(frozen=True)
class Submitted:
    """A job that was submitted: its name on the target, how it came to be there, where its outputs go, and its page.

    `pages` are others, by what they show.
    """

    job: str
    outcome: Literal["created", "adopted", "succeeded"] = "created"
    outputs: Mapping[str, str] = dataclasses.field(default_factory=dict)
    page: str = ""
    pages: Mapping[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Prepared:
    """A job that is ready to be submitted: what would be sent, what sends it, and its pods, None where nobody knows."""

    requests: Callable[[], Sequence[Mapping[str, Any]]]
    submit: Callable[[], Submitted]
    pod: PodSettings | None


@runtime_checkable
class Submits(Target, Protocol):
    """A target that experiments are submitted to.

    `requests_are` is the form in which people take what is sent: objects of Kubernetes as YAML. `notes` is what has to
    be known of jobs there.
    """

    settings: ClassVar[type[Any]]
    notes: ClassVar[str]
    requests_are: ClassVar[Literal["json", "yaml"]]

    def prepare(self, experiment: ExperimentConfig, settings: Any) -> Prepared:
        """Return the job that runs an experiment; nothing is sent, and nothing is asked of a network.

        Where jobs have names, the same experiment under the same name is found again and never trained twice.

        Raises:
            ConfigError: the experiment cannot run there, or a setting is wrong.
        """
        ...

    def platform(self, pod: PodSettings, prices: Prices, machine_type: str = "") -> PricingPlatform:
        """Return what pods with these settings run on, for an estimate; of a machine type where one is named.

        Raises:
            ConfigError: no machine has what they ask for.
        """
        ...


@runtime_checkable
class Compiles(Target, Protocol):
    """A target that runs pipelines, which compile.py compiles for it."""

    def pipeline_target(self) -> PipelineTarget:
        """Return what is its own of a compiled pipeline; it loads Kubeflow's SDK."""
        ...


@runtime_checkable
class RunsStudies(Submits, Protocol):
    """A target that runs all trials of a study as one job."""

    study_settings: ClassVar[type[Any]]

    def prepare_study(self, study: StudyPlan, settings: Any) -> Prepared:
        """Return the job that runs a study; all else as `Submits.prepare`."""
        ...


@dataclasses.dataclass(frozen=True)
class PartStatus:
    """A process of a job, or a step of a run; `reason` is why it does not start, or why it ended.

    `resource` is the pod or the job of the cloud that it runs as; `duration` is in seconds.
    """

    name: str
    state: str
    reason: str = ""
    resource: str = ""
    exit_code: int | None = None
    duration: float | None = None


@dataclasses.dataclass(frozen=True)
class JobStatus:
    """A job of a target; ages and durations are in seconds, None where they are not known.

    `parts` are its processes or steps, which a list of jobs leaves out. Of its `processes`, so many are `running`;
    `restarts` is how often one was started again.
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
    """What is to be deleted: jobs by their names, or all of a run or an experiment, orphans, or everything."""

    names: Sequence[str] = ()
    run: str | None = None
    kind: str | None = None
    experiment: str | None = None
    orphans: bool = False
    everything: bool = False


@dataclasses.dataclass(frozen=True)
class Deletable:
    """An object of a target that can be deleted, as people see it, and as the target has it."""

    kind: str
    job: str
    name: str
    run: str
    state: str
    object: Any = dataclasses.field(repr=False)


@runtime_checkable
class ReadsJobs(Target, Protocol):
    """A target whose jobs can be listed, read, followed and deleted.

    `selections` are the fields of `Selection` that it knows beside names, `kinds` the values of `kind`; a list is that
    of an `experiment` where `has_experiments`. `delete_notes` is what becomes of what a deleted job has written.
    """

    selections: ClassVar[Sequence[str]]
    kinds: ClassVar[Sequence[str]]
    has_experiments: ClassVar[bool]
    delete_notes: ClassVar[str]

    def list_jobs(self, connection: Any, experiment: str | None = None) -> Sequence[JobStatus]:
        """Return the jobs that this package has submitted there, the newest last."""
        ...

    def get_job(self, job: str, connection: Any) -> JobStatus:
        """Return a job with its parts, by its name on the target or the one that it was given."""
        ...

    def logs(self, job: str, connection: Any, *, follow: bool) -> Iterator[str]:
        """Yield the lines that its processes have printed, each once; with `follow` until it has ended."""
        ...

    def follow(self, job: str, connection: Any, say: Say, restarts: int | None = None) -> None:
        """Print or say what its processes print until it has ended; with `restarts`, it is given up after so many.

        Raises:
            StepError: it failed.
        """
        ...

    def wait(self, job: str, connection: Any, say: Say) -> None:
        """Say how its state and those of its parts change until it has ended.

        Raises:
            StepError: it failed.
        """
        ...

    def metrics(self, job: str, connection: Any) -> Mapping[str, float]:
        """Return what was measured of a job that has ended."""
        ...

    def model(self, job: str, connection: Any) -> str:
        """Return the address of the model that a job has exported."""
        ...

    def delete(self, job: str, connection: Any) -> None:
        """Delete a job and what belongs to it, after ending what still runs; what it has written stays."""
        ...

    def find(self, selection: Selection, connection: Any) -> Sequence[Deletable]:
        """Return what a selection comes to, with all that belongs to it.

        Raises:
            ConfigError: a run of it has not ended, which has to be terminated first.
        """
        ...

    def delete_found(self, found: Sequence[Deletable], connection: Any) -> None:
        """Delete what `find` returned, and wait until it is gone."""
        ...


@runtime_checkable
class Terminates(Target, Protocol):
    """A target whose runs can be ended; one that takes longer than `patience` seconds is stuck."""

    patience: ClassVar[float]

    def terminate(self, run: str, connection: Any, say: Say, seconds: float) -> None:
        """End a run and its trainings, and wait for that at most so many seconds.

        Raises:
            StepError: it has not ended.
        """
        ...

    def would_terminate(self, run: str, connection: Any) -> str:
        """Return a line with what `terminate` would end."""
        ...


@dataclasses.dataclass(frozen=True)
class ScheduleStatus:
    """A schedule: its name, its id on the target, when it runs, whether it does, and what of missed or late runs.

    `catch_up`: missed runs are made up for; `queue`: late ones wait for others. None where a target has none.
    """

    name: str
    schedule: str
    when: str
    state: str
    max_concurrency: int
    catch_up: bool | None = None
    queue: bool | None = None


@runtime_checkable
class Schedules(Submits, Protocol):
    """A target that runs an experiment again and again, each time with a seed of its own."""

    schedule_settings: ClassVar[type[Any]]

    def prepare_schedule(self, experiment: ExperimentConfig, settings: Any) -> Prepared:
        """Return the schedule of an experiment; all else as `Submits.prepare`."""
        ...

    def list_schedules(self, connection: Any) -> Sequence[ScheduleStatus]:
        """Return all schedules."""
        ...

    def switch_schedule(self, name: str, connection: Any, *, enabled: bool, dry_run: bool) -> str:
        """Enable or disable a schedule, by its id or name, and return its name; runs that have begun go on."""
        ...

    def delete_schedule(self, name: str, connection: Any, say: Say, warn: Say) -> str:
        """Delete a schedule, by its id or name, after its runs have been terminated, and return its name."""
        ...

    def would_delete_schedule(self, name: str, connection: Any) -> tuple[str, Sequence[str]]:
        """Return the name of a schedule, and those of the runs that `delete_schedule` would terminate."""
        ...


@dataclasses.dataclass(frozen=True)
class ComparedRun:
    """One run: `state` is running, succeeded, failed, interrupted or another of its backend's, damaged or unknown.

    `parameters` are the experiment's words, options among them; `duration` is in seconds, None where it is not known or
    the run has not ended. What cannot be read is empty.
    """

    name: str
    state: str
    parameters: dict[str, Any]
    metrics: dict[str, float]
    history: tuple[EpochMetrics, ...]
    duration: float | None


@runtime_checkable
class ComparesRuns(Target, Protocol):
    """A target whose runs belong to experiments, and can be compared."""

    def experiment_runs(self, experiment: str, connection: Any, warn: Say) -> Sequence[ComparedRun]:
        """Return the runs of an experiment, the newest last.

        Raises:
            BackendError: there is no such experiment.
        """
        ...


@runtime_checkable
class FindsLogs(Target, Protocol):
    """A target whose jobs have logs for TensorBoard."""

    logs_settings: ClassVar[type[Any]]

    def is_job_id(self, text: str) -> bool:
        """Whether a text can be the id of a job there."""
        ...

    def find_logs(
        self, ids: Sequence[str], experiment: str | None, names: Sequence[str], settings: Any, *, in_a_pod: bool
    ) -> list[LogSource]:
        """Return the logs of the jobs with these ids, and of the runs of an experiment with these names (none: all).

        They are to be looked at here or `in_a_pod`, which may have volumes.

        Raises:
            ArtifactError: nothing of what was asked for has logs.
        """
        ...


@runtime_checkable
class HostsTensorBoard(FindsLogs, Protocol):
    """A target on whose cluster a TensorBoard can run."""

    def board_requests(self, name: str, logs: Sequence[str], settings: Any, *, public: bool) -> Sequence[Any]:
        """Return what `deploy_board` would create.

        Raises:
            ConfigError: logs are where its pod does not reach them, or a setting is wrong.
        """
        ...

    def deploy_board(self, name: str, logs: Sequence[str], settings: Any, *, public: bool) -> Mapping[str, str]:
        """Let a TensorBoard run there; return how it is reached, and where it is as "namespace"."""
        ...

    def delete_board(self, name: str, settings: Any) -> str:
        """Delete a TensorBoard, and return the namespace that it was in."""
        ...


@runtime_checkable
class Predicts(Target, Protocol):
    """A target that predicts with what was trained."""

    predict_settings: ClassVar[type[Any]]
    predict_help: ClassVar[str]

    def predict(self, settings: Any, say: Say, warn: Say, progress: Any) -> Mapping[str, Any]:
        """Predict, and return what is known of it: rows, and the error where there are labels.

        `progress` is a context manager that is given a number of rows, or None, and yields what is told of more.
        """
        ...


@runtime_checkable
class SendsPredictions(Predicts, Protocol):
    """A target that predicts elsewhere, so that what is sent can be looked at before."""

    requests_are: ClassVar[Literal["json", "yaml"]]

    def predict_requests(self, settings: Any) -> Sequence[Mapping[str, Any]]:
        """Return what `predict` would send."""
        ...


@dataclasses.dataclass(frozen=True)
class Deployed:
    """A version of a model that answers at an endpoint, with its percent of the requests."""

    id: str
    version: str
    traffic: int


@runtime_checkable
class Deploys(Target, Protocol):
    """A target at whose endpoints models answer requests."""

    deploy_settings: ClassVar[type[Any]]

    def deploy_requests(self, settings: Any) -> Mapping[str, Any]:
        """Return what `deploy` would send for a new endpoint, by kind."""
        ...

    def deploy(self, settings: Any, say: Say, warn: Say) -> tuple[Sequence[Deployed], str]:
        """Have a model answer at an endpoint; return what is deployed there, and the endpoint's page."""
        ...

    def deployed(self, endpoint: str, connection: Any) -> Sequence[Deployed]:
        """Return what is deployed at an endpoint."""
        ...

    def undeploy(self, endpoint: str, connection: Any) -> None:
        """Take everything from an endpoint, and delete that."""
        ...
