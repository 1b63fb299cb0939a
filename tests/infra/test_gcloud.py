"""Commands of infra, parsed by an installed gcloud and kubectl; gcloud sends its requests to a local server.

No request leaves the machine. gcloud takes two seconds to start, so one process runs all commands of a test.
"""

import dataclasses
import http.server
import itertools
import json
import os
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from infra.__main__ import resources
from infra.commands import Argv, CommandResult, InfraResource, is_not_found
from infra.settings import InfraSettings
from infra.steps import ResourceState, state_of
from tests.infra.conftest import ROOT

Table = tuple[InfraResource, ...]
Gcloud = Callable[[Iterable[Argv]], list[CommandResult]]

_PROGRAM = shutil.which("gcloud")
_PARSED = "You do not currently have an active account selected"
_SERVICES = ("container", "iam", "artifactregistry", "cloudresourcemanager", "serviceusage", "storage")

needs_gcloud = pytest.mark.skipif(_PROGRAM is None, reason="gcloud is not installed")
needs_kubectl = pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")


def _gcloud(variables: Mapping[str, str]) -> Gcloud:
    assert _PROGRAM
    root = Path(_PROGRAM).resolve().parents[1]
    bundled = root / "platform" / "bundledpythonunix" / "bin" / "python3"
    python = str(bundled) if bundled.is_file() else shutil.which("python3")
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}

    def run(commands: Iterable[Argv]) -> list[CommandResult]:
        done = subprocess.run(
            [python or "python3", str(Path(__file__).with_name("in_gcloud.py")), str(root)],
            input=json.dumps([argv[1:] for argv in commands]),
            env={**kept, "CLOUDSDK_CORE_DISABLE_PROMPTS": "1", **variables},
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return [CommandResult(*answer) for answer in json.loads(done.stdout)]

    return run


def _of_gcloud(table: Table) -> list[Argv]:
    commands = (argv for r in table for argv in (r.describe, *r.create, *r.delete, r.connect) if argv)
    return [argv for argv in dict.fromkeys(commands) if argv[0] == "gcloud"]


@needs_gcloud
def test_gcloud_parses_all_commands_and_rejects_wrong_ones(
    tmp_path: Path, settings: InfraSettings, with_gpus: InfraSettings, table: Table
) -> None:
    commands = _of_gcloud(table)
    with_pools = resources(with_gpus)
    commands += [argv for resource in with_pools if resource.name == "GPU nodes" for argv in resource.create]
    without_soft_delete = settings.model_copy(update={"soft_delete_days": 0})
    commands += [argv for resource in resources(without_soft_delete) if resource.is_data for argv in resource.create]
    (cluster,) = [argv for argv in commands if argv[1:4] == ("container", "clusters", "create")]
    wrong = [
        (*cluster, "--enable-dataplane-v3"),
        (*cluster, "--num-nodes=some"),
        (*cluster, "--release-channel=weekly"),
        ("gcloud", "container", "clusters", "make", "qcnn"),
        tuple(word.replace("gpu-driver-version", "gpu-driver") for word in commands[-2]),
    ]
    run = _gcloud({"CLOUDSDK_CONFIG": str(tmp_path)})
    answers = run([*commands, *wrong])
    for argv, answer in zip(commands, answers[: -len(wrong)], strict=True):
        assert _PARSED in answer.errors, (argv, answer.errors)
    assert not [answer for answer in answers[-len(wrong) :] if _PARSED in answer.errors]


@needs_kubectl
def test_kubectl_parses_all_commands(table: Table) -> None:
    commands = [argv for r in table for argv in (r.describe, *r.create, *r.delete) if argv[0] == "kubectl"]
    # Parallel, because each process starts slowly.
    started = [_kubectl(*argv[1:], "--help") for argv in (*commands, ("kubectl", "get", "--ignore-nothing"))]
    codes = [process.wait() for process in started]
    assert codes == [*(0 for _ in commands), 1]


def _kubectl(*words: str) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(["kubectl", *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


class _Google(http.server.BaseHTTPRequestHandler):
    """Handler that responds by the table of its server: path suffix to status code and JSON, or an iterator of them."""

    def do_GET(self) -> None:
        sent = self.rfile.read(int(self.headers.get("content-length") or 0))
        path = self.path.partition("?")[0]
        self.server.requests.append((self.command, path, json.loads(sent or b"{}")))  # type: ignore[attr-defined]
        answers: dict[str, Any] = self.server.answers  # type: ignore[attr-defined]
        answer = next(answer for end, answer in answers.items() if path.endswith(end))
        code, body = answer if isinstance(answer, tuple) else next(answer)
        content = json.dumps(body).encode()
        self.send_response(code)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def do_POST(self) -> None:
        self.do_GET()

    def do_PUT(self) -> None:
        self.do_GET()

    def do_PATCH(self) -> None:
        self.do_GET()

    def do_DELETE(self) -> None:
        self.do_GET()

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@dataclasses.dataclass(frozen=True)
class Google:
    """Local server with Google's APIs, which records requests; `with_answers` returns a gcloud that uses it."""

    with_answers: Callable[[dict[str, Any]], Gcloud]
    requests: list[tuple[str, str, Any]]

    def sent(self, method: str, end: str) -> list[Any]:
        """Return the request bodies that were sent to paths with the given suffix."""
        return [body for by, path, body in self.requests if (by, path.endswith(end)) == (method, True)]


@pytest.fixture
def google(tmp_path: Path) -> Iterator[Google]:
    """Local server with Google's APIs and an access token for gcloud."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Google)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    (tmp_path / "token").write_text("token")
    at = f"http://127.0.0.1:{server.server_port}/"

    def with_answers(answers: dict[str, Any]) -> Gcloud:
        server.answers = answers  # type: ignore[attr-defined]
        places = {
            f"CLOUDSDK_API_ENDPOINT_OVERRIDES_{name.upper()}": at + ("storage/v1/" if name == "storage" else "")
            for name in _SERVICES
        }
        token = str(tmp_path / "token")
        return _gcloud(
            {"CLOUDSDK_CONFIG": str(tmp_path / "gcloud"), "CLOUDSDK_AUTH_ACCESS_TOKEN_FILE": token, **places}
        )

    requests: list[tuple[str, str, Any]] = []
    server.requests = requests  # type: ignore[attr-defined]
    yield Google(with_answers, requests)
    server.shutdown()
    thread.join()
    server.server_close()


def _error(code: int, status: str) -> tuple[int, Any]:
    return code, {"error": {"code": code, "status": status, "message": "Requested entity NOT_FOUND, code=404."}}


def _described(table: Table) -> list[InfraResource]:
    return [resource for resource in table if resource.describe[0] == "gcloud"]


@needs_gcloud
def test_is_not_found_is_false_for_cluster_in_other_zone(google: Google, settings: InfraSettings, table: Table) -> None:
    clusters = {"clusters": [{"name": "other", "zone": "us-central1-b", "location": "us-central1-b"}]}
    run = google.with_answers({"/clusters": (200, clusters), "": _error(404, "NOT_FOUND")})
    others = resources(settings.model_copy(update={"cluster_name": "other"}))
    (elsewhere,) = [resource for resource in others if resource.name == "cluster"]
    rows = _described(table)
    *answers, last = run(resource.describe for resource in (*rows, elsewhere))
    for resource, answer in zip(rows, answers, strict=True):
        # A missing project is an error: infra does not create projects.
        of_project = resource.describe[1] in ("projects", "services")
        assert not answer.succeeded
        assert is_not_found(answer) is not of_project, answer.errors
    assert "Did you mean [other] in [us-central1-b]?" in last.errors
    assert not is_not_found(last)


@needs_gcloud
def test_is_not_found_is_false_for_other_errors(google: Google, table: Table) -> None:
    rows = _described(table)
    errors = [_error(403, "PERMISSION_DENIED"), _error(401, "UNAUTHENTICATED"), _error(400, "INVALID_ARGUMENT")]
    run = google.with_answers({"": itertools.cycle(errors)})
    for answer in run(resource.describe for resource in rows):
        assert not answer.succeeded
        assert not is_not_found(answer), answer.errors


@needs_gcloud
def test_state_of_existing_resources_is_present(google: Google, table: Table) -> None:
    """The responses have the fields of Google's discovery documents that gcloud reads here."""
    bound = [word.split("=") for resource in table for word in resource.expected if word.startswith("roles/")]
    policy = {"bindings": [{"role": role, "members": ["user:user@example.com", who]} for role, who in bound]}
    rules = json.loads((ROOT / "infra" / "lifecycle.json").read_text())
    (services,) = [resource.expected for resource in table if resource.name == "apis"]
    answers = {
        ":getIamPolicy": (200, policy),
        "/iam": (200, policy),
        "/services": (200, {"services": [{"config": {"name": name}, "state": "ENABLED"} for name in services]}),
        "/repositories/qcnn": (
            200,
            {"name": "projects/my-project/locations/us-central1/repositories/qcnn", "format": "DOCKER"},
        ),
        "/b/my-project-qcnn": (200, {"name": "my-project-qcnn", "lifecycle": rules}),
        **{
            f"/{name}@my-project.iam.gserviceaccount.com": (
                200,
                {"email": f"{name}@my-project.iam.gserviceaccount.com"},
            )
            for name in ("qcnn-nodes", "qcnn-worker", "qcnn-launcher", "qcnn-tensorboard")
        },
        "/nodePools/training": (200, {"name": "training", "status": "RUNNING"}),
        "/clusters/qcnn": (200, {"name": "qcnn", "status": "RUNNING"}),
        "/projects/my-project": (200, {"projectId": "my-project"}),
    }
    rows = _described(table)
    for resource, answer in zip(
        rows, google.with_answers(answers)(resource.describe for resource in rows), strict=True
    ):
        assert state_of(resource, answer).state is ResourceState.PRESENT, (resource.name, answer)


@needs_gcloud
def test_gcloud_requests_match_settings(
    google: Google, settings: InfraSettings, with_gpus: InfraSettings, table: Table
) -> None:
    """gcloud rejects some combinations of flags only when it builds the request."""
    run = google.with_answers({"etIamPolicy": (200, {}), "/iam": (200, {}), "": _error(403, "PERMISSION_DENIED")})
    commands = [argv for argv in _of_gcloud(table) if "create" in argv or "delete" in argv or "update" in argv]
    commands += [argv for argv in _of_gcloud(table) if "enable" in argv or "add-iam-policy-binding" in argv]
    for argv, answer in zip(commands, run(commands), strict=True):
        assert answer.succeeded == ("add-iam-policy-binding" in argv), answer.errors

    worker, launcher, nodes, viewer = (
        f"qcnn-{who}@my-project.iam.gserviceaccount.com" for who in ("worker", "launcher", "nodes", "tensorboard")
    )
    (bucket,) = google.sent("POST", "/storage/v1/b")
    assert bucket["iamConfiguration"] == {
        "publicAccessPrevention": "enforced",
        "uniformBucketLevelAccess": {"enabled": True},
    }
    assert bucket["softDeletePolicy"] == {"retentionDurationSeconds": str(7 * 24 * 3600)}
    (lifecycle,) = google.sent("PATCH", "/b/my-project-qcnn")
    assert lifecycle["lifecycle"] == json.loads((ROOT / "infra" / "lifecycle.json").read_text())

    (created,) = google.sent("POST", "/clusters")
    assert created["cluster"]["workloadIdentityConfig"] == {"workloadPool": "my-project.svc.id.goog"}
    assert created["cluster"]["networkConfig"]["datapathProvider"] == "ADVANCED_DATAPATH"
    (default,) = created["cluster"]["nodePools"]
    (pool,) = [sent["nodePool"] for sent in google.sent("POST", "/nodePools")]
    assert pool["autoscaling"] == {"enabled": True, "minNodeCount": 0, "maxNodeCount": settings.num_nodes}
    assert pool["config"]["spot"] is True
    assert pool["config"]["workloadMetadataConfig"] == {"mode": "GKE_METADATA"}
    assert pool["config"]["machineType"] == settings.machine_type
    assert {default["config"]["serviceAccount"], pool["config"]["serviceAccount"]} == {nodes}
    assert default["initialNodeCount"] - pool["initialNodeCount"] == 1

    (gpu_nodes,) = [resource for resource in resources(with_gpus) if resource.name == "GPU nodes"]
    run(gpu_nodes.create)
    *_, gpu_pool = [sent["nodePool"] for sent in google.sent("POST", "/nodePools")]
    assert gpu_pool["name"] == "training-gpu"
    assert gpu_pool["autoscaling"] == {"enabled": True, "minNodeCount": 0, "maxNodeCount": 3}
    assert gpu_pool["config"]["machineType"] == "g2-standard-8"
    (accelerator,) = gpu_pool["config"]["accelerators"]
    assert accelerator == {
        "acceleratorType": "nvidia-l4",
        "acceleratorCount": "2",
        "gpuDriverInstallationConfig": {"gpuDriverVersion": "DEFAULT"},
    }
    # Except for the GPUs, these nodes are like the others.
    assert {**gpu_pool["config"], "machineType": "", "accelerators": []} == {
        **pool["config"],
        "machineType": "",
        "accelerators": [],
    }

    def members(end: str, method: str = "POST") -> set[tuple[str, str]]:
        policies = [sent.get("policy", sent) for sent in google.sent(method, end)]
        return {(bound["role"], who) for policy in policies for bound in policy["bindings"] for who in bound["members"]}

    assert members("/projects/my-project:setIamPolicy") == {
        ("roles/container.defaultNodeServiceAccount", f"serviceAccount:{nodes}"),
        ("roles/aiplatform.user", f"serviceAccount:{launcher}"),
        ("roles/logging.viewer", f"serviceAccount:{launcher}"),
    }
    assert members("/repositories/qcnn:setIamPolicy") == {("roles/artifactregistry.reader", f"serviceAccount:{nodes}")}
    assert members("/b/my-project-qcnn/iam", "PUT") == {
        ("roles/storage.objectUser", f"serviceAccount:{worker}"),
        ("roles/storage.objectUser", f"serviceAccount:{launcher}"),
        ("roles/storage.objectViewer", f"serviceAccount:{viewer}"),
    }
    assert members(f"/{worker}:setIamPolicy") == {
        ("roles/iam.serviceAccountUser", f"serviceAccount:{launcher}"),
        *(
            ("roles/iam.workloadIdentityUser", f"serviceAccount:my-project.svc.id.goog[kubeflow/{account}]")
            for account in ("qcnn-worker", "pipeline-runner")
        ),
    }
