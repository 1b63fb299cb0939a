"""Tests of qcnn submit --target kubeflow with a stub of KFP that checks the published types."""

import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from qcnn.experiment.config import ExperimentConfig
from qcnn.pipelines.compiler import compile_qcnn
from qcnn.pipelines.kubeflow import KUBEFLOW
from qcnn.pipelines.vertex import VERTEX
from qcnn.storage.s3 import S3Store
from qcnn.targets.compiled_pipeline import pod_settings_in
from tests.buckets import ROWS
from tests.kfp_backend import IMAGE, FakeBackend, Object, spec_of
from tests.qcnn.cli import conftest
from tests.qcnn.cli.conftest import Typed
from tests.qcnn.jobs.apiserver import NAMESPACE

SUBMIT = ("submit", "--target", "kubeflow", "--image", IMAGE)


def _task(name: str, state: str, start: int = 0) -> Object:
    return {
        "display_name": name,
        "state": state,
        "start_time": f"2026-11-21T09:00:{start:02}Z",
    }


def test_submit_sends_all_fields_in_their_types(backend: FakeBackend, typed: Typed, tmp_path: Path) -> None:
    config = tmp_path / "experiment.yaml"
    config.write_text("qubits: 10\nlearning_rate: 1\noptions:\n  train_fraction: 0.8\n  shots: 100\n")
    flags = ("--host", backend.host, "--config", str(config), "--seed", "3", "--max-restarts", "1")
    code, out, err = typed(*SUBMIT, *flags)
    assert (code, err) == (0, "")
    (run,) = backend.objects["runs"].values()
    expected = ExperimentConfig(
        qubits=10,
        seed=3,
        learning_rate=1.0,
        options=ExperimentConfig().options.model_copy(
            update={"train_fraction": 0.8, "shots": 100, "max_restarts": 1},
        ),
    )
    assert run["runtime_config"]["parameters"] == {**expected.model_dump(), "data_sha256": ""}
    assert f"{backend.host}/#/runs/details/{run['run_id']}" in out
    assert re.search(rf"^run {run['run_id']} is created in {re.escape(backend.host)}$", out, re.MULTILINE)


def test_tracking_changes_only_environment_of_steps(backend: FakeBackend, typed: Typed) -> None:
    variable = {"name": "MLFLOW_TRACKING_URI", "value": "http://mlflow.lab:5000"}
    for flags in ((), ("--tracking", "mlflow:http://mlflow.lab:5000")):
        code, _, err = typed(*SUBMIT, "--host", backend.host, *flags)
        assert (code, err) == (0, "")
    plain, tracked = backend.objects["runs"].values()
    assert plain["runtime_config"] == tracked["runtime_config"]
    executors = spec_of(tracked)["deploymentSpec"]["executors"]
    # The key of KFP's cache has the image and the command of a step, and not its environment.
    for name, executor in spec_of(plain)["deploymentSpec"]["executors"].items():
        container = executors[name]["container"]
        assert variable in container["env"]
        assert container["command"] == executor["container"]["command"]
        assert container["args"] == executor["container"]["args"]
    pods = pod_settings_in(spec_of(tracked))
    assert pods
    assert pods.environment == {"MLFLOW_TRACKING_URI": "http://mlflow.lab:5000"}


@pytest.mark.parametrize("command", [SUBMIT, ("schedule", "create", *SUBMIT[1:], "--interval", "1d")])
def test_register_adds_the_last_step(backend: FakeBackend, typed: Typed, command: tuple[str, ...]) -> None:
    flags = ("--host", backend.host, "--register", "digits", "--registry", "gs://bucket/models", "--dry-run")
    code, out, err = typed(*command, *flags)
    assert (code, err) == (0, "")
    request = json.loads(out)
    (spec,) = [each for each in _mappings(request) if "pipelineInfo" in each]
    task = spec["root"]["dag"]["tasks"]["register"]
    constants = {
        name: each["runtimeValue"]["constant"]
        for name, each in task["inputs"]["parameters"].items()
        if "runtimeValue" in each
    }
    assert {"digits", "gs://bucket/models"} <= set(constants.values())
    assert "evaluate" in task["dependentTasks"]


def _mappings(value: object) -> Iterator[dict[str, Any]]:
    """Yield all mappings in a request."""
    if isinstance(value, dict):
        yield value
    for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _mappings(each)


@pytest.mark.parametrize(
    ("flags", "line"),
    [
        (("--register", "m"), "register: must be given together with --registry. Given: only 'm'"),
        (("--registry", "gs://b/m"), "register: must be given together with --registry. Given: only 'gs://b/m'"),
        (("--register", "m m", "--registry", "gs://b/m"), "register: must be at most 100 letters, digits, "),
        (("--register", "m", "--registry", "models"), "registry: must be gs://BUCKET/FOLDER, s3://BUCKET/FOLDER, "),
        (
            ("--register", "m", "--registry", "gs://b/m", "--package", "qcnn.yaml"),
            "register: must be without --package, as the compiler adds the step. Given: 'm'",
        ),
    ],
)
def test_invalid_registration_is_one_line(
    backend: FakeBackend, typed: Typed, flags: tuple[str, ...], line: str
) -> None:
    code, out, err = typed(*SUBMIT, "--host", backend.host, *flags)
    assert (code, out) == (2, "")
    assert err.startswith(f"error: {line}")
    assert not backend.objects["runs"]


def test_submit_sends_run_settings(backend: FakeBackend, typed: Typed) -> None:
    arguments = (
        *("--host", backend.host, "--token", "secret", "--cookies", "session=1", "--namespace", "me"),
        *("--experiment", "papers", "--run-name", "first", "--pipeline-root", "gs://bucket/runs"),
        *("--service-account", "trainer", "--no-caching", "--image", f"registry/qcnn@sha256:{64 * '1'}"),
        *("--ui-host", f"{backend.host}/pipeline/"),
    )
    code, out, _ = typed("submit", "--target", "kubeflow", *arguments)
    assert code == 0
    (experiment,) = backend.objects["experiments"].values()
    (run,) = backend.objects["runs"].values()
    assert (experiment["display_name"], experiment["namespace"]) == ("papers", "me")
    assert run["experiment_id"] == experiment["experiment_id"]
    assert (run["display_name"], run["service_account"]) == ("first", "trainer")
    assert run["runtime_config"]["pipeline_root"] == "gs://bucket/runs"
    assert not any(task.get("cachingOptions") for task in spec_of(run)["root"]["dag"]["tasks"].values())
    executors = spec_of(run)["deploymentSpec"]["executors"].values()
    assert {executor["container"]["image"] for executor in executors} == {f"registry/qcnn@sha256:{64 * '1'}"}
    assert all(sent["authorization"] == "Bearer secret" for sent in backend.headers)
    assert all(sent["Cookie"] == "session=1" for sent in backend.headers)
    assert f"{backend.host}/pipeline/#/runs/details/{run['run_id']}" in out
    assert "secret" not in out


@pytest.mark.parametrize("ui_host", [(), ("--ui-host", "http://127.0.0.1:1")], ids=["api", "unreachable"])
def test_submit_without_web_interface_prints_no_link(
    backend: FakeBackend, typed: Typed, ui_host: tuple[str, ...]
) -> None:
    backend.has_interface = False
    where = ("--target", "kubeflow", "--host", backend.host, *ui_host)
    code, out, _ = typed("submit", *where, "--image", IMAGE)
    (run,) = backend.objects["runs"]
    assert (code, "#/runs/details" in out, f"qcnn status {run} --target kubeflow" in out) == (0, False, True)
    code, out, _ = typed("status", *where, run)
    assert (code, "#/runs/details" in out) == (0, False)
    code, out, _ = typed("schedule", "create", *where, "--image", IMAGE, "--interval", "10m", "--format", "json")
    assert (code, list(json.loads(out))) == (0, ["schedule"])


def test_submit_uses_existing_experiment(backend: FakeBackend, typed: Typed) -> None:
    for _ in range(2):
        assert typed(*SUBMIT, "--host", backend.host)[0] == 0
    assert len(backend.objects["experiments"]) == 1
    assert len(backend.objects["runs"]) == 2


def test_submit_uses_environment_variables_of_kfp(
    backend: FakeBackend, typed: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KF_PIPELINES_ENDPOINT", backend.host)
    monkeypatch.setenv("KF_PIPELINES_DEFAULT_EXPERIMENT_NAME", "theirs")
    assert typed(*SUBMIT)[0] == 0
    assert [found["display_name"] for found in backend.objects["experiments"].values()] == ["theirs"]


def test_submit_with_package_sends_it_unchanged(backend: FakeBackend, typed: Typed, tmp_path: Path) -> None:
    package = tmp_path / "mine.yaml"
    compile_qcnn(KUBEFLOW, package, "mine:1")
    assert typed("submit", "--target", "kubeflow", "--host", backend.host, "--package", str(package))[0] == 0
    (run,) = backend.objects["runs"].values()
    executors = spec_of(run)["deploymentSpec"]["executors"].values()
    assert {executor["container"]["image"] for executor in executors} == {"mine:1"}
    package.write_text("a: 1\n")
    code, out, err = typed("submit", "--target", "kubeflow", "--host", backend.host, "--package", str(package))
    assert (code, out) == (2, "")
    assert re.fullmatch(rf"error: package: .*Given: {package}\n", err)


def test_wait_prints_each_state_change_once(backend: FakeBackend, typed: Typed) -> None:
    story = iter(
        [
            ("PENDING", []),
            ("RUNNING", [_task("generate-data-driver", "RUNNING")]),
            ("RUNNING", [_task("root", "RUNNING"), _task("generate-data", "RUNNING")]),
            (
                "RUNNING",
                [_task("train", "RUNNING", 20), _task("generate-data", "SUCCEEDED"), _task("executor", "FAILED")],
            ),
            ("SUCCEEDED", [_task("train", "SUCCEEDED", 20), _task("generate-data", "SUCCEEDED")]),
        ]
    )

    def advance(run: Object) -> None:
        run["state"], details = next(story)
        run["run_details"] = {"task_details": details}

    backend.on_get = advance  # type: ignore[method-assign]
    code, out, err = typed(*SUBMIT, "--host", backend.host, "--wait")
    assert (code, err) == (0, "")
    assert out.splitlines()[4:] == [
        "run: running",
        "generate-data: running",
        "generate-data: succeeded",
        "train: running",
        "train: succeeded",
        "run: succeeded",
    ]


def test_wait_with_json_format_prints_only_json_on_stdout(backend: FakeBackend, typed: Typed) -> None:
    backend.on_get = lambda run: run.update(state="SUCCEEDED")  # type: ignore[method-assign]
    where = ("--host", backend.host, "--wait", "--format", "json")
    code, out, err = typed(*SUBMIT, *where)
    assert (code, err) == (0, "run: succeeded\n")
    assert json.loads(out).keys() == {"job", "look at it", "follow it", "delete it"}


@pytest.mark.parametrize(
    ("state", "details", "message"),
    [
        ("FAILED", [_task("train", "FAILED"), _task("root", "FAILED")], "step train failed"),
        # A step with a failed driver has no task; a succeeded driver is not listed.
        (
            "FAILED",
            [_task("root-driver", "SUCCEEDED"), _task("generate-data-driver", "FAILED"), _task("root", "FAILED")],
            "step generate-data-driver failed",
        ),
        ("FAILED", [_task("root-driver", "FAILED")], "step root-driver failed"),
        ("FAILED", [], "it ended failed"),
        ("CANCELED", [], "it ended canceled"),
    ],
)
def test_wait_for_failed_run_names_failed_step(
    backend: FakeBackend, typed: Typed, state: str, details: list[Object], message: str
) -> None:
    def end(run: Object) -> None:
        run.update(state=state, run_details={"task_details": details})

    backend.on_get = end  # type: ignore[method-assign]
    code, _, err = typed(*SUBMIT, "--host", backend.host, "--wait")
    (identity,) = backend.objects["runs"]
    assert code == 1
    assert message in err
    assert err.endswith(f"Given: {identity}\n")
    assert err.count("\n") == 1


@pytest.mark.parametrize("name", ["train", "train-driver"])
def test_wait_names_failed_step_with_late_state(backend: FakeBackend, typed: Typed, name: str) -> None:
    story = iter(["RUNNING", "RUNNING", "FAILED"])

    def end(run: Object) -> None:
        run.update(state="FAILED", run_details={"task_details": [_task(name, next(story))]})

    backend.on_get = end  # type: ignore[method-assign]
    code, out, err = typed(*SUBMIT, "--host", backend.host, "--wait")
    assert code == 1
    assert [line for line in out.splitlines()[4:] if line != "train: running"] == [f"{name}: failed", "run: failed"]
    assert f"step {name} failed" in err


def test_wait_retries_after_temporary_errors(backend: FakeBackend, typed: Typed) -> None:
    def fail_first(run: Object) -> None:
        if backend.calls.count(f"GET runs/{run['run_id']}") < 4:
            raise ConnectionError
        run["state"] = "SUCCEEDED"

    backend.on_get = fail_first  # type: ignore[method-assign]
    assert typed(*SUBMIT, "--host", backend.host, "--wait")[0] == 0


HTML = "<!doctype html><title>Log in</title>"


@pytest.mark.parametrize(
    ("path", "answer", "message"),
    [
        ("", (401, ""), "credentials: rejected"),
        ("runs", (403, '{"code": 7, "message": "User x\\nis not authorized"}'), "User x is not authorized"),
        ("", (404, HTML), "must be the URL of the KFP API server"),
        ("", (200, HTML), "for a login page"),
        ("", (200, "ok"), "must be the URL of the KFP API server"),
        ("experiments", (400, '{"code": 3, "message": "no namespace"}'), "no namespace"),
        ("runs", (500, '{"code": 13, "message": "no database"}'), "no database"),
        ("", (503, HTML), "the backend failed"),
    ],
)
def test_submit_with_error_response_is_one_line(
    backend: FakeBackend, typed: Typed, path: str, answer: tuple[int, str], message: str
) -> None:
    backend.answers[path] = answer
    code, out, err = typed(*SUBMIT, "--host", backend.host)
    assert (code, out) == (2, "")
    assert message in err
    assert re.fullmatch(r"error: [^\n]+Given: [^\n]+\n", err)


@pytest.mark.parametrize("host", ["http://127.0.0.1:1", "https://127.0.0.1:1", "http://name.invalid", "http://"])
def test_submit_to_unreachable_host_is_one_line(typed: Typed, host: str) -> None:
    code, out, err = typed(*SUBMIT, "--host", host)
    assert (code, out) == (2, "")
    assert re.fullmatch(rf"error: host: no response \([^\n]+\)\. Given: {host}\n", err)


def test_submit_of_invalid_experiment_sends_no_request(backend: FakeBackend, typed: Typed) -> None:
    code, _, err = typed(*SUBMIT, "--host", backend.host, "--qubits", "3")
    assert (code, err) == (2, "error: qubits: must be at least 4 with hybrid. Given: 3\n")
    assert backend.calls == []


def test_submit_links_tensorboard(backend: FakeBackend, typed: Typed) -> None:
    where = ("submit", "--target", "kubeflow", "--host", backend.host, "--tensorboard", "http://board:5001")
    code, _, _ = typed(*where, "--image", IMAGE)
    assert code == 0
    (run,) = backend.objects["runs"].values()
    link = spec_of(run)["root"]["dag"]["tasks"]["tensorboard"]["inputs"]["parameters"]["address"]
    assert link["runtimeValue"]["constant"] == "http://board:5001"
    code, _, err = typed(*where, "--package", "pipeline.yaml")
    assert code == 2
    assert re.fullmatch(r"error: tensorboard: must be without --package.* Given: http://board:5001\n", err)


def test_submit_sends_digest_of_data_file_in_bucket(backend: FakeBackend, typed: Typed, rows: str) -> None:
    submit = (*SUBMIT, "--host", backend.host, "--encoding", "ry")
    code, _, err = typed(*submit, "--data", "rows.csv")
    assert (code, err.splitlines()[-1].rpartition(". Given: ")[2]) == (2, "rows.csv")
    assert "data: a file must be in a bucket on a cluster" in err
    code, _, err = typed(*submit, "--data", rows.replace("rows.csv", "none.csv"))
    assert code == 2
    assert err.startswith("error: bucket: ")
    assert not backend.objects["runs"]
    code, _, err = typed(*submit, "--data", rows)
    assert code == 0, err
    (run,) = backend.objects["runs"].values()
    given = run["runtime_config"]["parameters"]
    # Values that depend on the file are resolved by the step that reads it.
    assert (given["data"], given["encoding"], given["batch_size"]) == (rows, "ry", 0)
    assert given["data_sha256"] == hashlib.sha256(ROWS).hexdigest()
    code, out, _ = typed(*submit, "--data", rows, "--dry-run")
    assert json.loads(out)["runtime_config"]["parameters"] == given


def test_submit_reads_data_file_once_and_estimates_cost(
    backend: FakeBackend, typed: Typed, rows: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    downloads: list[str] = []
    read = S3Store.read

    def counted(store: S3Store, name: str, path: Path) -> None:
        downloads.append(name)
        read(store, name, path)

    monkeypatch.setattr(S3Store, "read", counted)
    monkeypatch.setattr(conftest, "without_estimate", str)
    where = ("--target", "kubeflow", "--host", backend.host, "--image", IMAGE, "--data", rows, "--encoding", "ry")
    for command, title in ((("submit",), "training "), (("study", "--grid", "seed=0,1,2"), "3 sequential ")):
        code, _, err = typed(*command, *where, "--qubits", "4")
        assert (code, err.startswith(f"estimate: {title}"), err.count("\n")) == (0, True, 1)
    # The second file is the description that a known dataset has.
    assert downloads == 2 * ["rows.csv", "rows.csv.json"]


def test_submit_to_unreachable_target_prints_no_prices(
    typed: Typed, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(conftest, "without_estimate", str)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    for target in (
        ("kubeflow", "--host", "http://127.0.0.1:1"),
        ("tfjob", "--output", "gs://bucket/folder", "--namespace", NAMESPACE),
    ):
        code, out, err = typed("submit", "--image", IMAGE, "--target", *target)
        assert (code, out) == (2, "")
        assert re.fullmatch(r"error: (host: no response|cluster: no valid configuration).*\n", err)


@pytest.mark.parametrize(
    "command", [("submit",), ("study", "--grid", "seed=0,1"), ("schedule", "create", "--interval", "1d")]
)
def test_submit_without_image_is_an_error(
    backend: FakeBackend, typed: Typed, tmp_path: Path, command: tuple[str, ...]
) -> None:
    where = ("--target", "kubeflow", "--host", backend.host)
    assert typed(*command, *where) == (2, "", "error: pod.image: must be given. Given: none\n")
    assert not backend.calls
    (pod := tmp_path / "pod.yaml").write_text(f"image: {IMAGE}\n")
    assert typed(*command, *where, "--pod", str(pod))[0] == 0


def test_submit_of_image_without_digest_is_mentioned_once(backend: FakeBackend, typed: Typed, tmp_path: Path) -> None:
    compile_qcnn(KUBEFLOW, tmp_path / "a.yaml", "registry/qcnn:1")
    where = ("submit", "--target", "kubeflow", "--host", backend.host)
    for image in (("--image", "registry/qcnn:1"), ("--package", str(tmp_path / "a.yaml"))):
        code, _, err = typed(*where, *image)
        assert (code, err.count("\n")) == (0, 1)
        assert re.fullmatch(r"pod\.image: the tag can refer .* by its digest .*\. Given: registry/qcnn:1\n", err)
    assert typed(*where, "--image", IMAGE)[2] == ""


def test_submit_of_outdated_package_is_an_error(backend: FakeBackend, typed: Typed, tmp_path: Path) -> None:
    package = tmp_path / "qcnn.yaml"
    compile_qcnn(KUBEFLOW, package)
    pipeline, *platform = yaml.safe_load_all(package.read_text())
    del pipeline["root"]["inputDefinitions"]["parameters"]["data_sha256"]
    package.write_text(yaml.safe_dump_all([pipeline, *platform]))
    for command in (("submit", "--target", "kubeflow"), ("schedule", "create", "--interval", "10m")):
        code, out, err = typed(*command, "--host", backend.host, "--package", str(package))
        assert (code, out) == (2, "")
        assert err.startswith("error: package: the pipeline has no parameter data_sha256. Given: ['batch_size', ")
    assert not backend.objects["runs"]
    assert not backend.objects["recurringruns"]


def test_submit_with_gpus_names_required_image(backend: FakeBackend, typed: Typed, tmp_path: Path) -> None:
    (path := tmp_path / "pod.yaml").write_text("gpus: 1\n")
    flags = ("--host", backend.host, "--pod", str(path), "--image", "registry/qcnn:1")
    code, _, err = typed("submit", "--target", "kubeflow", *flags)
    assert code == 0
    assert err.count("pod.gpus: processes with GPUs use the image registry/qcnn:1-gpu, which must contain") == 1


COMMANDS = [
    ("submit", "--dry-run"),
    ("study", "--grid", "seed=0,1", "--dry-run"),
    ("schedule", "create", "--interval", "10m", "--dry-run"),
]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_accelerator_flag_overrides_pod_file(
    backend: FakeBackend, typed: Typed, tmp_path: Path, command: tuple[str, ...]
) -> None:
    (path := tmp_path / "pod.yaml").write_text("accelerator: nvidia-tesla-t4\nmemory: 4Gi\n")
    flags = ("--target", "kubeflow", "--host", backend.host, "--pod", str(path), "--image", "registry/qcnn:1")
    code, out, err = typed(*command, *flags, "--accelerator", "nvidia-l4")
    assert code == 0, err
    # The settings are JSON within the JSON of the compiled pipeline.
    pod = pod_settings_in(json.loads(out)["pipeline_spec"]["pipeline_spec"])
    assert pod
    assert (pod.accelerator, pod.gpus, pod.memory) == ("nvidia-l4", 1, "4Gi")
    assert "the image registry/qcnn:1-gpu, which must contain" in err


def test_accelerator_with_package_is_an_error(backend: FakeBackend, typed: Typed, tmp_path: Path) -> None:
    compile_qcnn(KUBEFLOW, tmp_path / "a.yaml", "registry/qcnn:1")
    flags = ("--target", "kubeflow", "--host", backend.host, "--package", str(tmp_path / "a.yaml"))
    code, out, err = typed("submit", *flags, "--accelerator", "nvidia-l4")
    assert (code, out) == (2, "")
    assert err == (
        "error: accelerator: must be without --package, as the compiler sets the resources of the training pods. "
        "Given: nvidia-l4\n"
    )


@pytest.mark.parametrize("command", [("submit",), ("schedule", "create", "--cron", "0 9 * * *", "--run-name", "a")])
def test_submit_of_package_for_vertex_is_an_error(
    backend: FakeBackend, typed: Typed, tmp_path: Path, command: tuple[str, ...]
) -> None:
    compile_qcnn(VERTEX, tmp_path / "vertex.yaml", "registry/qcnn:1")
    flags = ("--target", "kubeflow", "--host", backend.host, "--package", str(tmp_path / "vertex.yaml"))
    code, out, err = typed(*command, *flags)
    assert (code, out) == (2, "")
    assert err.startswith("error: package: must be compiled for kubeflow, like compile.py's files NAME-kubeflow")
    assert not backend.objects["runs"]
