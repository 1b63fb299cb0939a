"""Creation and deletion in a fake cloud, with interruptions and errors after each command."""

import copy
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from infra.commands import Argv, CommandError, CommandResult, InfraResource, Run
from infra.steps import ResourceState, check_deletable, create_missing, delete, deletion_plan, inspect_all
from qcnn.errors import ConfigError
from tests.infra.fake_cloud import FakeCloud

Table = tuple[InfraResource, ...]
_DISABLED = "ERROR: (gcloud.artifacts.repositories.create) PERMISSION_DENIED: SERVICE_DISABLED"


def _in(cloud: FakeCloud, stop: Callable[[Argv], bool] = lambda _: False) -> Run:
    """Return a function that runs commands in a cloud, with Ctrl-C after those that `stop` selects."""

    def run(argv: Argv) -> CommandResult:
        code, output, errors = cloud.answer(argv)
        if stop(argv):
            raise KeyboardInterrupt
        return CommandResult(code == 0, output, errors)

    return run


def _apply(table: Table, run: Run) -> list[str]:
    lines: list[str] = []
    create_missing(table, run, lines.append, _no_sleep)
    return lines


def _destroy(table: Table, cloud: FakeCloud, run: Run, with_data: bool = False) -> list[str]:
    lines: list[str] = []
    found = list(inspect_all(table, _in(cloud)))
    check_deletable(found)
    delete(deletion_plan(found, with_data), run, lines.append)
    return lines


def _no_sleep(_: float) -> None:
    pytest.fail("unexpected sleep")


def _states(table: Table, cloud: FakeCloud) -> dict[str, ResourceState]:
    return {found.resource.name: found.state for found in inspect_all(table, _in(cloud))}


@pytest.fixture
def created(table: Table, cloud: FakeCloud) -> FakeCloud:
    """Cloud with all resources."""
    _apply(table, _in(cloud))
    return cloud


def test_second_apply_creates_nothing(table: Table, created: FakeCloud) -> None:
    before = copy.deepcopy(created.state)
    assert set(_states(table, created).values()) == {ResourceState.PRESENT}
    assert all(line.startswith("present ") for line in _apply(table, _in(created)))
    assert created.state == before


def test_inspect_skips_resources_of_disabled_apis(table: Table, cloud: FakeCloud) -> None:
    commands: list[Argv] = []

    def run(argv: Argv) -> CommandResult:
        commands.append(argv)
        return _in(cloud)(argv)

    states = {found.resource.name: found.state for found in inspect_all(table, run)}
    assert [argv[1] for argv in commands] == ["projects", "services"]
    assert states.pop("project") is ResourceState.PRESENT
    assert states.pop("apis") is ResourceState.ABSENT
    assert set(states.values()) == {ResourceState.UNKNOWN}


def _creating(table: Table) -> list[Argv]:
    return [argv for resource in table for argv in resource.create]


def test_interrupted_apply_continues(table: Table, created: FakeCloud, tmp_path: Path) -> None:
    whole = created.state
    for last in _creating(table):
        stopped = FakeCloud(tmp_path / "another.json")
        with pytest.raises(KeyboardInterrupt):
            _apply(table, _in(stopped, last.__eq__))
        _apply(table, _in(stopped))
        assert stopped.things == whole["things"]
        assert stopped.state["members"] == whole["members"]
        # Existing resources are not created again, except one that takes several commands.
        again = len(stopped.state["created"]) - len({*stopped.state["created"]})
        assert again <= ("wait" in last)


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ("ERROR: (gcloud.x) PERMISSION_DENIED: Permission denied on resource (or it may not exist).", "may not exist"),
        ("ERROR: (gcloud.x) You do not currently have an active account selected.", "active account"),
        ("ERROR: gcloud crashed (TransportError): HTTPSConnectionPool: Max retries exceeded", "Max retries"),
        ("ERROR: (gcloud.x) ResponseError: code=503, message=NOT_FOUND, not found: 404.", "code=503"),
        (
            "ERROR: (gcloud.container.clusters.describe) ResponseError: code=404, message=Not found.\n"
            "Could not find [qcnn] in [us-central1-a].\nDid you mean [qcnn] in [us-central1-b]?",
            "code=404",
        ),
        ("Error from server (NotFound): the server could not find the requested resource", "requested resource"),
        ("", "no error output"),
    ],
)
@pytest.mark.parametrize(
    "described",
    ["artifacts repositories describe", "container clusters describe", "projects get-iam-policy", "namespace/kubeflow"],
)
def test_failed_describe_is_not_absent(
    described: str, message: str, reason: str, table: Table, created: FakeCloud
) -> None:
    created.state["errors"][described] = message
    before = copy.deepcopy(created.state)
    acts: list[Callable[[], object]] = [
        lambda: _apply(table, _in(created)),
        lambda: _destroy(table, created, _in(created)),
    ]
    for act in acts:
        with pytest.raises(CommandError, match=re.escape(reason)) as error:
            act()
        assert "\n" not in str(error.value)
        assert created.state == before


def test_failed_create_stops_apply(table: Table, cloud: FakeCloud) -> None:
    cloud.state["errors"]["clusters create"] = (
        "Creating cluster qcnn...\nERROR: (gcloud.container.clusters.create) ResponseError: code=403, message=No quota."
    )
    with pytest.raises(
        CommandError, match=r"^cluster: gcloud failed \(ERROR: .*No quota\.\)\. Given: gcloud container"
    ):
        _apply(table, _in(cloud))
    states = _states(table, cloud)
    order = [resource.name for resource in table]
    assert {states[name] for name in order[: order.index("cluster")]} == {ResourceState.PRESENT}
    assert {states[name] for name in order[order.index("cluster") :]} == {ResourceState.ABSENT}


@pytest.mark.parametrize("verb", ["create", "describe"])
def test_resource_that_is_not_yet_visible_is_retried(verb: str, table: Table, cloud: FakeCloud) -> None:
    cloud.state["errors"][f"repositories {verb}"] = _DISABLED
    pauses: list[float] = []

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            cloud.state["errors"].clear()

    create_missing(table, _in(cloud), lambda _: None, sleep)
    assert pauses == [10, 10, 10]
    assert set(_states(table, cloud).values()) == {ResourceState.PRESENT}


def test_resource_that_never_becomes_visible_fails(table: Table, cloud: FakeCloud) -> None:
    cloud.state["errors"]["repositories create"] = _DISABLED
    pauses: list[float] = []
    with pytest.raises(CommandError, match="SERVICE_DISABLED"):
        create_missing(table, _in(cloud), lambda _: None, pauses.append)
    assert sum(pauses) == pytest.approx(410)


def test_missing_project_is_an_error(table: Table, cloud: FakeCloud) -> None:
    project, *_ = table
    nowhere = CommandResult(True, "", "")
    with pytest.raises(ConfigError, match=r"^project: must exist .*Given: my-project$"):
        create_missing([project], lambda _: nowhere, lambda _: None, _no_sleep)


@pytest.mark.parametrize("status", ["PROVISIONING", "STOPPING"])
def test_changing_cluster_times_out(status: str, table: Table, created: FakeCloud) -> None:
    run = _with_status(created, status)
    pauses: list[float] = []
    with pytest.raises(CommandError, match=r"^cluster: .*wait until it has finished"):
        create_missing(table, run, lambda _: None, pauses.append)
    assert sum(pauses) == pytest.approx(1790)
    with pytest.raises(CommandError, match=r"^cluster: .*wait until it has finished"):
        check_deletable(list(inspect_all(table, run)))


@pytest.mark.parametrize("status", ["PROVISIONING", "STOPPING"])
def test_changing_cluster_is_waited_for(status: str, table: Table, created: FakeCloud) -> None:
    changing, ended = _with_status(created, status), _in(created)
    pauses: list[float] = []

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3 and status == "STOPPING":
            created.answer(["gcloud", "container", "clusters", "delete", "qcnn"])

    lines: list[str] = []
    create_missing(table, lambda argv: (ended if len(pauses) >= 3 else changing)(argv), lines.append, sleep)
    assert pauses == [10, 10, 10]
    assert "waiting   cluster: Google is creating or deleting it" in lines
    assert any(line.startswith("creating  cluster") for line in lines) == (status == "STOPPING")
    assert set(_states(table, created).values()) == {ResourceState.PRESENT}


def test_failed_cluster_can_only_be_deleted(table: Table, created: FakeCloud) -> None:
    run = _with_status(created, "ERROR")
    with pytest.raises(CommandError, match=r"^cluster: .*run destroy, then apply"):
        create_missing(table, run, lambda _: None, _no_sleep)
    found = list(inspect_all(table, run))
    check_deletable(found)
    names = [resource.name for resource in deletion_plan(found, with_data=False)]
    assert "cluster" in names
    # A failed cluster has no API server.
    assert "namespace" not in names


def _with_status(cloud: FakeCloud, status: str) -> Run:
    run = _in(cloud)

    def changed(argv: Argv) -> CommandResult:
        assert argv[0] != "kubectl"
        answer = run(argv)
        if argv[1:4] == ("container", "clusters", "describe"):
            return CommandResult(True, answer.output.replace("RUNNING", status), "")
        return answer

    return changed


def test_destroy_deletes_in_reverse_order_except_bucket(table: Table, created: FakeCloud) -> None:
    lines = _destroy(table, created, _in(created))
    order = [resource.name for resource in table]
    deleted = [line.split(maxsplit=1)[1] for line in lines]
    assert deleted == sorted(deleted, key=order.index, reverse=True)
    assert {"bucket", "apis", "project"}.isdisjoint(deleted)
    left = {name for name, state in _states(table, created).items() if state is not ResourceState.ABSENT}
    assert left == {"project", "apis", "bucket", "bucket lifecycle"}
    # The policies of retained resources have no bindings of deleted accounts.
    assert created.state["members"] == []
    assert _destroy(table, created, _in(created)) == []


def test_destroy_with_data_deletes_bucket(table: Table, created: FakeCloud) -> None:
    _destroy(table, created, _in(created))
    assert _destroy(table, created, _in(created), with_data=True) == ["deleting  bucket"]
    assert created.things.keys() == {"services", "my-project"}


def test_apply_after_destroy_restores_resources(table: Table, created: FakeCloud) -> None:
    whole = copy.deepcopy(created.things)
    _destroy(table, created, _in(created))
    _apply(table, _in(created))
    assert created.things == whole


def test_interrupted_destroy_continues(table: Table, created: FakeCloud) -> None:
    whole = copy.deepcopy(created.state)
    for last in _deleting(deletion_plan(list(inspect_all(table, _in(created))), with_data=True)):
        created.state = copy.deepcopy(whole)
        with pytest.raises(KeyboardInterrupt):
            _destroy(table, created, _in(created, last.__eq__), with_data=True)
        _destroy(table, created, _in(created), with_data=True)
        assert created.things.keys() == {"services", "my-project"}
        assert len(created.state["deleted"]) == len({*created.state["deleted"]})


def _deleting(resources: Sequence[InfraResource]) -> list[Argv]:
    return [argv for resource in resources for argv in resource.delete]


def test_missing_cluster_gets_no_kubectl_commands(table: Table, created: FakeCloud) -> None:
    del created.things["cluster qcnn"]

    def run(argv: Argv) -> CommandResult:
        assert argv[0] != "kubectl"
        return _in(created)(argv)

    found = list(inspect_all(table, run))
    assert {each.state for each in found if each.resource.parent == "cluster"} == {ResourceState.ABSENT}
    delete(deletion_plan(found, with_data=False), run, lambda _: None)


def test_delete_skips_missing_resources(table: Table, created: FakeCloud) -> None:
    found = list(inspect_all(table, _in(created)))
    del created.things["qcnn"]
    created.state["members"] = [each for each in created.state["members"] if each[0] != "qcnn"]
    delete(deletion_plan(found, with_data=False), _in(created), lambda _: None)
    assert "cluster qcnn" not in created.things


def test_apply_completes_incomplete_resources(table: Table, created: FakeCloud) -> None:
    created.things["objects"].pop("deployment.apps/ml-pipeline")
    assert _states(table, created)["pipelines"] is ResourceState.INCOMPLETE
    assert "creating  pipelines: Kubeflow Pipelines 2.17.0, single-user" in _apply(table, _in(created))
    assert _states(table, created)["pipelines"] is ResourceState.PRESENT
