"""Runs and schedules of a service by ID or name."""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from qcnn.errors import ArtifactError
from qcnn.targets.errors import BackendError

# Maximum number of IDs in a message.
_SHOWN = 10


class Named(Protocol):
    """Run or schedule of a service."""

    @property
    def display_name(self) -> str:
        """Name that the user gave it."""
        ...


N = TypeVar("N", bound=Named)


def only_run(found: Sequence[N], id_of: Callable[[N], str], place: str, name: str) -> N:
    """Return the only run of a name.

    Args:
        found: Runs of this name.
        id_of: Returns the ID of a run.
        place: Service that was searched, for messages.
        name: ID or name of the run.

    Raises:
        BackendError: If there is no run, or more than one.
    """
    if len(found) == 1:
        return found[0]
    if not found:
        raise BackendError(f"run: {place} has none of this ID or name. Given: {name}")
    ids = ", ".join(map(id_of, found[:_SHOWN]))
    raise BackendError(f"run: the name is ambiguous; use one of the IDs {ids}. Given: {name}")


def select_runs(known: Sequence[N], id_of: Callable[[N], str], names: Sequence[str], experiment: str) -> list[N]:
    """Return the runs of an experiment with these IDs or names, or all without names.

    Args:
        known: Runs of the experiment.
        id_of: Returns the ID of a run.
        names: IDs or names of runs.
        experiment: Name of the experiment, for messages.

    Raises:
        ArtifactError: If the experiment has no run of a name.
    """
    for name in names:
        if not any(name in (id_of(run), run.display_name) for run in known):
            shown = ", ".join(sorted({run.display_name for run in known})) or "none"
            raise ArtifactError(f"run: experiment {experiment} has {shown}. Given: {name}")
    return [run for run in known if not names or id_of(run) in names or run.display_name in names]


def only_schedule(known: Sequence[N], id_of: Callable[[N], str], name: str) -> N:
    """Return the only schedule of an ID or name.

    Args:
        known: All schedules.
        id_of: Returns the ID of a schedule.
        name: ID or name of the schedule.

    Raises:
        BackendError: If there is no schedule, or more than one.
    """
    found = [each for each in known if name in (id_of(each), each.display_name)]
    if len(found) == 1:
        return found[0]
    ids = ", ".join(f"{each.display_name} ({id_of(each)})" for each in found or known) or "none"
    raise BackendError(f"schedule: must be one of {ids}. Given: {name}")
