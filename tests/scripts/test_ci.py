"""Tests of .ci/run with a stub of make."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
_OF_A_CLUSTER = ("KUBECONFIG", "STORAGE_EMULATOR_HOST")
WITHOUT_A_CLUSTER = ["lint", "types", "test-complete", "test-tfq", "test-oldest", "docs"]
_SECONDS = 120
# FAILS is the name of a program that always fails, or with "once" only at its first call.
_CALLED = """name=$(basename "$0") && echo "$name $*" >>called
case "${FAILS:-}" in
"$name") echo "$name: why" >&2; exit 1 ;;
"$name once") test "$(grep -c "^$name" called)" -gt 1 || exit 1 ;;
esac"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Checkout without a cluster folder next to it, and stubs of the programs that .ci/run calls."""
    folder = tmp_path / "checkout"
    (folder / ".ci").mkdir(parents=True)
    for name in ("run", "cluster"):
        shutil.copy(ROOT / ".ci" / name, folder / ".ci" / name)
    _program(folder / "scripts" / "install-browser", "exit 1")
    _program(tmp_path / "bin" / "make", 'echo "$@" >>made; test "$1" != "${FAILS:-}"')
    return folder


def _program(path: Path, line: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{line}\n")
    path.chmod(0o755)


@pytest.fixture
def cluster(checkout: Path) -> Path:
    """Folder next to the checkout with stubs of the programs that create a cluster."""
    folder = checkout.parent / "shared" / "cluster"
    folder.parent.mkdir()
    folder.mkdir()
    for name in ("install", "down", "build-image"):
        _program(folder / name, _CALLED)
    _program(folder / "up", f"{_CALLED}; echo export KUBECONFIG=its-config")
    _program(folder / "gcs", f'{_CALLED}; test "$1" = down || echo export STORAGE_EMULATOR_HOST=its-buckets')
    _program(checkout.parent / "bin" / "make", 'echo "$@ ${KUBECONFIG:-} ${STORAGE_EMULATOR_HOST:-}" >>made')
    return folder


def _ended(checkout: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    path = f"{checkout.parent / 'bin'}:{os.environ['PATH']}"
    inherited = {
        name: value for name, value in os.environ.items() if name not in ("KUBECONFIG", "STORAGE_EMULATOR_HOST")
    }
    environment = {**inherited, "PATH": path, **environment}
    command = [checkout / ".ci" / "run"]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=_SECONDS)


def _run(checkout: Path, **environment: str) -> int:
    return _ended(checkout, **environment).returncode


def _called(checkout: Path) -> list[str]:
    return [line.split()[0] for line in (checkout / "called").read_text().splitlines()]


def test_ci_without_cluster_and_browser_runs_all_targets(checkout: Path) -> None:
    assert _run(checkout) == 0
    assert (checkout / "made").read_text().split() == WITHOUT_A_CLUSTER


@pytest.mark.parametrize("target", WITHOUT_A_CLUSTER)
def test_ci_stops_at_failing_target(checkout: Path, target: str) -> None:
    assert _run(checkout, FAILS=target) != 0
    assert (checkout / "made").read_text().split()[-1] == target


def test_ci_with_cluster_runs_its_tests_and_stops_it(checkout: Path, cluster: Path) -> None:
    assert _run(checkout) == 0
    made = (checkout / "made").read_text().splitlines()
    # The other tests run in parallel with those on the cluster, without its settings.
    assert [line.strip() for line in made if "its-config" not in line] == WITHOUT_A_CLUSTER
    assert [line for line in made if "its-config" in line] == [
        f"{target} its-config its-buckets"
        for target in ('test-all ARGS=-m "long or not long" tests/qcnn/storage -k gs', "test-cluster")
    ]
    # Down after its tests, and again at the end of the script in case they have failed.
    assert _called(checkout) == ["install", "up", "gcs", "build-image", "gcs", "down", "gcs", "down"]


@pytest.mark.parametrize("target", ["test-complete", "test-cluster"])
def test_ci_with_failing_parallel_target_fails(checkout: Path, cluster: Path, target: str) -> None:
    make = f'echo "$@ ${{KUBECONFIG:-}}" >>made; test "$*" != "{target}" || {{ echo {target} failed; exit 1; }}'
    _program(checkout.parent / "bin" / "make", make)
    done = _ended(checkout)
    assert done.returncode != 0
    assert f"{target} failed" in done.stdout
    assert "docs" not in (checkout / "made").read_text()
    assert _called(checkout)[-2:] == ["gcs", "down"]


def test_failing_ci_shows_earlier_failure_on_cluster(checkout: Path, cluster: Path) -> None:
    os.mkfifo(checkout / "ended")
    # `lint` fails when the tests on the cluster have failed.
    make = 'case "$1" in lint) cat ended; exit 1 ;; test-cluster) exec 3>ended; echo a failing pod; exit 1 ;; esac'
    _program(checkout.parent / "bin" / "make", make)
    done = _ended(checkout)
    assert done.returncode != 0
    assert "a failing pod" in done.stdout


def test_failing_ci_ends_tests_on_cluster_before_cluster(checkout: Path, cluster: Path) -> None:
    os.mkfifo(checkout / "started")
    # `lint` fails when the tests on the cluster have started, which run until SIGTERM.
    tests = "trap 'echo ended >>called; exit 1' TERM; echo up >started; while :; do sleep 0.1; done"
    make = f'case "$1" in lint) read -r up <started; exit 1 ;; test-cluster) {tests} ;; esac'
    _program(checkout.parent / "bin" / "make", make)
    assert _run(checkout) != 0
    assert _called(checkout)[-3:] == ["ended", "gcs", "down"]


def test_ci_recreates_cluster_that_does_not_start(checkout: Path, cluster: Path) -> None:
    assert _run(checkout, FAILS="up once") == 0
    assert _called(checkout)[1:4] == ["up", "down", "up"]
    assert "down --wipe" in (checkout / "called").read_text()


@pytest.mark.parametrize("program", ["install", "up", "build-image"])
def test_ci_without_working_cluster_reports_reason_and_stops_it(checkout: Path, cluster: Path, program: str) -> None:
    done = _ended(checkout, FAILS=program)
    assert done.returncode != 0
    assert f"{program}: why" in done.stdout
    assert "test-cluster" not in (checkout / "made").read_text()
    assert _called(checkout)[-2:] == ["gcs", "down"]
