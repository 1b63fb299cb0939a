"""The set-up on machines that lack something: one line, non-zero exit, nothing half-made."""

import importlib.util
import io
import os
import platform
import shutil
import subprocess
import sys
import types
import urllib.request
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for name in ("Makefile", "pyproject.toml", "uv.lock"):
        shutil.copy(ROOT / name, tmp_path)
    shutil.copytree(ROOT / "scripts", tmp_path / "scripts")
    return tmp_path


def _make(checkout: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    # A port that nothing listens on stands for a network that is not there.
    offline = dict.fromkeys(("https_proxy", "HTTPS_PROXY", "http_proxy", "ALL_PROXY"), "http://127.0.0.1:9")
    # Not a part of the make that may run these tests.
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    return subprocess.run(
        ["make", "--silent", "run"],
        cwd=checkout,
        env={**inherited, **offline, "no_proxy": "", "NO_PROXY": "", **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def _first_line(text: str) -> str:
    lines = [line for line in text.splitlines() if not line.startswith("make: ***")]
    assert len(lines) == 1, text
    return lines[0]


def test_no_suitable_python(checkout: Path) -> None:
    finished = _make(checkout, PYTHON="false")
    assert finished.returncode != 0
    assert _first_line(finished.stderr).startswith("setup: Python 3.10, 3.11 or 3.12 is needed")
    assert not (checkout / ".venv").exists()


def test_no_network(checkout: Path) -> None:
    finished = _make(checkout, PYTHON=sys.executable)
    assert finished.returncode != 0
    assert _first_line(finished.stderr).startswith("setup: uv cannot be downloaded; is there a network? Given: ")
    assert not (checkout / ".venv").exists()
    assert not (checkout / ".uv").exists()


def test_packages_that_cannot_be_installed(checkout: Path) -> None:
    uv = checkout / ".uv" / "uv"
    uv.parent.mkdir()
    uv.write_text("#!/bin/sh\necho 'error: Failed to fetch' >&2\necho '  Caused by: no route' >&2\nexit 2\n")
    uv.chmod(0o755)
    finished = _make(checkout, PYTHON=sys.executable)
    assert finished.returncode != 0
    assert "Given: Caused by: no route (more in " in _first_line(finished.stderr)
    assert not (checkout / ".venv" / ".complete").exists()


def test_bare_make_prints_the_targets(checkout: Path) -> None:
    printed = subprocess.run(["make"], cwd=checkout, capture_output=True, text=True, check=True).stdout
    assert "make run " in printed
    assert "make test " in printed


@pytest.fixture
def setup() -> types.ModuleType:
    """The script as a module."""
    spec = importlib.util.spec_from_file_location("setup_script", ROOT / "scripts" / "setup.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("system", "machine", "tag"),
    [
        ("Linux", "x86_64", "manylinux_2_17_x86_64"),
        ("Linux", "aarch64", "manylinux_2_17_aarch64"),
        ("Darwin", "arm64", "macosx_11_0_arm64"),
    ],
)
def test_uv_is_that_of_the_platform_and_nothing_else_is_unpacked(
    setup: types.ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, system: str, machine: str, tag: str
) -> None:
    monkeypatch.setattr(platform, "system", lambda: system)
    monkeypatch.setattr(platform, "machine", lambda: machine)
    monkeypatch.setattr(urllib.request, "urlopen", lambda url, timeout: io.BytesIO(url.encode()))
    refused = (
        rf"^setup: the downloaded uv is not the one that uv.lock names. Given: https://.*/uv-[^/]*{tag}[^/]*\.whl$"
    )
    with pytest.raises(SystemExit, match=refused):
        setup.download(tmp_path / "uv")
    assert not list(tmp_path.iterdir())


def test_another_platform_is_refused_in_one_line(
    setup: types.ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(platform, "system", lambda: "Darwin")
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    allowed = "Linux x86_64, Linux aarch64, Darwin arm64"
    with pytest.raises(SystemExit, match=rf"^setup: .* not supported; allowed: {allowed}. Given: Darwin x86_64$"):
        setup.download(tmp_path / "uv")
