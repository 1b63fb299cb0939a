"""What commands rely on, asked of the backend that keeps what it is sent and of the real one at KFP_HOST alike."""

import dataclasses
import os
import secrets
from collections.abc import Callable, Iterator
from typing import Any

import kfp
import kfp_server_api
import pytest
from kfp import compiler, dsl

from qcnn.targets.errors import BackendError
from qcnn.targets.kubeflow.client import KfpConnection, connect
from qcnn.targets.kubeflow.runs import find_experiment, find_run, find_schedule
from tests.backend import fake_backend

# As an id is formed.
UNKNOWN = "3f2a9c1e-7d54-4c0b-9d7a-52f1a1c7b1ce"


@dataclasses.dataclass(frozen=True)
class Place:
    """A backend, an experiment in it, and a compiled pipeline whose image is nowhere."""

    client: kfp.Client
    backend: KfpConnection
    experiment: str
    package: str

    def run(self, name: str, arguments: dict[str, Any]) -> str:
        """Submit a run, and return its id."""
        run = self.client.create_run_from_pipeline_package(
            self.package, arguments=arguments, run_name=name, experiment_name=self.experiment
        )
        return str(run.run_id)


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> str:
    @dsl.component(base_image="qcnn-test/nowhere:1", install_kfp_package=False)
    def nothing() -> None:
        pass

    @dsl.pipeline(name="contract")
    def contract(
        count: int,
        rate: float = 0.5,
        text: str = "a",
        flag: bool = False,
        # Kubeflow knows them bare.
        words: dict = {},  # type: ignore[type-arg]  # noqa: B006
        many: list = [],  # type: ignore[type-arg]  # noqa: B006
    ) -> None:
        nothing()

    path = tmp_path_factory.mktemp("compiled") / "contract.yaml"
    compiler.Compiler().compile(contract, str(path))
    return str(path)


@pytest.fixture(params=["memory", pytest.param("real", marks=pytest.mark.kfp)])
def place(request: pytest.FixtureRequest, package: str) -> Iterator[Place]:
    experiment = f"qcnn-test-{secrets.token_hex(4)}"
    if request.param == "memory":
        with fake_backend() as fake:
            client = connect(backend := KfpConnection(host=fake.host))
            client.create_experiment(experiment)
            yield Place(client, backend, experiment, package)
        return
    if not (host := os.environ.get("KFP_HOST")):
        pytest.skip("KFP_HOST is not set: no backend")
    client = connect(backend := KfpConnection(host=host))
    identity = client.create_experiment(experiment).experiment_id
    try:
        yield Place(client, backend, experiment, package)
    finally:
        for run in client.list_runs(experiment_id=identity).runs or ():
            client.delete_run(run.run_id)
        for schedule in client.list_recurring_runs(experiment_id=identity).recurring_runs or ():
            client.delete_recurring_run(schedule.recurring_run_id)
        client.delete_experiment(identity)


def _status(refused: Callable[[], object]) -> int:
    with pytest.raises(kfp_server_api.ApiException) as error:
        refused()
    return int(error.value.status)


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"count": "3"},
        {"count": True},
        {"count": 3, "rate": "fast"},
        {"count": 3, "text": 1},
        {"count": 3, "flag": "True"},
        {"count": 3, "words": "{}"},
        {"count": 3, "many": {}},
        {"count": 3, "unknown": 1},
    ],
    ids=str,
)
def test_a_run_with_parameters_that_the_pipeline_does_not_take_is_refused(
    place: Place, arguments: dict[str, Any]
) -> None:
    assert _status(lambda: place.run("refused", arguments)) == 400
    with pytest.raises(BackendError, match=r"^run: the backend at .* has none of this ID or name\. Given: refused$"):
        find_run(place.client, place.backend, "refused")


def test_a_run_is_found_told_to_end_and_deleted(place: Place) -> None:
    arguments = {"count": 3, "rate": 1, "text": "b", "flag": True, "words": {"a": [1]}, "many": [1]}
    # In a backend that others use, too, nothing else has this name.
    run = place.run(name := f"found-{place.experiment}", arguments)
    for known in (run, name):
        found = find_run(place.client, place.backend, known)
        assert (found.run_id, found.display_name) == (run, name)
        assert found.runtime_config.parameters == arguments
    identity = find_experiment(place.client, place.backend, place.experiment).experiment_id
    assert found.experiment_id == identity
    assert [each.run_id for each in place.client.list_runs(experiment_id=identity).runs] == [run]
    place.client.terminate_run(run)
    # A real one may have ended by now.
    assert place.client.get_run(run).state in ("CANCELING", "FAILED")
    place.client.delete_run(run)
    assert _status(lambda: place.client.get_run(run)) == 404


def test_what_is_not_there_is_not_found_by_any_method(place: Place) -> None:
    client = place.client
    for ask in (client.get_run, client.terminate_run, client.delete_run):
        assert _status(lambda ask=ask: ask(UNKNOWN)) == 404  # type: ignore[misc]
    for ask in (client.get_recurring_run, client.enable_recurring_run, client.delete_recurring_run):
        assert _status(lambda ask=ask: ask(UNKNOWN)) == 404  # type: ignore[misc]


def test_a_schedule_is_switched_on_and_off_and_deleted(place: Place) -> None:
    client = place.client
    identity = find_experiment(client, place.backend, place.experiment).experiment_id
    made = client.create_recurring_run(
        identity,
        job_name=(name := f"scheduled-{place.experiment}"),
        cron_expression="0 0 4 1 1 *",
        pipeline_package_path=place.package,
        params={"count": 3},
        # In the published type, which the client's own default has not.
        max_concurrency="1",
        no_catchup=True,
        enabled=False,
    )
    schedule = made.recurring_run_id
    assert find_schedule(client, place.backend, name).recurring_run_id == schedule
    states = [client.get_recurring_run(schedule).status]
    for switch in (client.enable_recurring_run, client.disable_recurring_run):
        switch(schedule)
        states.append(client.get_recurring_run(schedule).status)
    assert states == ["DISABLED", "ENABLED", "DISABLED"]
    client.delete_recurring_run(schedule)
    assert _status(lambda: client.get_recurring_run(schedule)) == 404
