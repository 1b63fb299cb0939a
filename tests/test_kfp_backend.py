"""Behavior of KFP backends that qcnn relies on, for the local stand-in and the backend at KFP_HOST."""

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
from qcnn.targets.kubeflow.client import KfpBackend, KfpConnection
from qcnn.targets.kubeflow.runs import find_experiment, find_run, find_schedule
from tests.kfp.conftest import Kubeflow
from tests.kfp_backend import fake_backend

# Well-formed ID.
UNKNOWN = "3f2a9c1e-7d54-4c0b-9d7a-52f1a1c7b1ce"


@dataclasses.dataclass(frozen=True)
class Target:
    """KFP backend, with an experiment and a compiled pipeline whose image does not exist."""

    backend: KfpBackend
    experiment: str
    package: str

    @property
    def client(self) -> kfp.Client:
        return self.backend.client

    def run(self, name: str, arguments: dict[str, Any]) -> str:
        """Submit a run and return its ID."""
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
        # KFP supports these types only without arguments.
        mapping: dict = {},  # type: ignore[type-arg]  # noqa: B006
        many: list = [],  # type: ignore[type-arg]  # noqa: B006
    ) -> None:
        nothing()

    path = tmp_path_factory.mktemp("compiled") / "contract.yaml"
    compiler.Compiler().compile(contract, str(path))
    return str(path)


@pytest.fixture(params=["memory", pytest.param("real", marks=pytest.mark.kfp)])
def kfp_target(request: pytest.FixtureRequest, package: str) -> Iterator[Target]:
    experiment = f"qcnn-test-{secrets.token_hex(4)}"
    if request.param == "memory":
        with fake_backend() as fake:
            backend = KfpBackend(KfpConnection(host=fake.host))
            backend.client.create_experiment(experiment)
            yield Target(backend, experiment, package)
        return
    if not (host := os.environ.get("KFP_HOST")):
        pytest.skip("KFP_HOST is not set: no backend")
    backend = KfpBackend(KfpConnection(host=host))
    client = backend.client
    identity = client.create_experiment(experiment).experiment_id
    try:
        yield Target(backend, experiment, package)
    finally:
        for run in client.list_runs(experiment_id=identity).runs or ():
            client.delete_run(run.run_id)
        for schedule in client.list_recurring_runs(experiment_id=identity).recurring_runs or ():
            client.delete_recurring_run(schedule.recurring_run_id)
        client.delete_experiment(identity)


def _status(request: Callable[[], object]) -> int:
    with pytest.raises(kfp_server_api.ApiException) as error:
        request()
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
        {"count": 3, "mapping": "{}"},
        {"count": 3, "many": {}},
        {"count": 3, "unknown": 1},
    ],
    ids=str,
)
def test_submit_run_invalid_parameters_are_rejected(kfp_target: Target, arguments: dict[str, Any]) -> None:
    # The name is unique on a shared backend.
    name = f"rejected-{kfp_target.experiment}"
    assert _status(lambda: kfp_target.run(name, arguments)) == 400
    with pytest.raises(BackendError, match=rf"^run: the backend at .* has none of this ID or name\. Given: {name}$"):
        find_run(kfp_target.backend, name)


def test_run_can_be_found_terminated_and_deleted(kfp_target: Target) -> None:
    arguments = {"count": 3, "rate": 1, "text": "b", "flag": True, "mapping": {"a": [1]}, "many": [1]}
    # The name is unique on a shared backend.
    run = kfp_target.run(name := f"found-{kfp_target.experiment}", arguments)
    for known in (run, name):
        found = find_run(kfp_target.backend, known)
        assert (found.run_id, found.display_name) == (run, name)
        assert found.runtime_config.parameters == arguments
    identity = find_experiment(kfp_target.backend, kfp_target.experiment).experiment_id
    assert found.experiment_id == identity
    assert [each.run_id for each in kfp_target.client.list_runs(experiment_id=identity).runs] == [run]
    kfp_target.client.terminate_run(run)
    # On a real backend, the run may have failed already.
    assert kfp_target.client.get_run(run).state in ("CANCELING", "FAILED")
    kfp_target.client.delete_run(run)
    assert _status(lambda: kfp_target.client.get_run(run)) == 404


def test_suites_on_one_backend_find_their_own_runs(kfp_target: Target) -> None:
    suites = [
        Kubeflow(kfp_target.backend.address, "", "qcnn:1", "", experiment=f"{kfp_target.experiment}-{number}", seed=0)
        for number in range(2)
    ]
    runs = [kfp_target.run(suite.unique("same"), {"count": 3}) for suite in suites]
    found = [find_run(kfp_target.backend, suite.unique("same")) for suite in suites]
    assert [run.run_id for run in found] == runs


def test_unknown_id_is_not_found(kfp_target: Target) -> None:
    client = kfp_target.client
    for request in (client.get_run, client.terminate_run, client.delete_run):
        assert _status(lambda request=request: request(UNKNOWN)) == 404  # type: ignore[misc]
    for request in (client.get_recurring_run, client.enable_recurring_run, client.delete_recurring_run):
        assert _status(lambda request=request: request(UNKNOWN)) == 404  # type: ignore[misc]


def test_schedule_can_be_enabled_disabled_and_deleted(kfp_target: Target) -> None:
    client = kfp_target.client
    identity = find_experiment(kfp_target.backend, kfp_target.experiment).experiment_id
    made = client.create_recurring_run(
        identity,
        job_name=(name := f"scheduled-{kfp_target.experiment}"),
        cron_expression="0 0 4 1 1 *",
        pipeline_package_path=kfp_target.package,
        params={"count": 3},
        # The published type is str; the client's default is an int.
        max_concurrency="1",
        no_catchup=True,
        enabled=False,
    )
    schedule = made.recurring_run_id
    assert find_schedule(kfp_target.backend, name).recurring_run_id == schedule
    states = [client.get_recurring_run(schedule).status]
    for switch in (client.enable_recurring_run, client.disable_recurring_run):
        switch(schedule)
        states.append(client.get_recurring_run(schedule).status)
    assert states == ["DISABLED", "ENABLED", "DISABLED"]
    client.delete_recurring_run(schedule)
    assert _status(lambda: client.get_recurring_run(schedule)) == 404
