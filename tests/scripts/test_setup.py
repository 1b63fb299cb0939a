"""Tests of the setup with missing prerequisites."""

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

from tests.scripts_as_modules import load_script

ROOT = Path(__file__).parents[2]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for name in ("Makefile", "pyproject.toml", "uv.lock"):
        shutil.copy(ROOT / name, tmp_path)
    shutil.copytree(ROOT / "scripts", tmp_path / "scripts")
    return tmp_path


def _make(checkout: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    # A closed port simulates a missing network.
    offline = dict.fromkeys(("https_proxy", "HTTPS_PROXY", "http_proxy", "ALL_PROXY"), "http://127.0.0.1:9")
    # Removes the variables of the make process that may run these tests.
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


def test_setup_without_suitable_python_fails(checkout: Path) -> None:
    finished = _make(checkout, PYTHON="false")
    assert finished.returncode != 0
    assert _first_line(finished.stderr).startswith("setup: Python 3.11, 3.12 or 3.13 is required")
    assert not (checkout / ".venv").exists()


def test_setup_without_network_fails(checkout: Path) -> None:
    finished = _make(checkout, PYTHON=sys.executable)
    assert finished.returncode != 0
    assert _first_line(finished.stderr).startswith("setup: uv cannot be downloaded; check the network. Given: ")
    assert not (checkout / ".venv").exists()
    assert not (checkout / ".uv").exists()


def test_setup_with_failing_installation_fails(checkout: Path) -> None:
    uv = checkout / ".uv" / "uv"
    uv.parent.mkdir()
    uv.write_text("#!/bin/sh\necho 'error: Failed to fetch' >&2\necho '  Caused by: no route' >&2\nexit 2\n")
    uv.chmod(0o755)
    finished = _make(checkout, PYTHON=sys.executable)
    assert finished.returncode != 0
    assert "Given: Caused by: no route (more in " in _first_line(finished.stderr)
    assert not (checkout / ".venv" / ".complete").exists()


@pytest.mark.skipif(platform.system() != "Linux", reason="kernels are compiled on Linux")
@pytest.mark.parametrize(
    ("reason", "advice"),
    [
        ("not compiled at installation, no C compiler (cc)", ". With a C compiler, make kernels adds it"),
        ("TensorFlow 2.18.1 has no XLA_FFI_GetApi", ""),
        ("", ""),
    ],
)
def test_setup_reports_missing_kernels(checkout: Path, reason: str, advice: str) -> None:
    uv = checkout / ".uv" / "uv"
    uv.parent.mkdir()
    installed = f"""for name in python qcnn; do
      printf '#!/bin/sh\\ntest "$1" != -c || echo "{reason}"\\n' >".venv/bin/$name"
      chmod +x ".venv/bin/$name"
    done"""
    uv.write_text(f"#!/bin/sh\nmkdir -p .venv/bin\n{installed}\n")
    uv.chmod(0o755)
    finished = _make(checkout, PYTHON=sys.executable)
    assert finished.returncode == 0, finished.stderr
    _, *lines = finished.stdout.splitlines()
    assert lines == ([f"setup: statevector_cpu: {reason}; other simulators run{advice}"] if reason else [])


def test_make_without_target_prints_targets(checkout: Path) -> None:
    printed = subprocess.run(["make"], cwd=checkout, capture_output=True, text=True, check=True).stdout
    assert "make run " in printed
    assert "make test " in printed


@pytest.fixture
def setup() -> types.ModuleType:
    """Return the script as a module."""
    return load_script(ROOT / "scripts" / "setup.py")


@pytest.mark.parametrize(
    ("system", "machine", "tag"),
    [
        ("Linux", "x86_64", "manylinux_2_17_x86_64"),
        ("Linux", "aarch64", "manylinux_2_17_aarch64"),
        ("Darwin", "arm64", "macosx_11_0_arm64"),
    ],
)
def test_download_with_wrong_hash_extracts_nothing(
    setup: types.ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, system: str, machine: str, tag: str
) -> None:
    monkeypatch.setattr(platform, "system", lambda: system)
    monkeypatch.setattr(platform, "machine", lambda: machine)
    monkeypatch.setattr(urllib.request, "urlopen", lambda url, timeout: io.BytesIO(url.encode()))
    message = rf"^setup: the hash of the downloaded uv must be .* Given: https://.*/uv-[^/]*{tag}[^/]*\.whl$"
    with pytest.raises(SystemExit, match=message):
        setup.download(tmp_path / "uv")
    assert not list(tmp_path.iterdir())


def test_download_on_unsupported_platform_fails(
    setup: types.ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(platform, "system", lambda: "Darwin")
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    allowed = "Linux x86_64, Linux aarch64, Darwin arm64"
    with pytest.raises(SystemExit, match=rf"^setup: .* not supported; allowed: {allowed}. Given: Darwin x86_64$"):
        setup.download(tmp_path / "uv")
