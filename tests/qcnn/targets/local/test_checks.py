"""Checks of this machine: what is enough, what is a warning, and what would end a training."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import qcnn
from qcnn.errors import ConfigError
from qcnn.process.operating_system import Memory
from qcnn.targets.checks import DrawbackError, UnknownError
from qcnn.targets.local import checks

GIB = 2**30
PROXY = {"http_proxy": "http://proxy:3128"}


@pytest.mark.parametrize(
    ("check", "found"),
    [
        (lambda: checks.python("3.11.0"), "3.11.0"),
        (lambda: checks.python("3.13.9"), "3.13.9"),
        (lambda: checks.process_limits({}), "none"),
        (lambda: checks.process_limits({"-v": 8 * GIB}), f"ulimit -v {8 * GIB}"),
        (lambda: checks.cores(2), "2, "),
        (lambda: checks.memory(Memory(8 * GIB, 6 * GIB), are_forked=True), "6 GiB of 8 GiB are available"),
        (lambda: checks.proxy({}), "none"),
        (lambda: checks.proxy({**PROXY, "no_proxy": "a,127.0.0.1"}), "http_proxy"),
        (lambda: checks.compiled_kernels(""), "those of statevector_cpu"),
        (lambda: checks.gpus(0, 0), "none"),
        (lambda: checks.gpus(2, 2), "2"),
        (lambda: checks.shared_memory(GIB, 2), "/dev/shm has 1 GiB"),
    ],
)
def test_sufficient_machine_passes(check: Callable[[], str], found: str) -> None:
    assert check().startswith(found)


@pytest.mark.parametrize(
    ("check", "kind", "message"),
    [
        (lambda: checks.python("3.10.4"), ConfigError, r"Python: must be .*>=3\.11.*\. Given: 3\.10\.4$"),
        (lambda: checks.python("3.14.0"), ConfigError, r"Given: 3\.14\.0$"),
        (lambda: checks.package("another: pip uninstall qcnn"), DrawbackError, "^another"),
        (lambda: checks.libraries("tfq"), ConfigError, r"a training needs TensorFlow Quantum: pip install .*\[tfq\]"),
        (lambda: checks.process_limits({"-v": GIB}), ConfigError, "ulimit -v: must be unlimited or at least 5 GiB"),
        (lambda: checks.process_limits({"-v": 4 * GIB}), DrawbackError, "ulimit -v: must be unlimited"),
        (lambda: checks.cores(1), DrawbackError, "2 workers share 1 core"),
        (
            lambda: checks.memory(Memory(GIB / 2, GIB / 2, is_limited=True), are_forked=True),
            ConfigError,
            "at least .* of memory; the limit of this container is",
        ),
        (lambda: checks.memory(Memory(8 * GIB, GIB / 2), are_forked=True), DrawbackError, "of 8 GiB are available"),
        (lambda: checks.proxy(PROXY), DrawbackError, r"add it to no_proxy\. Given: http_proxy without it"),
        (lambda: checks.proxy({"ALL_PROXY": "x", "NO_PROXY": "a"}), DrawbackError, "Given: ALL_PROXY"),
        (lambda: checks.compiled_kernels("no C compiler"), DrawbackError, "no C compiler; simulator auto takes"),
        (lambda: checks.gpus(2, 0), ConfigError, r"all of the 2 of the driver: pip install .*\[gpu\].*\. Given: 0$"),
        (lambda: checks.shared_memory(GIB // 16, 2), ConfigError, r"--shm-size=1g\. Given: 64 MiB$"),
        (lambda: checks.shared_memory(GIB // 16, 0), DrawbackError, "--shm-size=1g; it has 64 MiB$"),
        (lambda: checks.shared_memory(None, 0), UnknownError, "no /dev/shm"),
    ],
)
def test_insufficient_machine_has_reason(check: Callable[[], str], kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        check()


def test_doctor_checks_this_machine_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = {finding.check: finding for finding in qcnn.doctor(output="out")}
    assert not [finding for finding in found.values() if finding.state == "failed"]
    assert re.fullmatch(r"TensorFlow \d+\.\d+\.\d+", found["TensorFlow"].found)
    assert found["GPUs"].state == found["runs"].state == found["output"].state == "passed"
    assert not list(tmp_path.iterdir())


def test_command_exits_with_1_under_a_limit_that_is_too_small(tmp_path: Path) -> None:
    command = f"ulimit -v {2**21}; exec {sys.executable} -m qcnn.cli doctor --format json"
    done = subprocess.run(
        ["sh", "-c", command], cwd=tmp_path, env=os.environ, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1, done.stderr
    found = {finding["check"]: finding for finding in json.loads(done.stdout)}
    assert found["limits"]["state"] == found["TensorFlow"]["state"] == "failed"
    assert "ulimit -v: must be unlimited or at least 5 GiB" in found["TensorFlow"]["found"]
    assert found["GPUs"] == {"check": "GPUs", "state": "unknown", "found": "needs the check TensorFlow"}
