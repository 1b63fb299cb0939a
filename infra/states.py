"""What is there, and what is not."""

import dataclasses
import enum
from collections.abc import Mapping

from infra.commands import Answer, Resource, Run, failure, is_not_found
from infra.google import APIS


class State(enum.Enum):
    """Whether a resource is there; the value is how it is called."""

    PRESENT = "present"
    # Its making was stopped.
    INCOMPLETE = "incomplete"
    ABSENT = "absent"
    # Google is making or deleting it just now.
    CHANGING = "changing"
    # Google has given up making it: it can only be deleted.
    FAILED = "failed"
    # It cannot be asked about: the service that knows it is not enabled.
    UNKNOWN = "unknown"


# https://cloud.google.com/kubernetes-engine/docs/reference/rest/v1/projects.locations.clusters#status
# Node pools have them too.
_STATES = {"PROVISIONING": State.CHANGING, "STOPPING": State.CHANGING, "ERROR": State.FAILED}


@dataclasses.dataclass(frozen=True)
class Seen:
    """What was seen of a resource: its state, and the words that were printed of it."""

    state: State
    words: frozenset[str] = frozenset()


def state_of(resource: Resource, answer: Answer) -> Seen:
    """Return what an answer to `describe` says.

    Raises:
        CommandError: it says nothing of whether the resource is there: no rights, no network, a wrong zone.
    """
    if is_not_found(answer):
        return Seen(State.ABSENT)
    if not answer.succeeded:
        raise failure(resource.name, resource.describe, answer)
    words = frozenset(answer.output.split())
    for word, state in _STATES.items():
        if word in words:
            return Seen(state, words)
    found = words.intersection(resource.words)
    return Seen(
        State.ABSENT if not found else State.PRESENT if found.issuperset(resource.words) else State.INCOMPLETE, words
    )


def without_asking(resource: Resource, seen: Mapping[str, Seen]) -> Seen | None:
    """Return the state that follows from what was seen before; None if the resource must be asked about."""
    if resource.api and resource.api not in seen[APIS].words:
        return Seen(State.UNKNOWN)
    if resource.inside and seen[resource.inside].state not in (State.PRESENT, State.INCOMPLETE):
        # What is inside a cluster that is being made, or was never ended, has no server to be asked of.
        holder = seen[resource.inside].state
        return Seen(holder if holder is State.ABSENT else State.UNKNOWN)
    return None


def look(resource: Resource, seen: Mapping[str, Seen], run: Run) -> Seen:
    """Return what is to be seen of a resource; go into it if it is there and other things are inside it.

    Raises:
        CommandError: that cannot be told.
    """
    if known := without_asking(resource, seen):
        return known
    found = state_of(resource, run(resource.describe))
    if found.state is State.PRESENT:
        enter(resource, run)
    return found


def enter(resource: Resource, run: Run) -> None:
    """Make what is inside a resource reachable.

    Raises:
        CommandError: that fails.
    """
    if resource.enter and not (answer := run(resource.enter)).succeeded:
        raise failure(resource.name, resource.enter, answer)
