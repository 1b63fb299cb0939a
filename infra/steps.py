"""Finds out what is there; makes what is absent, and deletes what is there, one resource after the other."""

import dataclasses
import enum
from collections.abc import Callable, Iterator, Mapping, Sequence

from tenacity import RetryCallState, Retrying, retry_if_exception_type, retry_if_result, stop_after_attempt, wait_fixed

from infra.commands import Argv, CommandError, CommandResult, InfraResource, NotReadyError, Run, failure, is_not_found
from infra.google import APIS
from qcnn.errors import ConfigError


class ResourceState(enum.Enum):
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
_STATES = {"PROVISIONING": ResourceState.CHANGING, "STOPPING": ResourceState.CHANGING, "ERROR": ResourceState.FAILED}


@dataclasses.dataclass(frozen=True)
class ResourceObservation:
    """What was seen of a resource: its state, and the words that were printed of it."""

    state: ResourceState
    words: frozenset[str] = frozenset()


def state_of(resource: InfraResource, answer: CommandResult) -> ResourceObservation:
    """Return what an answer to `describe` says.

    Raises:
        CommandError: it says nothing of whether the resource is there: no rights, no network, a wrong zone.
    """
    if is_not_found(answer):
        return ResourceObservation(ResourceState.ABSENT)
    if not answer.succeeded:
        raise failure(resource.name, resource.describe, answer)
    words = frozenset(answer.output.split())
    for word, state in _STATES.items():
        if word in words:
            return ResourceObservation(state, words)
    found = words.intersection(resource.expected)
    return ResourceObservation(
        ResourceState.ABSENT
        if not found
        else ResourceState.PRESENT
        if found.issuperset(resource.expected)
        else ResourceState.INCOMPLETE,
        words,
    )


def infer_state(resource: InfraResource, seen: Mapping[str, ResourceObservation]) -> ResourceObservation | None:
    """Return the state that follows from what was seen before; None if the resource must be asked about."""
    if resource.api and resource.api not in seen[APIS].words:
        return ResourceObservation(ResourceState.UNKNOWN)
    if resource.parent and seen[resource.parent].state not in (ResourceState.PRESENT, ResourceState.INCOMPLETE):
        # What is inside a cluster that is being made, or was never ended, has no server to be asked of.
        holder = seen[resource.parent].state
        return ResourceObservation(holder if holder is ResourceState.ABSENT else ResourceState.UNKNOWN)
    return None


def inspect(resource: InfraResource, seen: Mapping[str, ResourceObservation], run: Run) -> ResourceObservation:
    """Return what is to be seen of a resource; go into it if it is there and other things are inside it.

    Raises:
        CommandError: that cannot be told.
    """
    if known := infer_state(resource, seen):
        return known
    found = state_of(resource, run(resource.describe))
    if found.state is ResourceState.PRESENT:
        connect(resource, run)
    return found


def connect(resource: InfraResource, run: Run) -> None:
    """Make what is inside a resource reachable.

    Raises:
        CommandError: that fails.
    """
    if resource.connect and not (answer := run(resource.connect)).succeeded:
        raise failure(resource.name, resource.connect, answer)


# Google says that what was made is known everywhere after two minutes, at most seven:
# https://cloud.google.com/iam/docs/access-change-propagation
_TRIES, _PAUSE_SECONDS = 42, 10
# Half an hour: a cluster takes Google ten minutes.
_LOOKS = 180

Say = Callable[[str], None]
Sleep = Callable[[float], None]


@dataclasses.dataclass(frozen=True)
class ResourceStatus:
    """A resource, and its state."""

    resource: InfraResource
    state: ResourceState


def inspect_all(table: Sequence[InfraResource], run: Run) -> Iterator[ResourceStatus]:
    """Yield every resource as it is now.

    Raises:
        CommandError: whether one is there cannot be told.
    """
    seen: dict[str, ResourceObservation] = {}
    for resource in table:
        seen[resource.name] = inspect(resource, seen, run)
        yield ResourceStatus(resource, seen[resource.name].state)


def create_missing(table: Sequence[InfraResource], run: Run, say: Say, sleep: Sleep) -> None:
    """Make every resource that is absent or incomplete, in the order of the table.

    Raises:
        CommandError: a command fails; nothing after it is made.
        ConfigError: the project does not exist.
    """
    seen: dict[str, ResourceObservation] = {}
    for resource in table:
        found = _settled(resource, seen, run, say, sleep)
        if found.state is ResourceState.PRESENT:
            say(f"present   {resource.name}")
        else:
            _check_creatable(resource, found.state)
            say(f"creating  {resource.name}: {resource.description}")
            for argv in resource.create:
                _patiently(sleep)(_run, resource, argv, run)
            found = ResourceObservation(ResourceState.PRESENT, frozenset(resource.expected))
            connect(resource, run)
        seen[resource.name] = found


def deletion_plan(found: Sequence[ResourceStatus], with_data: bool) -> list[InfraResource]:
    """Return what is to be deleted by commands of its own, what was made last first."""
    return [
        each.resource
        for each in reversed(found)
        if each.state not in (ResourceState.ABSENT, ResourceState.UNKNOWN)
        and each.resource.delete
        and (with_data or not each.resource.is_data)
    ]


def check_deletable(found: Sequence[ResourceStatus]) -> None:
    """Refuse to delete while Google is making or deleting something.

    Raises:
        CommandError: it is.
    """
    for each in found:
        if each.state is ResourceState.CHANGING:
            raise _changing(each.resource)


def delete(resources: Sequence[InfraResource], run: Run, say: Say) -> None:
    """Delete resources in this order; what is gone by then is passed over.

    Raises:
        CommandError: a command fails; nothing after it is deleted.
    """
    for resource in resources:
        say(f"deleting  {resource.name}")
        for argv in resource.delete:
            answer = run(argv)
            if not answer.succeeded and not is_not_found(answer):
                raise failure(resource.name, argv, answer)


def _settled(
    resource: InfraResource, seen: Mapping[str, ResourceObservation], run: Run, say: Say, sleep: Sleep
) -> ResourceObservation:
    """Return what is seen of a resource once Google has ended what it does to it.

    Its making may have been stopped here; it goes on there.
    """
    # A service that was enabled a moment ago still says that it is not; the project itself is asked before any is.
    found = _patiently(sleep)(inspect, resource, seen, run) if resource.api else inspect(resource, seen, run)
    if found.state is not ResourceState.CHANGING:
        return found
    say(f"waiting   {resource.name}: Google is making or deleting it")
    again = Retrying(
        retry=retry_if_result(_is_changing),
        wait=wait_fixed(_PAUSE_SECONDS),
        stop=stop_after_attempt(_LOOKS),
        sleep=sleep,
        retry_error_callback=_last_result,
    )
    return again(inspect, resource, seen, run)


def _is_changing(found: ResourceObservation) -> bool:
    return found.state is ResourceState.CHANGING


def _last_result(state: RetryCallState) -> ResourceObservation:
    assert state.outcome
    found: ResourceObservation = state.outcome.result()
    return found


def _check_creatable(resource: InfraResource, state: ResourceState) -> None:
    if state is ResourceState.CHANGING:
        raise _changing(resource)
    if state is ResourceState.FAILED:
        raise CommandError(
            f"{resource.name}: Google has given up making it; destroy, then apply again. Given: {state.value}"
        )
    if not resource.create:
        raise ConfigError(
            f"{resource.name}: must exist ({resource.description}). Given: {', '.join(resource.expected)}"
        )


def _changing(resource: InfraResource) -> CommandError:
    return CommandError(
        f"{resource.name}: Google is making or deleting it just now; wait for the end of that, and start again. "
        f"Given: {ResourceState.CHANGING.value}"
    )


def _run(resource: InfraResource, argv: Argv, run: Run) -> None:
    answer = run(argv)
    if not answer.succeeded:
        raise failure(resource.name, argv, answer)


def _patiently(sleep: Sleep) -> Retrying:
    """Return what calls again, for a while, where what is needed is not known everywhere yet."""
    return Retrying(
        retry=retry_if_exception_type(NotReadyError),
        wait=wait_fixed(_PAUSE_SECONDS),
        stop=stop_after_attempt(_TRIES),
        sleep=sleep,
        reraise=True,
    )
