"""The Target protocol: where experiments are sent, as one object that the Python interface and the command ask."""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Literal, Protocol, TypeVar

from qcnn.errors import ConfigError, TrainingError, given
from qcnn.experiment import ExperimentConfig
from qcnn.jobs.pod_settings import Pod, pod_settings
from qcnn.targets import following

T = TypeVar("T")


@dataclasses.dataclass(frozen=True)
class Submitted:
    """A job that was submitted: its name on the target, how it came to be there, where its outputs go, and its page."""

    job: str
    outcome: Literal["created", "adopted", "succeeded"]
    outputs: Mapping[str, str] = dataclasses.field(default_factory=dict)
    page: str = ""


@dataclasses.dataclass(frozen=True)
class PartStatus:
    """A process of a job, or a step of a run; `reason` is why it does not start, or why it ended."""

    name: str
    state: str
    reason: str = ""


@dataclasses.dataclass(frozen=True)
class JobStatus:
    """A job of a target; ages and durations are in seconds, None where they are not known.

    `parts` are its processes or steps, which a list of jobs leaves out.
    """

    job: str
    name: str
    state: str
    has_ended: bool
    has_succeeded: bool
    age: float | None = None
    duration: float | None = None
    message: str = ""
    outputs: Mapping[str, str] = dataclasses.field(default_factory=dict)
    parts: Sequence[PartStatus] = ()


class Target(Protocol):
    """Where experiments are sent.

    `connection` holds the settings that every operation needs, `settings` all that submitting an experiment takes,
    those among them. Both are frozen dataclasses whose fields are made by `setting`: from these follow the arguments of
    `qcnn.submit`, and what is said of one that is wrong. `extra` is the extra of this package that brings its
    libraries.
    """

    name: ClassVar[str]
    extra: ClassVar[str]
    connection: ClassVar[type[Any]]
    settings: ClassVar[type[Any]]

    def requests(self, experiment: ExperimentConfig, settings: Any) -> Sequence[Mapping[str, Any]]:
        """Return what `submit` would send, and send nothing.

        Raises:
            ConfigError: the experiment cannot run there, or a setting is wrong.
        """
        ...

    def submit(self, experiment: ExperimentConfig, settings: Any) -> Submitted:
        """Submit an experiment; the same one under the same name is found again and never trained twice.

        Raises:
            ConfigError: the experiment cannot run there, or a setting is wrong.
        """
        ...

    def list_jobs(self, connection: Any) -> Sequence[JobStatus]:
        """Return the jobs that this package has submitted there, the newest last."""
        ...

    def get_job(self, job: str, connection: Any) -> JobStatus:
        """Return a job, by its name on the target or the one that it was given."""
        ...

    def logs(self, job: str, connection: Any, *, follow: bool) -> Iterator[str]:
        """Yield the lines that its processes have printed, each once; with `follow` until it has ended."""
        ...

    def delete(self, job: str, connection: Any) -> None:
        """Delete a job and what belongs to it, after ending what still runs; what it has written stays."""
        ...

    def metrics(self, job: str, connection: Any) -> Mapping[str, float]:
        """Return what was measured of a job that has ended."""
        ...

    def model(self, job: str, connection: Any) -> str:
        """Return the address of the model that a job has exported."""
        ...


def setting(help_text: str, default: Any = dataclasses.MISSING, *, variable: str = "", is_secret: bool = False) -> Any:
    """Return a field of a target's settings; what is not given is taken from an environment variable, if it has one."""
    metadata = {"help": help_text, "variable": variable}
    if isinstance(default, dict):
        return dataclasses.field(default_factory=lambda: default, metadata=metadata, repr=not is_secret)
    return dataclasses.field(default=default, metadata=metadata, repr=not is_secret)


def pods(image: str | None, pod: Mapping[str, Any], **defaults: str) -> Pod:
    """Return the settings of a job's pods; `image` counts over `pod`, which is laid over `defaults`.

    Raises:
        ConfigError: one line with the first that is wrong.
    """
    return pod_settings({**defaults, **pod, **({"image": image} if image is not None else {})})


def settings_from(kind: type[T], values: Mapping[str, Any], target: str) -> T:
    """Return settings of a target, from arguments and from the environment variables of those that are not given.

    Raises:
        ConfigError: a setting is unknown, missing or wrong; one line.
    """
    fields: dict[str, dataclasses.Field[Any]] = {each.name: each for each in dataclasses.fields(kind)}  # type: ignore[arg-type]
    for name, value in values.items():
        if name not in fields:
            raise ConfigError(
                f"{name}: unknown setting of target {target}; the settings are {', '.join(fields)}. "
                f"Given: {given(value)}"
            )
    found = dict(values)
    for name, each in fields.items():
        value = os.environ.get(each.metadata["variable"]) if each.metadata["variable"] else None
        if name not in found and value:
            found[name] = value
        if name not in found and each.default is each.default_factory is dataclasses.MISSING:
            variable = f", or environment variable {each.metadata['variable']}" if each.metadata["variable"] else ""
            raise ConfigError(f"{name}: must be given to target {target}{variable}. Given: none")
    return kind(**found)


def wait_for(target: Target, job: str, connection: Any, timeout: float | None) -> JobStatus:
    """Wait until a job has succeeded, and return it as it is then.

    Raises:
        TrainingError: it has ended in any other way.
        TimeoutError: it has not ended within so many seconds.
    """
    end = None if timeout is None else time.monotonic() + timeout
    while not (status := target.get_job(job, connection)).has_ended:
        left = following.INTERVAL if end is None else min(following.INTERVAL, end - time.monotonic())
        if left <= 0:
            raise TimeoutError(f"{job} has not ended within {timeout:g} s: it is {status.state}")
        time.sleep(left)
    if not status.has_succeeded:
        raise TrainingError(f"job: it has ended {status.state}{_because(status)}. Given: {status.job}")
    return status


def _because(status: JobStatus) -> str:
    reasons = [status.message, *(f"{part.name}: {part.reason}" for part in status.parts if part.reason)]
    return next((f" ({reason})" for reason in reasons if reason), "")
