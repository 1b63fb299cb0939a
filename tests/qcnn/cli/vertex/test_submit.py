"""Tests of the requests to Vertex AI that --dry-run of submit, study and schedule prints."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from google.cloud import aiplatform_v1 as v1
from google.protobuf import json_format

from qcnn.experiment.parsing import from_mapping
from qcnn.pipelines.compiler import compile_qcnn, compile_study
from qcnn.pipelines.kubeflow import KUBEFLOW
from qcnn.pipelines.vertex import VERTEX
from qcnn.targets.compiled_pipeline import pod_settings_in
from tests.buckets import ROWS
from tests.qcnn.cli.conftest import STUDY, Typed

_PLACE = ("--project", "my-project", "--location", "europe-west4", "--pipeline-root", "gs://bucket/runs")
# Pinned, so that commands print no notice.
_PINNED = f"europe/qcnn@sha256:{64 * '1'}"
_IMAGE = ("--image", _PINNED)
_SUBMIT = ("submit", "--target", "vertex", *_PLACE, *_IMAGE)


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_REGION", "CLOUDSDK_CORE_PROJECT", "CLOUDSDK_AI_REGION"):
        monkeypatch.delenv(name, raising=False)
    # A request would fail without credentials.
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "none.json"))


def _sent(typed: Typed, *arguments: str) -> dict[str, Any]:
    code, out, err = typed(*arguments, "--dry-run")
    assert (code, err) == (0, "")
    found: dict[str, Any] = json.loads(out)
    return found


def test_submit_sends_all_fields_in_a_valid_request(typed: Typed, tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("qubits: 10\nlearning_rate: 1\noptions:\n  shots: 100\n")
    sent = _sent(typed, *_SUBMIT, "--config", "mine.yaml", "--seed", "3")
    expected = from_mapping({"qubits": 10, "learning_rate": 1.0, "seed": 3, "options": {"shots": 100}})
    job = sent["pipelineJob"]
    assert job["runtimeConfig"]["parameterValues"] == {**expected.model_dump(), "data_sha256": ""}
    assert sent["parent"] == "projects/my-project/locations/europe-west4"
    assert job["runtimeConfig"]["gcsOutputDirectory"] == "gs://bucket/runs"
    assert sent["pipelineJobId"].startswith(job["displayName"])
    message = json_format.ParseDict(sent, v1.CreatePipelineJobRequest.pb(v1.CreatePipelineJobRequest()))
    assert message.pipeline_job.pipeline_spec["root"]["dag"]["tasks"]["train"]


def test_register_adds_the_last_step(typed: Typed) -> None:
    flags = ("--register", "digits", "--registry", "gs://bucket/models")
    schedule = _sent(typed, "schedule", "create", *_SUBMIT[1:], *flags, "--cron", "0 9 * * *")["schedule"]
    for request in (_sent(typed, *_SUBMIT, *flags), schedule["createPipelineJobRequest"]):
        job = request["pipelineJob"]
        task = job["pipelineSpec"]["root"]["dag"]["tasks"]["register"]
        given = json.dumps(task["inputs"]["parameters"])
        assert '"digits"' in given
        assert '"gs://bucket/models"' in given


def test_submit_with_accelerator_sets_gpus_of_training(typed: Typed) -> None:
    code, out, err = typed(*_SUBMIT, "--image", "europe/qcnn:1", "--accelerator", "nvidia-l4", "--dry-run")
    assert code == 0
    assert err.startswith("pod.gpus: processes with GPUs use the image europe/qcnn:1-gpu, which must contain ")
    pod = pod_settings_in(json.loads(out)["pipelineJob"]["pipelineSpec"])
    assert pod
    assert (pod.image, pod.accelerator, pod.gpus) == ("europe/qcnn:1", "nvidia-l4", 1)
    code, out, err = typed(*_SUBMIT, "--accelerator", "nvidia-l5", "--dry-run")
    assert (code, out) == (2, "")
    assert err.startswith("error: pod.accelerator: must be one of nvidia-l4, ")


def test_submit_sends_run_settings(typed: Typed) -> None:
    sent = _sent(
        typed,
        *(*_SUBMIT, "--run-name", "First try!", "--experiment", "papers"),
        *("--service-account", "a@my-project.iam.gserviceaccount.com", "--network", "projects/1/global/networks/vpc"),
        *("--label", "team=q", "--label", "cost_center=", "--no-caching"),
    )
    job = sent["pipelineJob"]
    assert job["displayName"] == "First try!"
    assert job["labels"] == {"team": "q", "cost_center": "", "qcnn_experiment": "papers"}
    assert (job["serviceAccount"], job["network"]) == (
        "a@my-project.iam.gserviceaccount.com",
        "projects/1/global/networks/vpc",
    )
    assert sent["pipelineJobId"].startswith("first-try-")
    spec = job["pipelineSpec"]
    assert {each["container"]["image"] for each in spec["deploymentSpec"]["executors"].values()} == {_PINNED}
    assert {task["cachingOptions"].get("enableCache") for task in spec["root"]["dag"]["tasks"].values()} == {False}


def test_each_submission_has_a_different_id(typed: Typed) -> None:
    first, second = (_sent(typed, *_SUBMIT, "--run-name", "same") for _ in range(2))
    assert first["pipelineJobId"] != second["pipelineJobId"]


def test_study_sends_search_space(typed: Typed, tmp_path: Path) -> None:
    (tmp_path / "study.yaml").write_text(STUDY)
    sent = _sent(typed, "study", "--target", "vertex", *_PLACE, *_IMAGE, "--config", "study.yaml", "--parallelism", "3")
    values = sent["pipelineJob"]["runtimeConfig"]["parameterValues"]
    assert values["grid"] == {"learning_rate": [0.0001, 0.02], "model": ["hybrid", "deep"]}
    assert values["experiment"]["qubits"] == 4
    (loop,) = [
        task
        for task in sent["pipelineJob"]["pipelineSpec"]["root"]["dag"]["tasks"].values()
        if "parameterIterator" in task
    ]
    assert loop["iteratorPolicy"] == {"parallelismLimit": 3}


def test_submit_sends_digest_of_data_file_but_schedule_not(typed: Typed, rows: str) -> None:
    own = (*_PLACE, *_IMAGE, "--target", "vertex", "--data", rows, "--encoding", "ry")
    sha256 = hashlib.sha256(ROWS).hexdigest()
    search = ("--range", "learning_rate=0.1:0.2", "--random", "2")
    schedule = _sent(typed, "schedule", "create", *own, "--cron", "0 9 * * *")["schedule"]
    for sent, expected in (
        (_sent(typed, "submit", *own), sha256),
        (_sent(typed, "study", *own, *search), {rows: sha256}),
        (_sent(typed, "study", *own, *search, "--tuner", "vizier"), {rows: sha256}),
        (schedule["createPipelineJobRequest"], ""),
    ):
        assert sent["pipelineJob"]["runtimeConfig"]["parameterValues"]["data_sha256"] == expected


def test_schedule_derives_seed_from_run_id(typed: Typed) -> None:
    arguments = (
        "schedule",
        "create",
        "--target",
        "vertex",
        *_PLACE,
        *_IMAGE,
        "--cron",
        "TZ=Europe/Paris 0 9 * * MON-FRI",
    )
    schedule = _sent(typed, *arguments, "--run-name", "weekdays", "--max-concurrency", "2", "--qubits", "6")["schedule"]
    assert (schedule["displayName"], schedule["cron"]) == ("weekdays", "TZ=Europe/Paris 0 9 * * MON-FRI")
    assert (schedule["maxConcurrentRunCount"], schedule["maxConcurrentActiveRunCount"]) == ("2", "2")
    request = schedule["createPipelineJobRequest"]
    # Vertex AI assigns an ID to each run.
    assert "pipelineJobId" not in request
    assert request["pipelineJob"]["runtimeConfig"]["parameterValues"]["qubits"] == 6
    first = request["pipelineJob"]["pipelineSpec"]["root"]["dag"]["tasks"]["generate-data"]
    assert first["inputs"]["parameters"]["run"] == {"runtimeValue": {"constant": "{{$.pipeline_job_uuid}}"}}


def test_submit_with_package_sends_it_unchanged(typed: Typed, tmp_path: Path) -> None:
    compile_qcnn(VERTEX, tmp_path / "mine.yaml", _PINNED)
    spec = _sent(typed, *_SUBMIT, "--package", "mine.yaml")["pipelineJob"]["pipelineSpec"]
    assert {each["container"]["image"] for each in spec["deploymentSpec"]["executors"].values()} == {_PINNED}


def test_submit_of_package_for_other_platform_is_an_error(typed: Typed, tmp_path: Path) -> None:
    compile_qcnn(KUBEFLOW, tmp_path / "kubeflow.yaml")
    compile_study(VERTEX, tmp_path / "study.yaml", "qcnn:1")
    code, out, err = typed(*_SUBMIT, "--package", "kubeflow.yaml", "--dry-run")
    assert (code, out) == (2, "")
    assert err.startswith("error: package: must be compiled for vertex, ")
    assert err.endswith("Given: kubeflow.yaml\n")
    code, out, err = typed(*_SUBMIT, "--package", "study.yaml", "--dry-run")
    assert (code, out) == (2, "")
    assert err.startswith("error: package: the pipeline has no parameter batch_size, data, encoding, epochs, ")


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("--project", "My_Project"), "project: must be a project's id"),
        (("--location", "Frankfurt"), "location: must be a region"),
        (("--api-endpoint", "http://x/y"), "API endpoint: must be HOST or HOST:PORT. Given: 'http://x/y'"),
        (("--pipeline-root", "/tmp/runs"), "pipeline root: must be gs://BUCKET/FOLDER. Given: /tmp/runs"),
        (("--pipeline-root", "s3://bucket/runs"), "pipeline root: must be gs://BUCKET/FOLDER. Given: s3://bucket/runs"),
        (
            ("--service-account", "default"),
            "service account: must be an account, as NAME@PROJECT",
        ),
        (("--network", "default"), "network: must be projects/NUMBER/global/networks/NAME. Given: default"),
        (("--experiment", "My papers"), "experiment: must be 1 to 63 lowercase letters, digits and hyphens. "),
        (("--run-name", ""), "run name: must have 1 to 128 characters. Given: "),
        (("--label", "team"), "label: must be KEY=VALUE"),
        (("--label", "1=a"), "label: must be KEY=VALUE"),
        (("--label", "team=Q"), "label: must be KEY=VALUE"),
        (("--label", f"team={'q' * 64}"), "label: must be KEY=VALUE"),
        (("--label", "qcnn_experiment=a"), "label: qcnn_experiment must be set with --experiment. "),
        (tuple(w for n in range(65) for w in ("--label", f"l{n}=")), "label: must be at most 64, with those of qcnn. "),
        (("--qubits", "3"), "qubits: must be at least 4 with hybrid"),
        (("--colour", "red"), "No such option '--colour'."),
    ],
)
def test_invalid_arguments_are_an_error_without_request(typed: Typed, arguments: tuple[str, ...], line: str) -> None:
    code, out, err = typed(*_SUBMIT, *arguments)
    assert (code, out) == (2, "")
    assert err.startswith(f"error: {line}")
    assert err.count("\n") == 1


def test_project_and_location_from_environment(typed: Typed, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = ("submit", "--target", "vertex", "--pipeline-root", "gs://bucket/runs", *_IMAGE)
    assert (
        typed(*arguments)[2]
        == "error: project: must be given to target vertex, or environment variable GOOGLE_CLOUD_PROJECT. Given: none\n"
    )
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "my-project")
    monkeypatch.setenv("CLOUDSDK_AI_REGION", "us-central1")
    assert _sent(typed, *arguments)["parent"] == "projects/my-project/locations/us-central1"


def test_submit_without_credentials_is_an_error(typed: Typed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", "http://localhost:1")
    code, out, err = typed("status", "--target", "vertex", *_PLACE[:4])
    assert (code, out) == (2, "")
    assert err.startswith("error: credentials: no Google credentials found; log in (gcloud auth")


@pytest.mark.parametrize("cron", ["60 * * * *", "0 0 9 * * *", "@daily", "TZ=Europe/Paris"])
def test_schedule_with_impossible_times_is_an_error(typed: Typed, cron: str) -> None:
    code, out, err = typed("schedule", "create", "--target", "vertex", *_PLACE, "--cron", cron, "--dry-run")
    assert (code, out) == (2, "")
    assert err.startswith("error: cron: ")


@pytest.mark.parametrize(
    "arguments",
    [
        ("submit",),
        ("study", "--grid", "seed=1,2"),
        ("study", "--tuner", "vizier", "--range", "learning_rate=0.001:0.1:log", "--random", "4"),
        ("schedule", "create", "--cron", "0 9 * * *"),
    ],
)
def test_submit_without_image_is_an_error(typed: Typed, arguments: tuple[str, ...]) -> None:
    """The default image name is not in a registry."""
    code, out, err = typed(*arguments, "--target", "vertex", *_PLACE, "--dry-run")
    assert (code, out, err) == (2, "", "error: pod.image: must be given. Given: none\n")
    (Path.cwd() / "pod.yaml").write_text(f"image: {_PINNED}\n")
    code, out, err = typed(*arguments, "--target", "vertex", *_PLACE, "--pod", "pod.yaml", "--dry-run")
    assert (code, err) == (0, "")
    assert f'"{_PINNED}"' in out
