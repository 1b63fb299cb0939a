"""Features of Linux, and behavior on platforms without them."""

import contextlib
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from qcnn.jobs.local.fork_client import ForkServer, start_process
from qcnn.process import operating_system
from tests import macos_emulation

QCNN = str(Path(sys.executable).with_name("qcnn"))
SMALL = ["--qubits", "4", "--rounds", "10", "--epochs", "1", "--batch-size", "8"]


def test_descriptors_are_found_without_proc(monkeypatch: pytest.MonkeyPatch) -> None:
    with Path(os.devnull).open() as opened:
        for folders in (operating_system._DESCRIPTORS, operating_system._DESCRIPTORS[1:], ()):
            monkeypatch.setattr(operating_system, "_DESCRIPTORS", folders)
            assert {0, 1, 2, opened.fileno()} <= operating_system.descriptors()


def test_is_same_user_is_false_without_peer_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    connection, other = socket.socketpair()
    with connection, other:
        assert operating_system.is_same_user(connection)
        monkeypatch.delattr(socket, "SO_PEERCRED")
        assert not operating_system.is_same_user(connection)


def test_start_process_without_fork_server_starts_new_process(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delattr(socket, "SO_PEERCRED")
    with contextlib.closing(ForkServer(("no_module_is_loaded",))) as server:
        assert not server.is_ready
        command = (sys.executable, "-m", "this")
        process = start_process(command, os.environ, stdin=0, stdout=1, stderr=2, address=server.address)
        assert isinstance(process, subprocess.Popen)
        assert process.wait() == 0
    assert "The Zen of Python" in capfd.readouterr().out


@pytest.mark.parametrize(("system", "file"), [("linux", "liba.so.2"), ("darwin", "liba.2.dylib")])
def test_shared_library_name_depends_on_platform(system: str, file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", system)
    assert operating_system.shared_library("a", 2) == file


def _emulated(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    variables = macos_emulation.environment(folder / "elsewhere") | {"XDG_CACHE_HOME": str(folder)}
    return subprocess.run([QCNN, *arguments], cwd=folder, env=variables, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("command", ["run", "plan"])
def test_simulator_unsupported_on_platform_is_rejected(tmp_path: Path, command: str) -> None:
    done = _emulated(tmp_path, command, *SMALL, "--simulator", "tfq")
    needs = "tfq needs tensorflow-quantum, which is published for Linux on x86-64 only"
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"error: simulator: {needs}. Given: tfq on {macos_emulation.PLATFORM}\n"
    assert {path.name for path in tmp_path.iterdir()} == {"elsewhere"}


@pytest.mark.long
def test_plan_on_other_platform(tmp_path: Path) -> None:
    done = _emulated(tmp_path, "plan", *SMALL, "--format", "json")
    assert done.returncode == 0, done.stderr
    simulators = json.loads(done.stdout)["simulators"]
    assert simulators["tfq"]["flops"] is None
    assert simulators["statevector"]["flops"]


@pytest.mark.long
def test_run_on_other_platform(tmp_path: Path) -> None:
    done = _emulated(tmp_path, "run", *SMALL, "--workers", "2")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "test MSE" in done.stdout
    assert "remains open to other machines (Darwin cannot bind a listening socket to an interface)" in done.stdout
    assert "(local connections only)" not in done.stdout
