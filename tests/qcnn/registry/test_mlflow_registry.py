"""Registry on a real MLflow server, as users and MLflow's own client see it."""

import contextlib
import json
import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

import qcnn
from qcnn.cli.output import NOT_PROMOTED
from qcnn.errors import ArtifactError, ConfigError, WriteError
from qcnn.registry import mlflow_registry
from qcnn.registry.address import open_registry
from qcnn.registry.gate import promote
from qcnn.registry.mlflow_registry import MlflowRegistry
from qcnn.registry.registration import register
from qcnn.serving.repository import open_repository
from qcnn.serving.versions import VersionPolicy
from qcnn.storage.store import UnreachableError
from tests.mlflow_server import free_port, mlflow_server, silent_server
from tests.qcnn.cli.conftest import Typed
from tests.qcnn.registry.described import promoted_versions, served_value, version_states
from tests.qcnn.registry.models import BEST, write_run
from tests.qcnn.registry.simultaneous import assert_one_promotion_wins, register_at_once
from tests.qcnn.serving.server_process import running_server

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with mlflow_server(tmp_path_factory.mktemp("mlflow")) as url:
        yield url


@pytest.fixture
def client(server: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """MLflow's own client."""
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    from mlflow import MlflowClient

    return MlflowClient(server, server)


@pytest.fixture
def name(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Name of a model of this test, whose working folder is new."""
    monkeypatch.chdir(tmp_path)
    return str(request.node.originalname)


@contextlib.contextmanager
def _opened(server: str) -> Iterator[MlflowRegistry]:
    with contextlib.closing(open_registry(f"mlflow:{server}")) as registry:
        assert isinstance(registry, MlflowRegistry)
        yield registry


def _runs(client: Any, name: str) -> list[Any]:
    """Return the runs of registrations of a model that are not deleted."""
    (experiment,) = client.search_experiments(filter_string="name = 'qcnn'")
    found = client.search_runs([experiment.experiment_id], f"attributes.run_name = 'register {name}'")
    return [*found]


def test_versions_are_stored_with_records_and_aliases(server: str, client: Any, name: str, tmp_path: Path) -> None:
    runs = [write_run(tmp_path / "a", BEST), write_run(tmp_path / "b", 0.5, metrics={"loss": 0.25})]
    before = dict(os.environ)
    with _opened(server) as registry:
        assert (registry.versions(name), registry.labels(name).versions, registry.promotions(name)) == ([], {}, [])
        for run in (*runs, runs[0]):
            register(registry, str(run.folder), name)
        assert promote(registry, name, "stable", 1).outcome == "first"
        assert promote(registry, name, "canary", 2).outcome == "first"
        assert name in registry.names()
        first, second = registry.versions(name)
        assert first.record
        assert second.record
        assert (first.number, second.number, first.problem, second.problem) == (1, 2, "", "")
        assert first.record.source == str(runs[0].folder.absolute())
        assert first.record.provenance == {"commit": "0" * 40, "seed": "0"}
        assert second.record.metrics == {"epochs": 1, "val_loss": 0.625, "loss": 0.25, "accuracy": 0.75}
        assert registry.labels(name).versions == {"stable": 1, "canary": 2}
        assert [(each.label, each.version) for each in registry.promotions(name)] == [("stable", 1), ("canary", 2)]
        with registry.open(name, 2) as folder:
            for file in ("model.json", "saved_model/saved_model.pb"):
                assert (folder / file).read_bytes() == (runs[1].model / file).read_bytes()
            assert (folder / "rows.npz").exists()
            # A copy of a registered version is the same model.
            assert register(registry, str(folder), name).version == 2
    # As MLflow's client sees it.
    assert {each.data.metrics["loss"] for each in _runs(client, name)} == {0.5, 0.25}
    assert {each.info.status for each in _runs(client, name)} == {"FINISHED"}
    assert client.get_model_version_by_alias(name, "canary").version == "2"
    assert not [key for key in client.get_registered_model(name).tags if key.startswith("qcnn.moving")]
    assert dict(os.environ) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]


def test_mlflow_loads_registered_model(server: str, name: str, tmp_path: Path) -> None:
    run = write_run(tmp_path / "a", BEST)
    with _opened(server) as registry:
        register(registry, str(run.folder), name)
        promote(registry, name)
    program = (
        "import sys, mlflow, pandas as pd\n"
        "rows = pd.DataFrame({'qubit': [0, 3], 'angle': [0.1, -2.0]})\n"
        "print(mlflow.pyfunc.load_model(sys.argv[1]).predict(rows)['prediction'].tolist())"
    )
    environment = {**os.environ, "MLFLOW_TRACKING_URI": server}
    command = [sys.executable, "-c", program, f"models:/{name}@champion"]
    loaded = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    expected = qcnn.load(run.model).predict(qubit=[0, 3], angle=[0.1, -2.0])
    assert json.loads(loaded.stdout) == expected.tolist()


def test_model_is_served_promoted_and_rolled_back(
    server: str, client: Any, name: str, tmp_path: Path, typed: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = f"mlflow:{server}"
    monkeypatch.setenv("QCNN_REGISTRY", address)
    runs = [str(write_run(tmp_path / each, factor).folder) for each, factor in {"a": 0.5, "b": BEST}.items()]
    assert typed("register", runs[0], "--name", name)[:2] == (0, f"{name}: version 1 is registered\n")
    assert typed("register", runs[0], "--name", name)[:2] == (0, f"{name}: version 1 is registered already\n")
    assert typed("promote", name)[:2] == (0, f"{name}: champion is version 1, the first one\n")

    with running_server(f"{name}@champion", "--poll-seconds", "0.1") as served, served.client() as http:
        assert served_value(http, name) == 0.5
        typed("register", runs[1], "--name", name)
        code, text, _ = typed("promote", name)
        assert code == 0
        assert text.startswith(f"{name}: champion moves from version 1 to 2: loss 0.")
        served.read_until("labels {'champion': 2}")
        assert served_value(http, name) == pytest.approx(BEST, abs=1e-12)
        code, text, _ = typed("promote", name, "--version", "1")
        assert code == NOT_PROMOTED
        # MLflow's UI moves an alias by the same request.
        client.set_registered_model_alias(name, "champion", "1")
        served.read_until("labels {'champion': 1}")
        assert served_value(http, name) == 0.5
        assert qcnn.load(f"{name}@champion").predict(qubit=[0], angle=[0.0])[0] == 0.5
        typed("promote", name, "--version", "2")
        served.read_until("labels {'champion': 2}")
        code, text, _ = typed("promote", name, "--version", "1", "--force")
        assert text.startswith(f"{name}: champion moves from version 2 to 1 by force: loss 0.")
        served.read_until("labels {'champion': 1}")
        assert served_value(http, name) == 0.5
        code, _ = served.stop()
        assert code == 0
    described = json.loads(typed("models", name, "--format", "json")[1])
    assert version_states(described) == [(1, ["champion"], "complete"), (2, [], "complete")]
    assert promoted_versions(described) == [
        (None, 1, False),
        (1, 2, False),
        (1, 2, False),
        (2, 1, True),
    ]
    rows = tmp_path / "rows.csv"
    rows.write_text("qubit,angle\n0,0\n")
    code, text, _ = typed("predict", f"{name}@1", "--data", str(rows), "--registry", address)
    assert (code, text.splitlines()[-1]) == (0, "0,0,0.5")


def test_registrations_at_the_same_time_give_one_version_each(
    server: str, client: Any, name: str, tmp_path: Path
) -> None:
    runs = [write_run(tmp_path / each, factor) for each, factor in {"a": 0.5, "b": 1.0}.items()]
    found = register_at_once(lambda: _opened(server), runs * 2, name)
    assert len(found) == 4
    assert len(set(found)) == len({number for _, number in found}) == 2
    with _opened(server) as registry:
        assert [(each.number, each.problem) for each in registry.versions(name)] == sorted(
            (number, "") for number in {number for _, number in found}
        )
    assert len(_runs(client, name)) == 2


def test_promotions_at_the_same_time_have_one_winner(
    server: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert_one_promotion_wins(lambda: _opened(server), name, tmp_path, monkeypatch)


def test_move_by_another_client_is_detected(
    server: str, client: Any, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with _opened(server) as registry:
        for each, factor in {"a": 0.5, "b": 1.0}.items():
            register(registry, str(write_run(tmp_path / each, factor).folder), name)
        original = registry._client.set_registered_model_alias

        def and_another(name: str, alias: str, version: str) -> None:
            original(name, alias, version)
            client.set_registered_model_alias(name, alias, "1")

        monkeypatch.setattr(registry._client, "set_registered_model_alias", and_another)
        with pytest.raises(WriteError, match=r"^label: champion of \w+ was moved by another process to version 1;"):
            promote(registry, name, version=2)
        assert registry.promotions(name) == []


def test_promotion_waits_while_another_moves_the_label(
    server: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other promotion begins between the last check and the write of the first one."""
    monkeypatch.setattr(mlflow_registry, "_MAX_TRIES", 2)
    lines = list[str]()
    with _opened(server) as registry, _opened(server) as other:
        for each, factor in {"a": 0.5, "b": 1.0}.items():
            register(registry, str(write_run(tmp_path / each, factor).folder), name)
        original = registry._client.set_registered_model_alias

        def after_another(name: str, alias: str, version: str) -> None:
            with pytest.raises(WriteError) as error:
                promote(other, name, version=2)
            lines.append(str(error.value))
            original(name, alias, version)

        monkeypatch.setattr(registry._client, "set_registered_model_alias", after_another)
        assert promote(registry, name, version=1).outcome == "first"
        assert lines == [f"label: must not be moved by other processes all the time. Given: champion of {name}"]
        assert promote(other, name, version=2).previous == 1
        assert [each.version for each in registry.promotions(name)] == [1, 2]


def test_claim_of_killed_process_ends(
    server: str, client: Any, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with _opened(server) as registry:
        register(registry, str(write_run(tmp_path / "a", 0.5).folder), name)
        client.set_registered_model_tag(name, "qcnn.moving.champion.0", "")
        monkeypatch.setattr(mlflow_registry, "_MAX_TRIES", 2)
        with pytest.raises(WriteError, match=r"^label: must not be moved by other processes all the time\."):
            promote(registry, name)
        assert [*registry.labels(name).versions, *registry.promotions(name)] == []
        monkeypatch.setattr(mlflow_registry, "_CLAIM_SECONDS", 0.0)
        monkeypatch.setattr(mlflow_registry, "_MAX_TRIES", 3)
        assert promote(registry, name).outcome == "first"


def test_version_of_other_tools_cannot_be_promoted(server: str, client: Any, name: str, tmp_path: Path) -> None:
    client.create_registered_model(name)
    client.create_model_version(name, "s3://bucket/model")
    with _opened(server) as registry:
        assert name not in registry.names()
        with pytest.raises(ArtifactError, match=r"Given: 1 \(not registered by qcnn register\)$"):
            promote(registry, name)
        assert register(registry, str(write_run(tmp_path / "a", 0.5).folder), name).version == 2
        # An alias with a name that is no label.
        client.set_registered_model_alias(name, "_hidden", "1")
        assert promote(registry, name).version == 2
        assert (name in registry.names(), registry.labels(name).versions) == (True, {"champion": 2})
        for label in ("latest", "V3", "a.b"):
            with pytest.raises(ConfigError, match=r"^label: must be letters, digits, dashes and underscores, and"):
                promote(registry, name, label)


def test_interrupted_registration_leaves_no_run(
    server: str, client: Any, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = write_run(tmp_path / "a", 0.5)
    with _opened(server) as registry:
        with monkeypatch.context() as interrupted:
            interrupted.setattr(registry._client, "log_batch", _interrupt)
            with pytest.raises(KeyboardInterrupt):
                register(registry, str(run.folder), name)
        assert registry.versions(name) == []
        assert _runs(client, name) == []
        assert register(registry, str(run.folder), name).version == 1


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def test_secrets_of_address_are_stored_nowhere(
    server: str, client: Any, name: str, tmp_path: Path, typed: Typed
) -> None:
    address = f"mlflow:{server.replace('http://', 'http://planted:pl%40nted@')}"
    run = write_run(tmp_path / "a", 0.5)
    commands = [
        ("register", str(run.folder), "--name", name),
        ("promote", name),
        ("models", name),
        ("models", "absent"),
    ]
    outputs = [typed(*command, "--registry", address) for command in commands]
    assert [code for code, _, _ in outputs] == [0, 0, 0, 2]
    assert outputs[0][1] == f"{name}: version 1 is registered\n"
    with _opened(server.replace("http://", "http://planted:pl%40nted@")) as registry:
        source = registry.source(name, VersionPolicy(label="champion"))
        (version,) = client.search_model_versions(f"name = '{name}'")
        (tracked,) = _runs(client, name)
        for text in (str(outputs), repr(source), str(dict(version)), str(tracked.to_dictionary()), registry.address):
            assert "planted" not in text
            assert "pl%40nted" not in text


def test_version_whose_files_are_missing_is_one_line(
    server: str, client: Any, name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with _opened(server) as registry:
        for each, factor in {"a": 0.5, "b": 1.0}.items():
            register(registry, str(write_run(tmp_path / each, factor).folder), name)
        promote(registry, name, version=1)
        # Each process of a server has the source.
        source = pickle.loads(pickle.dumps(registry.source(name, VersionPolicy(label="champion"))))
        failures = list[str]()
        with open_repository({name: source}, 3600, failures.append, trust=False) as repository:
            model = repository.models[name]
            assert (model.versions, model.labels) == ([1], {"champion": 1})
            (second,) = [each for each in client.search_model_versions(f"name = '{name}'") if each.version == "2"]
            run = client.get_run(second.run_id)
            _delete_artifacts(server, run.info.artifact_uri)
            client.set_registered_model_alias(name, "champion", "2")
            caplog.clear()
            for _ in range(2):
                repository.poll()
                # The present version stays.
                assert (model.versions, model.labels) == ([1], {"champion": 1})
            (line,) = [each.getMessage() for each in caplog.records if each.name == "qcnn"]
            assert line.startswith(
                f"model {name}: version: version 2 of {name} must have the model that was registered."
            )
        with pytest.raises((ArtifactError, ConfigError, UnreachableError)) as error, registry.open(name, 2):
            pass
        assert "\n" not in str(error.value)


def _delete_artifacts(server: str, uri: str) -> None:
    path = uri.removeprefix("mlflow-artifacts:/")
    folder = f"{server}/api/2.0/mlflow-artifacts/artifacts/{path}/model/data/version"
    assert httpx.delete(f"{folder}/model.json").status_code == httpx.codes.OK


@pytest.mark.parametrize("arguments", [("models",), ("promote", "a"), ("serve", "a@champion"), ("predict", "a@1")])
def test_server_that_is_away_is_one_line(typed: Typed, arguments: tuple[str, ...]) -> None:
    port = free_port()
    more = ("--data", "rows.csv") if arguments[0] == "predict" else ()
    address = f"mlflow:http://planted:pl%40nted@127.0.0.1:{port}?token=planted"
    code, output, errors = typed(*arguments, *more, "--registry", address)
    line = f"error: registry: the connection is refused. Given: mlflow:http://***@127.0.0.1:{port}\n"
    assert (code, output, errors) == (2, "", line)


def test_server_that_does_not_respond_is_one_line(typed: Typed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "1")
    with silent_server() as url:
        code, _, errors = typed("models", "--registry", f"mlflow:{url}")
    assert (code, errors) == (2, f"error: registry: no response in 1 s. Given: mlflow:{url}\n")
