"""What .ci/run runs, with a make that only says what it was asked for."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WITHOUT_A_CLUSTER = ["lint", "types", "test", "test-long", "docs"]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout beside which nothing lies, and the programs that .ci/run calls."""
    folder = tmp_path / "checkout"
    (folder / ".ci").mkdir(parents=True)
    shutil.copy(ROOT / ".ci" / "run", folder / ".ci" / "run")
    _program(folder / "scripts" / "install-browser", "exit 1")
    _program(tmp_path / "bin" / "make", 'echo "$@" >>made; test "$1" != "${FAILS:-}"')
    return folder


def _program(path: Path, line: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{line}\n")
    path.chmod(0o755)


def _run(checkout: Path, **environment: str) -> int:
    path = f"{checkout.parent / 'bin'}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, **environment}
    return subprocess.run([checkout / ".ci" / "run"], env=environment, capture_output=True, check=False).returncode


def test_without_a_cluster_or_a_browser_it_succeeds_when_the_tests_do(checkout: Path) -> None:
    assert _run(checkout) == 0
    assert (checkout / "made").read_text().split() == WITHOUT_A_CLUSTER


@pytest.mark.parametrize("target", WITHOUT_A_CLUSTER)
def test_it_ends_where_something_fails(checkout: Path, target: str) -> None:
    assert _run(checkout, FAILS=target) != 0
    assert (checkout / "made").read_text().split()[-1] == target
