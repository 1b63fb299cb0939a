"""Registry on a real Kubeflow Model Registry, as users and Kubeflow's own client see it."""

import asyncio
import contextlib
import json
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest

import qcnn
from qcnn.cli.output import NOT_PROMOTED
from qcnn.errors import ArtifactError, ConfigError
from qcnn.registry import kubeflow_client
from qcnn.registry.address import open_registry
from qcnn.registry.gate import promote
from qcnn.registry.kubeflow_address import TOKEN_VARIABLE
from qcnn.registry.kubeflow_registry import KubeflowRegistry
from qcnn.registry.registration import register
from qcnn.serving.repository import open_repository
from qcnn.serving.versions import VersionPolicy
from qcnn.storage.store import UnreachableError
from tests.buckets import new_s3_bucket
from tests.model_registry_server import model_registry_server
from tests.qcnn.cli.conftest import Typed
from tests.qcnn.registry.described import promoted_versions, served_value, version_states
from tests.qcnn.registry.models import BEST, write_run
from tests.qcnn.registry.simultaneous import assert_one_promotion_wins, register_at_once, run_in_threads
from tests.qcnn.serving.server_process import running_server

pytestmark = pytest.mark.model_registry

_API = "/api/model_registry/v1alpha3"
# Process that ends before the model artifact of its version exists.
_KILLED = """
import os, signal, sys
from qcnn.registry import kubeflow_client
from qcnn.registry.address import open_registry
from qcnn.registry.registration import register
registry = open_registry(sys.argv[1])
registry._complete = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
register(registry, sys.argv[2], sys.argv[3])
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with model_registry_server(tmp_path_factory.mktemp("model-registry")) as url:
        yield url


@pytest.fixture
def rest(server: str) -> Iterator[httpx.Client]:
    """Client of the REST API, which Kubeflow's UI uses."""
    with httpx.Client(base_url=server + _API, timeout=60) as client:
        yield client


@pytest.fixture
def name(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Name of a model of this test, whose working folder is new."""
    monkeypatch.chdir(tmp_path)
    return str(request.node.originalname)


@contextlib.contextmanager
def _opened(server: str) -> Iterator[KubeflowRegistry]:
    with contextlib.closing(open_registry(f"kubeflow:{server}")) as registry:
        assert isinstance(registry, KubeflowRegistry)
        yield registry


def _model(rest: httpx.Client, name: str) -> dict[str, Any]:
    found = rest.get("/registered_models", params={"filterQuery": f"name = '{name}'"}).json()["items"]
    (model,) = found
    return dict(model)


def _versions(rest: httpx.Client, name: str) -> list[dict[str, Any]]:
    found = rest.get(f"/registered_models/{_model(rest, name)['id']}/versions", params={"orderBy": "ID"}).json()
    return list(found["items"])


def _shown(rest: httpx.Client, name: str) -> dict[str, int]:
    """Return the labels in the custom properties of a registered model."""
    properties = _model(rest, name)["customProperties"]
    return {
        key.removeprefix("qcnn.label."): int(value["int_value"])
        for key, value in properties.items()
        if key.startswith("qcnn.label.")
    }


@contextlib.contextmanager
def _gateway(server: str, answer: Callable[[str, str, dict[str, str]], tuple[int, str] | str | None]) -> Iterator[str]:
    """Context manager that yields the URL of a gateway of the server.

    Args:
        server: URL of the server.
        answer: Function of the method, the path and the headers of a request. It returns a status and a body; or the
            path on the server; or None, if the server gets the request and its response is lost.
    """

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            found = answer(self.command, self.path, dict(self.headers))
            if isinstance(found, tuple):
                status, content = found[0], found[1].encode()
            else:
                headers = {"Content-Type": "application/json"}
                sent = httpx.request(self.command, server + (found or self.path), content=body, headers=headers)
                if found is None:
                    self.close_connection = True
                    return
                status, content = sent.status_code, sent.content
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def do_POST(self) -> None:
            self.do_GET()

        def do_PATCH(self) -> None:
            self.do_GET()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as gateway:
        thread = threading.Thread(target=gateway.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{gateway.server_address[1]}"
        finally:
            gateway.shutdown()
            thread.join()


def test_versions_are_stored_with_records_and_labels(
    server: str, rest: httpx.Client, name: str, tmp_path: Path
) -> None:
    runs = [write_run(tmp_path / "a", BEST), write_run(tmp_path / "b", 0.5, metrics={"loss": 0.25})]
    with _opened(server) as registry:
        assert (registry.versions(name), registry.labels(name).versions, registry.promotions(name)) == ([], {}, [])
        for run in (*runs, runs[0]):
            register(registry, str(run.folder), name)
        # What users write in Kubeflow's UI stays.
        rest.patch(
            f"/registered_models/{_model(rest, name)['id']}",
            json={
                "description": "ring",
                "customProperties": {
                    **_model(rest, name)["customProperties"],
                    "team": _text("blue"),
                },
            },
        )
        assert promote(registry, name, "stable", 1).outcome == "first"
        assert promote(registry, name, "canary.2", 2).outcome == "first"
        assert name in registry.names()
        first, second = registry.versions(name)
        assert first.record
        assert second.record
        assert (first.number, second.number, first.problem, second.problem) == (1, 2, "", "")
        assert first.record.source == str(runs[0].folder.absolute())
        assert first.record.provenance == {"commit": "0" * 40, "seed": "0"}
        assert second.record.metrics == {"epochs": 1, "val_loss": 0.625, "loss": 0.25, "accuracy": 0.75}
        assert registry.labels(name).versions == {"stable": 1, "canary.2": 2}
        moves = [(each.label, each.version) for each in registry.promotions(name)]
        assert moves == [("stable", 1), ("canary.2", 2)]
        with registry.open(name, 2) as folder:
            for file in ("model.json", "saved_model/saved_model.pb"):
                assert (folder / file).read_bytes() == (runs[1].model / file).read_bytes()
            assert (folder / "rows.npz").exists()
            # A copy of a registered version is the same model.
            assert register(registry, str(folder), name).version == 2
    # As Kubeflow's UI sees it.
    model, versions = _model(rest, name), _versions(rest, name)
    assert (model["state"], model["description"]) == ("LIVE", "ring")
    assert model["customProperties"]["team"]["string_value"] == "blue"
    assert _shown(rest, name) == {"stable": 1, "canary.2": 2}
    assert [(each["name"], each["state"]) for each in versions] == [("1", "LIVE"), ("2", "LIVE")]
    properties = versions[1]["customProperties"]
    assert properties["qcnn.metric.loss"] == {"double_value": 0.25, "metadataType": "MetadataDoubleValue"}
    assert properties["qcnn.dataset_digest"]["string_value"] == second.record.dataset_digest
    parameters = {"artifactType": "model-artifact"}
    (artifact,) = rest.get(f"/model_versions/{versions[1]['id']}/artifacts", params=parameters).json()["items"]
    files = tmp_path / "models" / name / second.record.model_sha256
    assert (artifact["uri"], artifact["state"]) == (files.as_uri(), "LIVE")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b", "models"]


def test_client_of_kubeflow_finds_version(server: str, name: str, tmp_path: Path) -> None:
    """The documented client of Kubeflow runs in a separate process, because it changes logging and asyncio."""
    with _opened(server) as registry:
        register(registry, str(write_run(tmp_path / "a", BEST).folder), name)
    program = """
import sys
from model_registry import ModelRegistry
import mr_openapi.rest
request = mr_openapi.rest.RESTClientObject.request
def of_old_server(self, method, url, *arguments, **named):
    return request(self, method, url.replace("/v1/", "/v1alpha3/"), *arguments, **named)
mr_openapi.rest.RESTClientObject.request = of_old_server
registry = ModelRegistry(sys.argv[1], author="test", user_token="none")
version = registry.get_model_version(sys.argv[2], "1")
(artifact,) = registry.async_runner(registry._api.get_model_artifacts(version.id))
print(version.custom_properties["qcnn.metric.loss"], artifact.uri)
"""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program, server, name], capture_output=True, text=True, check=True
    )
    loss, uri = done.stdout.split()
    assert float(loss) == 0.5
    assert uri.startswith((tmp_path / "models" / name).as_uri())


def test_model_is_served_promoted_and_rolled_back(
    server: str, name: str, tmp_path: Path, typed: Typed, monkeypatch: pytest.MonkeyPatch, s3_server: str
) -> None:
    for variable, value in {"ACCESS_KEY_ID": "key", "SECRET_ACCESS_KEY": "secret", "ENDPOINT_URL": s3_server}.items():
        monkeypatch.setenv(f"AWS_{variable}", value)
    monkeypatch.setenv("QCNN_REGISTRY", f"kubeflow:{server}#s3://{new_s3_bucket(s3_server)}/models")
    runs = [str(write_run(tmp_path / each, factor).folder) for each, factor in {"a": 0.5, "b": BEST}.items()]
    assert typed("register", runs[0], "--name", name)[:2] == (0, f"{name}: version 1 is registered\n")
    assert typed("register", runs[0], "--name", name)[:2] == (0, f"{name}: version 1 is registered already\n")
    assert typed("promote", name)[:2] == (0, f"{name}: champion is version 1, the first one\n")
    # Only a registration needs the bucket in the address.
    address = f"kubeflow:{server}"
    arguments = (f"{name}@champion", "--registry", address, "--poll-seconds", "0.1")
    with running_server(*arguments) as served, served.client() as http:
        assert served_value(http, name) == 0.5
        typed("register", runs[1], "--name", name)
        code, text, _ = typed("promote", name)
        assert code == 0
        assert text.startswith(f"{name}: champion moves from version 1 to 2: loss 0.")
        served.read_until("labels {'champion': 2}")
        assert served_value(http, name) == pytest.approx(BEST, abs=1e-12)
        assert typed("promote", name, "--version", "1")[0] == NOT_PROMOTED
        code, text, _ = typed("promote", name, "--version", "1", "--force")
        assert text.startswith(f"{name}: champion moves from version 2 to 1 by force: loss 0.")
        served.read_until("labels {'champion': 1}")
        assert served_value(http, name) == 0.5
        assert qcnn.load(f"{name}@champion").predict(qubit=[0], angle=[0.0])[0] == 0.5
        code, _ = served.stop()
        assert code == 0
    described = json.loads(typed("models", name, "--format", "json")[1])
    assert version_states(described) == [(1, ["champion"], "complete"), (2, [], "complete")]
    assert promoted_versions(described) == [
        (None, 1, False),
        (1, 2, False),
        (2, 1, True),
    ]
    rows = tmp_path / "rows.csv"
    rows.write_text("qubit,angle\n0,0\n")
    code, text, _ = typed("predict", f"{name}@1", "--data", str(rows), "--registry", address)
    assert (code, text.splitlines()[-1]) == (0, "0,0,0.5")
    assert not (tmp_path / "models").exists()


def test_registrations_at_the_same_time_give_one_version_each(
    server: str, rest: httpx.Client, name: str, tmp_path: Path
) -> None:
    runs = [write_run(tmp_path / each, factor) for each, factor in {"a": 0.5, "b": 1.0, "c": 1.1}.items()]
    found = register_at_once(lambda: _opened(server), runs * 3, name)
    # Each of the runs has one version, which all of its registrations return.
    assert len(found) == 9
    assert {number for _, number in found} == {1, 2, 3}
    assert len(set(found)) == 3
    with _opened(server) as registry:
        assert [(each.number, each.problem) for each in registry.versions(name)] == [(1, ""), (2, ""), (3, "")]
    assert len(_versions(rest, name)) == 3


def test_promotions_at_the_same_time_have_one_winner(
    server: str, rest: httpx.Client, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    winner = assert_one_promotion_wins(lambda: _opened(server), name, tmp_path, monkeypatch)
    assert _shown(rest, name) == {"champion": winner}


def test_promotions_of_different_labels_all_succeed(server: str, rest: httpx.Client, name: str, tmp_path: Path) -> None:
    labels, start = [f"label{number}" for number in range(6)], threading.Barrier(6)
    with _opened(server) as registry:
        register(registry, str(write_run(tmp_path / "a", 0.5).folder), name)

    def move(label: str) -> None:
        with _opened(server) as registry:
            start.wait(60)
            promote(registry, name, label)

    run_in_threads(move, labels)
    with _opened(server) as registry:
        assert registry.labels(name).versions == _shown(rest, name) == dict.fromkeys(labels, 1)
        assert sorted(each.label for each in registry.promotions(name)) == labels


def test_killed_registration_is_completed_by_the_next(server: str, name: str, tmp_path: Path) -> None:
    run = write_run(tmp_path / "a", 0.5)
    command = [sys.executable, "-c", _KILLED, f"kubeflow:{server}", str(run.folder), name]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    with _opened(server) as registry:
        assert [each.problem for each in registry.versions(name)] == ["incomplete"]
        with pytest.raises(ArtifactError, match=r"^version: must be a complete one of \w+: none\. Given: 1 \(incom"):
            promote(registry, name)
        with pytest.raises(ArtifactError, match=r"^version: must be a complete one of \w+\. Given: 1$"):
            registry.open(name, 1).__enter__()
        assert register(registry, str(write_run(tmp_path / "b", 1.0).folder), name).version == 2
        result = register(registry, str(run.folder), name)
        assert (result.version, result.is_new) == (1, True)
        assert [each.problem for each in registry.versions(name)] == ["", ""]


def test_archived_model_and_version_cannot_be_used(
    server: str, rest: httpx.Client, name: str, tmp_path: Path, typed: Typed
) -> None:
    runs = [str(write_run(tmp_path / each, factor).folder) for each, factor in {"a": 0.5, "b": 1.0}.items()]
    with _opened(server) as registry:
        for run in runs:
            register(registry, run, name)
        rest.patch(f"/model_versions/{_versions(rest, name)[1]['id']}", json={"state": "ARCHIVED"})
        assert [each.problem for each in registry.versions(name)] == ["", "archived"]
        # By default, the candidate is the highest version that can be used.
        assert promote(registry, name).version == 1
        with pytest.raises(ArtifactError, match=r"Given: 2 \(archived\)$"):
            promote(registry, name, version=2)
        path = f"/registered_models/{_model(rest, name)['id']}"
        rest.patch(path, json={"state": "ARCHIVED"})
        assert name not in registry.names()
        with pytest.raises(ConfigError, match=r"^name: must not be that of an archived model in kubeflow:http"):
            register(registry, runs[0], name)
        described = json.loads(typed("models", name, "--registry", f"kubeflow:{server}", "--format", "json")[1])
        assert [each["state"] for each in described["versions"]] == ["archived", "archived"]
        rest.patch(path, json={"state": "LIVE"})
        assert name in registry.names()


def test_versions_of_other_tools_cannot_be_promoted(server: str, rest: httpx.Client, name: str, tmp_path: Path) -> None:
    model = rest.post("/registered_models", json={"name": name}).json()["id"]
    for version in ("1", "2.0.1", "nightly"):
        rest.post("/model_versions", json={"name": version, "registeredModelId": model}).raise_for_status()
    with _opened(server) as registry:
        assert name not in registry.names()
        with pytest.raises(ArtifactError, match=r"Given: 1 \(not registered by qcnn register\)$"):
            promote(registry, name)
        assert register(registry, str(write_run(tmp_path / "a", 0.5).folder), name).version == 2
        assert promote(registry, name).version == 2
        # A promotion marks the model as one of this project.
        assert (name in registry.names(), registry.labels(name).versions) == (True, {"champion": 2})


def test_lists_have_all_pages(server: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kubeflow_client, "_PAGE_SIZE", "1")
    with _opened(server) as registry:
        for number in (1, 2, 3):
            run = write_run(tmp_path / str(number), number / 10)
            for each in (name, f"{name}.{number}"):
                register(registry, str(run.folder), each)
            promote(registry, name, force=True)
        assert [(each.number, each.problem) for each in registry.versions(name)] == [(1, ""), (2, ""), (3, "")]
        assert [each.version for each in registry.promotions(name)] == [1, 2, 3]
        assert {name, *(f"{name}.{number}" for number in (1, 2, 3))} <= {*registry.names()}


def test_damaged_properties_are_one_line(server: str, rest: httpx.Client, name: str, tmp_path: Path) -> None:
    with _opened(server) as registry:
        register(registry, str(write_run(tmp_path / "a", 0.5).folder), name)
        promote(registry, name)
        (version,) = _versions(rest, name)
        path, properties = f"/model_versions/{version['id']}", version["customProperties"]
        rest.patch(path, json={"customProperties": {**properties, "qcnn.registered": _text("soon")}})
        (damaged,) = registry.versions(name)
        assert damaged.problem.startswith("damaged: custom properties: 1 validation error")
        assert "\n" not in damaged.problem
        moves = rest.get(f"{path}/artifacts", params={"artifactType": "doc-artifact"}).json()["items"]
        update = {"artifactType": "doc-artifact", "customProperties": {"qcnn.label.stable": _text("first")}}
        rest.patch(f"/artifacts/{moves[0]['id']}", json=update).raise_for_status()
        with pytest.raises(ArtifactError, match=r"^labels: must be names of versions\. Given: 'first' for 'stable'$"):
            registry.labels(name)
        # A record is for readers.
        assert registry.promotions(name) == []


def _text(value: str) -> dict[str, str]:
    return {"string_value": value, "metadataType": "MetadataStringValue"}


def test_underscore_in_name_means_an_underscore(server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with _opened(server) as registry:
        for each in ("under-score", "under.score", "under_score"):
            assert register(registry, str(write_run(tmp_path / each, 0.5).folder), each).version == 1
        promote(registry, "under_score")
        assert [registry.labels(each).versions for each in ("under.score", "under_score")] == [{}, {"champion": 1}]


def test_lost_responses_leave_no_second_version_or_move(server: str, name: str, tmp_path: Path) -> None:
    lost = list[str]()

    def lose_once(method: str, path: str, _: dict[str, str]) -> str | None:
        kind = path.rpartition("/")[2]
        if method == "POST" and kind not in lost:
            lost.append(kind)
            return None
        return path

    run = str(write_run(tmp_path / "a", 0.5).folder)
    with _gateway(server, lose_once) as url, _opened(url) as registry:
        # The requests that create the model, the version and its artifact.
        for _ in range(3):
            with pytest.raises(UnreachableError, match=r"^registry: .*\. Given: kubeflow:http://127"):
                register(registry, run, name)
        result = register(registry, run, name)
        assert (result.version, result.is_new) == (1, False)
        assert lost == ["registered_models", "model_versions", "artifacts"]
        lost.remove("artifacts")
        assert promote(registry, name).outcome == "first"
        assert lost[-1] == "artifacts"
        assert [each.version for each in registry.promotions(name)] == [1]
        assert [each.problem for each in registry.versions(name)] == [""]


def test_server_with_newer_api_gets_token(
    server: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths, tokens = list[str](), set[str]()

    def answer(_: str, path: str, headers: dict[str, str]) -> tuple[int, str] | str:
        tokens.add(headers.get("Authorization", ""))
        paths.append(path)
        new = path.replace("/model_registry/v1/", "/model_registry/v1alpha3/")
        return new if new != path else (404, "{}")

    (tmp_path / "token").write_text("planted-token\n")
    monkeypatch.setenv(TOKEN_VARIABLE, str(tmp_path / "token"))
    with _gateway(server, answer) as url, _opened(f"{url}/") as registry:
        register(registry, str(write_run(tmp_path / "a", 0.5).folder), name)
        (tmp_path / "token").write_text("renewed-token")
        assert promote(registry, name).outcome == "first"
    assert tokens == {"Bearer planted-token", "Bearer renewed-token"}
    assert all(path.startswith("/api/model_registry/v1/") for path in paths)


def test_token_is_in_no_message_and_no_property(
    server: str, rest: httpx.Client, name: str, tmp_path: Path, typed: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "token").write_text("planted-token")
    monkeypatch.setenv(TOKEN_VARIABLE, str(tmp_path / "token"))
    run = str(write_run(tmp_path / "a", 0.5).folder)
    outputs = [
        typed(*command, "--registry", f"kubeflow:{server}")
        for command in (("register", run, "--name", name), ("promote", name), ("models", name, "--format", "json"))
    ]
    assert [code for code, _, _ in outputs] == [0, 0, 0]

    def reject(_: str, path: str, headers: dict[str, str]) -> tuple[int, str]:
        return 403, json.dumps({"message": f"RBAC: {headers['Authorization']} has no access"})

    with _gateway(server, reject) as url:
        outputs.append(typed("models", "--registry", f"kubeflow:{url}"))
        line = f"error: registry: RBAC: Bearer *** has no access (status 403). Given: kubeflow:{url}\n"
        assert outputs[-1] == (2, "", line)
    assert "planted-token" not in str([outputs, _model(rest, name), _versions(rest, name)])


def test_version_whose_files_are_missing_is_one_line(
    server: str, name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with _opened(server) as registry:
        for each, factor in {"a": 0.5, "b": 1.0}.items():
            register(registry, str(write_run(tmp_path / each, factor).folder), name)
        promote(registry, name, version=1)
        # Each process of a server has the source.
        source = pickle.loads(pickle.dumps(registry.source(name, VersionPolicy(label="champion"))))
        with open_repository({name: source}, 3600, lambda _: None, trust=False) as repository:
            model = repository.models[name]
            assert (model.versions, model.labels) == ([1], {"champion": 1})
            second = registry.versions(name)[1]
            assert second.record
            (tmp_path / "models" / name / second.record.model_sha256 / "model.json").unlink()
            promote(registry, name, version=2, force=True)
            caplog.clear()
            for _ in range(2):
                repository.poll()
                # The present version stays.
                assert (model.versions, model.labels) == ([1], {"champion": 1})
            (line,) = [each.getMessage() for each in caplog.records if each.name == "qcnn"]
            start = (
                f"model {name}: version: version 2 of {name} must have the model that was registered. Given: no model"
            )
            assert line.startswith(start)


def test_registry_can_be_used_in_an_event_loop(server: str, name: str, tmp_path: Path) -> None:
    """As in a notebook."""
    run = str(write_run(tmp_path / "a", 0.5).folder)

    async def cell() -> int:
        with _opened(server) as registry:
            return register(registry, run, name).version

    assert asyncio.run(cell()) == 1
