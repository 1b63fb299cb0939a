"""Tests of qcnn submit --target tfjob, most of them with --dry-run and without a cluster."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from qcnn.circuits import circuits
from qcnn.experiment.parsing import from_json
from qcnn.jobs.kubernetes.manifest import HASH_ANNOTATION
from tests.docs.documents import ROOT
from tests.qcnn.cli import conftest
from tests.qcnn.cli.conftest import Typed
from tests.qcnn.jobs.apiserver import ApiServer

WORDS = ("--output", "gs://bucket/runs", "--qubits", "4", "--rounds", "12", "--image", "qcnn:1")
SUBMIT = ("submit", "--target", "tfjob", *WORDS)
# An inline mapping, a quoted number, and text that YAML 1.1 parsers read as another type.
POD = """
memory: 4Gi
queue: team
environment: {ON: "on", YES: "y", FLOAT: "1e3", OCTAL: "0o7", DATE: "2026-01-31", LINES: "a\\nb", EMPTY: ""}
secrets: {AWS_ACCESS_KEY_ID: store/id}
roles: {worker: {cpu: 2}}
"""


@pytest.fixture
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Set KUBECONFIG to a missing file."""
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))


@pytest.fixture
def pod(tmp_path: Path) -> str:
    (path := tmp_path / "pod.yaml").write_text(POD)
    return str(path)


def _without_server_fields(found: dict[str, Any]) -> dict[str, Any]:
    """Return an object of the cluster without the fields that the cluster sets."""
    known = ("namespace", "uid", "resourceVersion", "creationTimestamp", "generation", "ownerReferences")
    metadata = {key: value for key, value in found["metadata"].items() if key not in known}
    return {**found, "metadata": metadata}


def _read(out: str, form: str) -> list[dict[str, Any]]:
    if form == "yaml":
        return list(yaml.safe_load_all(out))
    listed = json.loads(out)
    assert (listed["apiVersion"], listed["kind"]) == ("v1", "List")
    return list(listed["items"])


@pytest.mark.parametrize("form", ["yaml", "json"])
def test_dry_run_prints_sent_manifests(typed: Typed, api_server: ApiServer, pod: str, form: str) -> None:
    code, out, err = typed(*SUBMIT, "--pod", pod, "--dry-run", "-o", form)
    assert (code, err, api_server.requests) == (0, "", [])
    printed = _read(out, form)
    assert [each["kind"] for each in printed] == ["TFJob", "Service"]
    code, out, err = typed(*SUBMIT, "--pod", pod)
    assert code == 0, err
    sent = [_without_server_fields(found) for plural in ("tfjobs", "services") for found in api_server.all(plural)]
    assert printed == sent


def test_submit_as_json(typed: Typed, api_server: ApiServer) -> None:
    results = [typed(*SUBMIT, "--format", "json") for _ in range(2)]
    assert [(code, err) for code, _, err in results] == [(0, "")] * 2
    first, again = (json.loads(out) for _, out, _ in results)
    (job,) = api_server.all("tfjobs")
    assert first == again
    assert first["job"] == job["metadata"]["name"]
    assert first["model"] == f"gs://bucket/runs/{first['job']}/model"
    # The rows of the text output.
    _, out, _ = typed(*SUBMIT)
    assert [line.rpartition("  ")[2] for line in out.splitlines()[1:]] == list(first.values())[1:]


def test_circuit_file_is_embedded_in_job(typed: Typed, api_server: ApiServer) -> None:
    """The pods cannot read the file."""
    arguments = ("--model", str(ROOT / "examples" / "stabilizers.qasm"), "--qubits", "8")
    code, out, err = typed(*SUBMIT, *arguments)
    assert code == 0, err
    (job,) = api_server.all("tfjobs")
    for replica in job["spec"]["tfReplicaSpecs"].values():
        command = replica["template"]["spec"]["containers"][0]["command"]
        experiment = from_json(command[command.index("--experiment") + 1])
        assert len(circuits.build(experiment.model, 8).symbols) == 3
    assert "stabilizers.qasm#" not in out + err


@pytest.mark.usefixtures("nowhere")
@pytest.mark.parametrize("data", ["annni", "my_chains:ising"])
def test_ground_states_need_no_bucket(typed: Typed, data: str) -> None:
    # The module of a custom Hamiltonian is in the image.
    code, out, err = typed(*SUBMIT, "--data", data, "--loss", "cross_entropy", "--dry-run")
    assert (code, err) == (0, "")
    job, *_ = yaml.safe_load_all(out)
    command = job["spec"]["tfReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]["command"]
    experiment = from_json(command[command.index("--experiment") + 1])
    assert (experiment.data, experiment.options.classes) == (data, 3 if data == "annni" else 2)


def test_tracking_adds_only_variable_of_pods(typed: Typed, nowhere: None) -> None:
    _, before, _ = typed(*SUBMIT, "--dry-run")
    code, out, err = typed(*SUBMIT, "--dry-run", "--tracking", "mlflow:http://mlflow.lab:5000")
    assert (code, err) == (0, "")
    job, service = yaml.safe_load_all(out)
    plain, plain_service = yaml.safe_load_all(before)
    assert (job["metadata"]["name"], service) == (plain["metadata"]["name"], plain_service)
    for each in (job, plain):
        # The settings with which the job runs.
        del each["metadata"]["annotations"][HASH_ANNOTATION]
        (container,) = each["spec"]["tfReplicaSpecs"]["Worker"]["template"]["spec"]["containers"]
        added = {"name": "MLFLOW_TRACKING_URI", "value": "http://mlflow.lab:5000"}
        assert (added in container["env"]) == (each is job)
        container["env"] = [each for each in container["env"] if each != added]
    assert job == plain


def test_secret_of_tracking_server_is_rejected_for_pods(typed: Typed, nowhere: None) -> None:
    code, out, err = typed(*SUBMIT, "--dry-run", "--tracking", "mlflow:http://name:planted@mlflow.lab:5000")
    assert (code, out) == (2, "")
    assert "tracking: must have no credentials for pods" in err
    assert "Given: mlflow:http://***@mlflow.lab:5000" in err
    assert "planted" not in err


def test_submit_adopts_applied_manifests(typed: Typed, api_server: ApiServer, pod: str) -> None:
    _, out, _ = typed(*SUBMIT, "--pod", pod, "--dry-run")
    job, service = yaml.safe_load_all(out)
    api_server.put("tfjobs", job)
    api_server.put("services", service)
    code, out, err = typed(*SUBMIT, "--pod", pod)
    assert code == 0, err
    assert f"TFJob {job['metadata']['name']} already runs" in out
    # Different settings are an error, as for a submitted job.
    code, _, err = typed(*SUBMIT, "--pod", pod, "--memory", "5Gi")
    assert (code, "already runs with other settings" in err) == (2, True)


def test_delete_dry_run_lists_and_keeps_objects(typed: Typed, api_server: ApiServer, pod: str) -> None:
    assert typed(*SUBMIT, "--pod", pod)[0] == 0
    code, out, err = typed("delete", "--all", "--dry-run", "--format", "json")
    assert (code, err) == (0, "")
    (job,) = api_server.all("tfjobs")
    assert {"TFJob": job["metadata"]["name"]}.items() <= {row["kind"]: row["job"] for row in json.loads(out)}.items()
    assert typed("delete", "--all", "--dry-run")[1].splitlines()[0].split() == ["kind", "job", "name", "run", "state"]


@pytest.mark.usefixtures("nowhere")
def test_manifests_contain_only_given_namespace(typed: Typed) -> None:
    def namespaces(*arguments: str) -> list[str | None]:
        _, out, _ = typed(*SUBMIT, "--dry-run", *arguments)
        return [each["metadata"].get("namespace") for each in yaml.safe_load_all(out)]

    assert namespaces() == [None, None]
    assert namespaces("--namespace", "team") == ["team", "team"]


@pytest.mark.usefixtures("nowhere")
def test_flags_override_pod_file(typed: Typed, pod: str) -> None:
    flags = ("--queue", "other", "--priority-class", "high", "--topology-spread", "zone")
    _, out, _ = typed(*SUBMIT, "--pod", pod, *flags, "--dry-run")
    job, _ = yaml.safe_load_all(out)
    assert job["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "other"
    spec = job["spec"]["tfReplicaSpecs"]["Worker"]["template"]["spec"]
    assert spec["priorityClassName"] == "high"
    assert [each["topologyKey"] for each in spec["topologySpreadConstraints"]] == ["zone"]
    assert spec["containers"][0]["resources"]["requests"] == {"cpu": "2", "memory": "4Gi"}


@pytest.mark.usefixtures("nowhere")
def test_yaml_output_quotes_ambiguous_text(typed: Typed, pod: str) -> None:
    _, out, _ = typed(*SUBMIT, "--pod", pod, "--dry-run")
    lines = {line.strip() for line in out.splitlines()}
    # kubectl reads these without quotes as a boolean or a number; PyYAML does so only for some.
    assert lines >= {"value: 'on'", 'value: "y"', 'value: "1e3"', 'value: "0o7"', 'value: "2026-01-31"', "value: ''"}


@pytest.mark.usefixtures("nowhere")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("-o", "yaml"), "format: must be text or json without --dry-run. Given: yaml"),
        (("--dry-run", "--follow"), "dry_run: must be given without --wait and --follow. Given: --dry-run --follow"),
        (
            ("--dry-run", "-o", "table"),
            "Invalid value for '-o' / '--format': 'table' is not one of 'text', 'yaml', 'json'.",
        ),
        (("--dry-run", "--queue", "Team A"), "pod.queue: must be the name of a Kueue LocalQueue, "),
        (
            ("--dry-run", "--priority-class", "High"),
            "pod.priority_class: must be the name of a priority class. Given: ",
        ),
        (("--dry-run", "--topology-spread", "a b"), "pod.topology_spread: must be the key of a node label "),
        (("--dry-run", "--output", "/data"), "output: must be in a bucket, or in a volume "),
        (
            ("--dry-run", "--env", "AWS_SECRET_ACCESS_KEY=hidden"),
            "pod.environment: AWS_SECRET_ACCESS_KEY looks like a secret, which --dry-run does not print; ",
        ),
    ],
)
def test_dry_run_with_invalid_arguments_prints_one_line(typed: Typed, arguments: tuple[str, ...], message: str) -> None:
    code, out, err = typed(*SUBMIT, *arguments)
    assert (code, out) == (2, "")
    (line,) = err.splitlines()
    assert line.startswith(f"error: {message}")
    assert "hidden" not in line


@pytest.mark.usefixtures("nowhere")
def test_secrets_are_referenced_by_name_only(typed: Typed, pod: str) -> None:
    _, out, _ = typed(*SUBMIT, "--pod", pod, "--dry-run")
    job, _ = yaml.safe_load_all(out)
    (container,) = job["spec"]["tfReplicaSpecs"]["Worker"]["template"]["spec"]["containers"]
    (secret,) = [each for each in container["env"] if each["name"] == "AWS_ACCESS_KEY_ID"]
    assert secret["valueFrom"] == {"secretKeyRef": {"name": "store", "key": "id"}}


@pytest.mark.usefixtures("nowhere")
@pytest.mark.parametrize("flags", [("--gpus", "1"), ("--accelerator", "nvidia-l4")])
def test_dry_run_with_gpus_uses_and_names_gpu_image(typed: Typed, flags: tuple[str, ...]) -> None:
    code, out, err = typed(*SUBMIT, *flags, "--dry-run")
    assert code == 0
    job, _ = yaml.safe_load_all(out)
    template = job["spec"]["tfReplicaSpecs"]["Worker"]["template"]["spec"]
    (container,) = template["containers"]
    assert container["image"] == "qcnn:1-gpu"
    assert container["resources"]["limits"]["nvidia.com/gpu"] == "1"
    assert {"name": "QCNN_IMAGE", "value": "qcnn:1-gpu"} in container["env"]
    labels = {"cloud.google.com/gke-accelerator": "nvidia-l4"} if "nvidia-l4" in flags else None
    assert template.get("nodeSelector") == labels
    assert err.startswith("pod.gpus: processes with GPUs use the image qcnn:1-gpu, which must contain TensorFlow's")
    assert err.endswith("Given: image qcnn:1\n")


@pytest.mark.usefixtures("nowhere")
def test_tensorboard_requests_no_gpus_of_pod_file(typed: Typed, tmp_path: Path) -> None:
    (path := tmp_path / "gpus.yaml").write_text("image: qcnn:1\naccelerator: nvidia-l4\nmemory: 3Gi\n")
    code, out, _ = typed("tensorboard", "gs://bucket/logs", "--deploy", "--pod", str(path), "--dry-run")
    assert code == 0
    deployment, _ = yaml.safe_load_all(out)
    spec = deployment["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    assert container["image"] == "qcnn:1"
    assert container["resources"]["limits"] == {"memory": "3Gi"}
    assert "nodeSelector" not in spec


def _account(job: dict[str, Any]) -> str:
    return str(job["spec"]["tfReplicaSpecs"]["Worker"]["template"]["spec"]["serviceAccountName"])


def test_default_service_account_is_qcnn_worker(typed: Typed, api_server: ApiServer) -> None:
    for arguments, account in (((), "qcnn-worker"), (("--service-account", "default"), "default")):
        assert typed(*SUBMIT, "--name", account, *arguments)[0] == 0
        assert account in {_account(job) for job in api_server.all("tfjobs")}
        _, out, _ = typed(*SUBMIT, *arguments, "--dry-run", "-o", "json")
        assert _account(_read(out, "json")[0]) == account


@pytest.mark.parametrize(
    "arguments",
    [
        SUBMIT,
        (*SUBMIT, "--service-account", "absent"),
        ("predict", "--target", "tfjob", "--model", "gs://bucket/model", "--image", "qcnn:1"),
    ],
)
def test_submit_with_missing_account_creates_nothing(
    typed: Typed, api_server: ApiServer, arguments: tuple[str, ...]
) -> None:
    api_server.remove("serviceaccounts", "qcnn-worker")
    code, out, err = typed(*arguments)
    assert (code, out) == (2, "")
    assert err.startswith("error: pod.service_account: must exist in namespace a; create it with `kubectl -n a ")
    assert err.count("\n") == 1
    assert not api_server.all("tfjobs") + api_server.all("jobs")


def test_submit_without_permission_to_read_account_succeeds(typed: Typed, api_server: ApiServer) -> None:
    api_server.rejected.add(("get", "serviceaccounts"))
    assert typed(*SUBMIT)[0] == 0
    assert len(api_server.all("tfjobs")) == 1


def test_submit_of_data_file_estimates_cost(
    typed: Typed, api_server: ApiServer, rows: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conftest, "without_estimate", str)
    where = ("--image", "qcnn:1", "--output", "s3://bucket/folder")
    code, _, err = typed("submit", "--target", "tfjob", *where, "--data", rows, "--encoding", "ry", "--qubits", "4")
    assert (code, err.startswith("estimate: training "), err.count("\n")) == (0, True, 1)
    assert len(api_server.all("tfjobs")) == 1
