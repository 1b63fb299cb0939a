"""State detection, creation and deletion of cloud resources, one at a time."""

import dataclasses
import enum
from collections.abc import Callable, Iterator, Mapping, Sequence

from tenacity import RetryCallState, Retrying, retry_if_exception_type, retry_if_result, stop_after_attempt, wait_fixed

from infra.commands import Argv, CommandError, CommandResult, InfraResource, NotReadyError, Run, failure, is_not_found
from infra.google import APIS
from qcnn.errors import ConfigError


class ResourceState(enum.Enum):
    """State of a resource. The values are printed."""

    PRESENT = "present"
    # The creation was interrupted.
    INCOMPLETE = "incomplete"
    ABSENT = "absent"
    # Google is creating or deleting it.
    CHANGING = "changing"
    # The creation failed in Google Cloud. The resource must be deleted.
    FAILED = "failed"
    # It cannot be described: its API is not enabled, or its cluster is not available.
    UNKNOWN = "unknown"


# States of clusters and node pools:
# https://cloud.google.com/kubernetes-engine/docs/reference/rest/v1/projects.locations.clusters#status
_STATES = {"PROVISIONING": ResourceState.CHANGING, "STOPPING": ResourceState.CHANGING, "ERROR": ResourceState.FAILED}


@dataclasses.dataclass(frozen=True)
class ResourceObservation:
    """State of a resource, and the strings in the output of its `describe` command."""

    state: ResourceState
    values: frozenset[str] = frozenset()


def state_of(resource: InfraResource, answer: CommandResult) -> ResourceObservation:
    """Return the state of a resource from the result of its `describe` command.

    Raises:
        CommandError: If the result does not show whether it exists, such as missing permissions or a wrong zone.
    """
    if is_not_found(answer):
        return ResourceObservation(ResourceState.ABSENT)
    if not answer.succeeded:
        raise failure(resource.name, resource.describe, answer)
    values = frozenset(answer.output.split())
    for value, state in _STATES.items():
        if value in values:
            return ResourceObservation(state, values)
    found = values.intersection(resource.expected)
    return ResourceObservation(
        ResourceState.ABSENT
        if not found
        else ResourceState.PRESENT
        if found.issuperset(resource.expected)
        else ResourceState.INCOMPLETE,
        values,
    )


def infer_state(resource: InfraResource, seen: Mapping[str, ResourceObservation]) -> ResourceObservation | None:
    """Return the state that follows from earlier observations, or None if `describe` must run."""
    if resource.api and resource.api not in seen[APIS].values:
        return ResourceObservation(ResourceState.UNKNOWN)
    if resource.parent and seen[resource.parent].state not in (ResourceState.PRESENT, ResourceState.INCOMPLETE):
        # A cluster that is being created or has failed has no API server to describe its contents.
        state = seen[resource.parent].state
        return ResourceObservation(state if state is ResourceState.ABSENT else ResourceState.UNKNOWN)
    return None


def inspect(resource: InfraResource, seen: Mapping[str, ResourceObservation], run: Run) -> ResourceObservation:
    """Return the state of a resource, and run its `connect` command if it exists.

    Args:
        resource: Resource to inspect.
        seen: Observations of the resources before it, by name.
        run: Function that runs a command.

    Raises:
        CommandError: If the state cannot be determined.
    """
    if known := infer_state(resource, seen):
        return known
    found = state_of(resource, run(resource.describe))
    if found.state is ResourceState.PRESENT:
        connect(resource, run)
    return found


def connect(resource: InfraResource, run: Run) -> None:
    """Run the `connect` command of a resource, which gives access to its contents.

    Raises:
        CommandError: If the command fails.
    """
    if resource.connect and not (answer := run(resource.connect)).succeeded:
        raise failure(resource.name, resource.connect, answer)


# Changes of IAM policies take 2 to 7 minutes to propagate:
# https://cloud.google.com/iam/docs/access-change-propagation
_MAX_ATTEMPTS, _PAUSE_SECONDS = 42, 10
# 30 minutes; the creation of a cluster takes 10.
_MAX_POLLS = 180

Report = Callable[[str], None]
Sleep = Callable[[float], None]


@dataclasses.dataclass(frozen=True)
class ResourceStatus:
    """Resource and its state."""

    resource: InfraResource
    state: ResourceState


def inspect_all(table: Sequence[InfraResource], run: Run) -> Iterator[ResourceStatus]:
    """Inspect the resources in order and yield their states.

    Yields:
        Each resource with its state.

    Raises:
        CommandError: If a state cannot be determined.
    """
    seen: dict[str, ResourceObservation] = {}
    for resource in table:
        seen[resource.name] = inspect(resource, seen, run)
        yield ResourceStatus(resource, seen[resource.name].state)


def create_missing(table: Sequence[InfraResource], run: Run, report: Report, sleep: Sleep) -> None:
    """Create all absent or incomplete resources in the order of the table.

    Args:
        table: Resources.
        run: Function that runs a command.
        report: Function that prints a line of progress.
        sleep: Function that sleeps for a number of seconds.

    Raises:
        CommandError: If a command fails. The remaining resources are not created.
        ConfigError: If the project does not exist.
    """
    seen: dict[str, ResourceObservation] = {}
    for resource in table:
        found = _inspect_until_stable(resource, seen, run, report, sleep)
        if found.state is ResourceState.PRESENT:
            report(f"present   {resource.name}")
        else:
            _check_creatable(resource, found.state)
            report(f"creating  {resource.name}: {resource.description}")
            for argv in resource.create:
                _retrying(sleep)(_run, resource, argv, run)
            found = ResourceObservation(ResourceState.PRESENT, frozenset(resource.expected))
            connect(resource, run)
        seen[resource.name] = found


def deletion_plan(found: Sequence[ResourceStatus], with_data: bool) -> list[InfraResource]:
    """Return the resources with delete commands to run, in reverse order of creation."""
    return [
        each.resource
        for each in reversed(found)
        if each.state not in (ResourceState.ABSENT, ResourceState.UNKNOWN)
        and each.resource.delete
        and (with_data or not each.resource.is_data)
    ]


def check_deletable(found: Sequence[ResourceStatus]) -> None:
    """Raise CommandError while Google is creating or deleting a resource.

    Raises:
        CommandError: If the state of a resource is changing.
    """
    for each in found:
        if each.state is ResourceState.CHANGING:
            raise _changing(each.resource)


def delete(resources: Sequence[InfraResource], run: Run, report: Report) -> None:
    """Delete resources in the given order, and skip those that no longer exist.

    Args:
        resources: Resources to delete.
        run: Function that runs a command.
        report: Function that prints a line of progress.

    Raises:
        CommandError: If a command fails. The remaining resources are not deleted.
    """
    for resource in resources:
        report(f"deleting  {resource.name}")
        for argv in resource.delete:
            answer = run(argv)
            if not answer.succeeded and not is_not_found(answer):
                raise failure(resource.name, argv, answer)


def _inspect_until_stable(
    resource: InfraResource, seen: Mapping[str, ResourceObservation], run: Run, report: Report, sleep: Sleep
) -> ResourceObservation:
    """Return the state of a resource after pending operations of Google have finished.

    If a creation is interrupted locally, it continues in Google Cloud.
    """
    # A newly enabled API still returns SERVICE_DISABLED. The project is inspected before any API is enabled.
    found = _retrying(sleep)(inspect, resource, seen, run) if resource.api else inspect(resource, seen, run)
    if found.state is not ResourceState.CHANGING:
        return found
    report(f"waiting   {resource.name}: Google is creating or deleting it")
    poll = Retrying(
        retry=retry_if_result(_is_changing),
        wait=wait_fixed(_PAUSE_SECONDS),
        stop=stop_after_attempt(_MAX_POLLS),
        sleep=sleep,
        retry_error_callback=_last_result,
    )
    return poll(inspect, resource, seen, run)


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
            f"{resource.name}: the creation failed in Google Cloud; run destroy, then apply. Given: {state.value}"
        )
    if not resource.create:
        raise ConfigError(
            f"{resource.name}: must exist ({resource.description}). Given: {', '.join(resource.expected)}"
        )


def _changing(resource: InfraResource) -> CommandError:
    return CommandError(
        f"{resource.name}: Google is creating or deleting it; wait until it has finished, then run the command again. "
        f"Given: {ResourceState.CHANGING.value}"
    )


def _run(resource: InfraResource, argv: Argv, run: Run) -> None:
    answer = run(argv)
    if not answer.succeeded:
        raise failure(resource.name, argv, answer)


def _retrying(sleep: Sleep) -> Retrying:
    """Return a retry policy for new resources that are not yet visible."""
    return Retrying(
        retry=retry_if_exception_type(NotReadyError),
        wait=wait_fixed(_PAUSE_SECONDS),
        stop=stop_after_attempt(_MAX_ATTEMPTS),
        sleep=sleep,
        reraise=True,
    )
