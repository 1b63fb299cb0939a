"""Contents of the image, as far as Dockerfile and .dockerignore determine them."""

import fnmatch
import re
import subprocess
from pathlib import Path, PurePosixPath

import pytest

from qcnn.jobs.pod_settings import secrets_in
from qcnn.jobs.references import gpu_image

ROOT = Path(__file__).parents[2]
DOCKERFILE = (ROOT / "Dockerfile").read_text()
IGNORED = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line and not line.startswith("#")]
SECRETS = [
    *(".env", ".git/config", "kubeconfig", ".netrc", "key.json", "runs/a", "infra/network.py"),
    *(f"trainer/{name}" for name in (".env", ".env.local", ".netrc", ".git/config", "server.key", "key.pem", "id_rsa")),
    *(
        "qcnn/cli/kubeconfig",
        "qcnn/cli/my-kubeconfig.yaml",
        "qcnn/jobs/secret.json",
        "examples/my-service-account.json",
    ),
    *("examples/application_default_credentials.json", "components/steps/credentials", "pipelines/.pypirc"),
]


def _is_sent(path: str) -> bool:
    """Return whether docker sends a file to the builder.

    The last pattern that matches the file or one of its folders takes precedence.
    """
    sent = True
    parts = PurePosixPath(path).parts
    prefixes = ["/".join(parts[:end]) for end in range(1, len(parts) + 1)]
    for line in IGNORED:
        pattern = line.removeprefix("!")
        # "*" does not match a slash, "**" does.
        names = (
            parts
            if pattern.startswith("**/")
            else [prefix for prefix in prefixes if prefix.count("/") == pattern.count("/")]
        )
        if any(fnmatch.fnmatchcase(name, pattern.removeprefix("**/")) for name in names):
            sent = line.startswith("!")
    return sent


@pytest.mark.parametrize("path", SECRETS)
def test_secrets_are_not_sent_to_builder(path: str) -> None:
    assert not _is_sent(path)


def test_packages_are_sent_to_builder() -> None:
    for package in ("components", "examples", "pipelines", "qcnn", "trainer"):
        for path in (ROOT / package).rglob("*.py"):
            assert _is_sent(path.relative_to(ROOT).as_posix()), path
    assert all(map(_is_sent, ("pyproject.toml", "uv.lock", "LICENSE", "examples/pod.yaml", "deploy/rbac.yaml")))


def _last_stage() -> str:
    return re.split(r"^FROM ", DOCKERFILE, flags=re.MULTILINE)[-1]


def test_image_runs_as_uid_10001_without_setuid_files() -> None:
    stage = _last_stage()
    assert re.findall(r"^USER (\S+)$", stage, re.MULTILINE) == ["10001:10001"]
    assert "find / -xdev -type f -perm /6000 -exec chmod a-s {} +" in stage
    # pip creates the copied files, and sets no setuid bits.
    assert set(re.findall(r"^COPY (\S+)", stage, re.MULTILINE)) == {
        "--from=dependencies",
        "--from=project",
        "--from=contents",
    }


def test_build_arguments_contain_no_secret() -> None:
    named = dict.fromkeys(re.findall(r"(?:^ARG |^ENV | )([A-Z][A-Z_]+)=", DOCKERFILE, re.MULTILINE), "x")
    named |= dict.fromkeys(re.findall(r"^ARG (\w+)", DOCKERFILE, re.MULTILINE), "x")
    assert {"BASE_IMAGE", "QCNN_COMMIT", "PYTHONPATH"} <= named.keys()
    assert not secrets_in(named)


def test_all_stages_have_same_base_image() -> None:
    assert set(re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE)) == {"${BASE_IMAGE}"}
    assert DOCKERFILE.count("ARG BASE_IMAGE=") == 1
    assert "sbom.json /usr/share/qcnn/sbom.json" in _last_stage()


@pytest.mark.parametrize(
    ("extra", "installed"),
    [
        ("", "run vertex mlflow kubeflow-registry"),
        ("gpu", "run vertex mlflow kubeflow-registry gpu"),
        ("tfq", "tfq"),
    ],
)
def test_extra_is_installed_on_request_only(extra: str, installed: str) -> None:
    (selection,) = re.findall(r"RUN (case (?:.*\\\n)*? *esac)", DOCKERFILE)
    command = ["sh", "-euc", f"{selection}\necho $extras"]
    printed = subprocess.run(command, env={"EXTRA": extra}, capture_output=True, text=True, check=True).stdout
    assert printed.split() == [part for name in installed.split() for part in ("--extra", name)]
    assert len(re.findall(r"uv export .*--no-default-groups \$extras", DOCKERFILE)) == 2
    # Empty by default, in each stage that uses it.
    assert re.findall(r"^ARG EXTRA(.*)$", DOCKERFILE, re.MULTILINE) == ["=", "=", "="]
    assert re.findall(r"LD_LIBRARY_PATH=(.*)$", _last_stage(), re.MULTILINE) == ["${EXTRA:+/usr/local/nvidia/lib64}"]


@pytest.mark.parametrize(
    ("variables", "build", "pushed"),
    [
        ((), "docker build --tag qcnn:latest  --build-arg QCNN_COMMIT", "host/qcnn:1"),
        (
            ("EXTRA=gpu",),
            "docker build --tag qcnn:latest-gpu --build-arg EXTRA=gpu --build-arg QCNN_COMMIT",
            "host/qcnn:1-gpu",
        ),
    ],
)
def test_make_tags_gpu_image_with_suffix(variables: tuple[str, ...], build: str, pushed: str) -> None:
    def printed(*arguments: str) -> str:
        command = ["make", "--silent", *arguments, "REGISTRY=host", "TAG=1", *variables]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout

    assert build in printed("--dry-run", "image")
    # The recipe of `push` also runs with --dry-run, because it calls make.
    assert printed("--eval=pushed: ; @echo '$(image)'", "pushed") == f"{pushed}\n"
    assert pushed in ("host/qcnn:1", gpu_image("image", "host/qcnn:1"))


def test_dockerfile_is_independent_of_architecture() -> None:
    # The lock file has markers for packages that an architecture lacks (tests/test_lock.py).
    assert not re.findall(r"x86|amd64|aarch64|arm64|TARGETARCH|--platform", DOCKERFILE.partition("ARG BASE_IMAGE")[2])
