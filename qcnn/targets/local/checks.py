"""Checks of this machine before a local run."""

import functools
import importlib.metadata
import json
import os
import platform
import subprocess
import sys
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path

from qcnn.errors import ConfigError, single_line
from qcnn.experiment.config import ExperimentConfig
from qcnn.planning.checks import missing_cores, missing_memory
from qcnn.planning.memory import minimum_bytes
from qcnn.process import extras, installation, limits, operating_system
from qcnn.process.operating_system import Memory
from qcnn.simulators import kernels
from qcnn.simulators.costs.cost import format_bytes
from qcnn.storage.store import proxies_in
from qcnn.targets.checks import Check, DrawbackError, UnknownError
from qcnn.targets.output_check import check_folder

# Loads TensorFlow like a training process, and prints its release and number of GPUs.
_LOAD = """
import json
from qcnn.process.library_loading import load_tensorflow
load_tensorflow()
import tensorflow as tf
print(json.dumps([tf.__version__, len(tf.config.list_physical_devices("GPU"))]))
"""
# Loading takes minutes on a busy machine.
_LOAD_SECONDS = 300.0
# NCCL, which connects GPUs of one machine, recommends this size ("Troubleshooting: Shared memory").
_SHARED_MEMORY_BYTES = 2**30
# Read by gRPC only.
_GRPC_PROXIES = ("grpc_proxy", "GRPC_PROXY")
# Host of processes of this machine.
_HOST = "127.0.0.1"


def local_checks(runs: Path) -> Sequence[Check]:
    """Return the checks of this machine.

    Args:
        runs: Folder for runs.
    """
    # Loaded by one check and read by a later one.
    load = functools.cache(_load_tensorflow)
    return (
        Check("Python", lambda: python(platform.python_version())),
        Check("package", lambda: package(installation.other_distribution())),
        Check("libraries", lambda: libraries("run")),
        Check("limits", lambda: process_limits(limits.process_limits())),
        Check("cores", lambda: cores(operating_system.cores())),
        Check("memory", lambda: memory(operating_system.memory(), are_forked=operating_system.has_fork_server())),
        Check("proxy", lambda: proxy(os.environ)),
        Check("runs", lambda: check_folder("runs", runs)),
        Check("kernels", lambda: compiled_kernels(kernels.missing_reason()), "libraries"),
        Check("TensorFlow", lambda: f"TensorFlow {load()[0]}", "libraries", _LOAD_SECONDS),
        Check("GPUs", lambda: gpus(operating_system.gpus(), load()[1]), "TensorFlow"),
        Check("shared memory", lambda: shared_memory(_shared_bytes(), operating_system.gpus())),
    )


def python(version: str) -> str:
    """Return the version of Python.

    Raises:
        ConfigError: If the package does not support it.
    """
    supported = importlib.metadata.metadata(installation.DISTRIBUTION)["Requires-Python"]
    low, high = (tuple(map(int, part.lstrip("<>=").split("."))) for part in sorted(supported.split(","), reverse=True))
    if not low <= tuple(map(int, version.split(".")[:2])) < high:
        raise ConfigError(f"Python: must be {supported}. Given: {version}")
    return f"{version}, {platform.platform(terse=True)}"


def package(other: str | None) -> str:
    """Return the version of this package.

    Args:
        other: Warning about another distribution with files of the same names, or None.

    Raises:
        DrawbackError: If there is one.
    """
    if other:
        raise DrawbackError(other)
    return f"{installation.DISTRIBUTION} {installation.version()}"


def libraries(extra: str) -> str:
    """Return the extra whose libraries are installed.

    Raises:
        ConfigError: If one is missing.
    """
    try:
        extras.check(extra)
    except ModuleNotFoundError as error:
        raise ConfigError(extras.missing(error, "a training", extra) or str(error)) from None
    return f"those of the extra {extra} are installed"


def process_limits(found: Mapping[str, int]) -> str:
    """Return the limits of this process (ulimit).

    Raises:
        ConfigError: If TensorFlow cannot start with one of them.
        DrawbackError: If two workers may reach one of them.
    """
    limits.check_limits(found)
    if small := limits.reached_limit("", found, crashed=True):
        raise DrawbackError(small)
    return ", ".join(f"ulimit {flag} {limit}" for flag, limit in found.items()) or "none"


def cores(count: int) -> str:
    """Return the number of cores.

    Raises:
        DrawbackError: If the workers of a default experiment share cores.
    """
    if line := missing_cores(ExperimentConfig().workers, count):
        raise DrawbackError(line)
    return f"{count}, {operating_system.processor()}"


def memory(found: Memory, *, are_forked: bool) -> str:
    """Return the available memory.

    Args:
        found: Memory of this machine or container.
        are_forked: Whether processes share the memory of the libraries.

    Raises:
        ConfigError: If a default experiment needs more than there is.
        DrawbackError: If it needs more than is available now.
    """
    processes = ExperimentConfig().workers
    needed = minimum_bytes(processes, 0.0, are_forked=are_forked)
    if line := missing_memory(processes, needed, found):
        if needed > found.total:
            raise ConfigError(f"{line}. Given: {processes}")
        raise DrawbackError(line)
    return f"{format_bytes(found.available)} of {format_bytes(found.total)} are available"


def proxy(environment: Mapping[str, str]) -> str:
    """Return the proxies of this environment.

    Raises:
        DrawbackError: If a proxy applies to this machine itself.
    """
    found = [*proxies_in(environment), *(name for name in _GRPC_PROXIES if environment.get(name))]
    excluded = {"no": environment.get("no_proxy") or environment.get("NO_PROXY") or ""}
    # typeshed lacks this function, which Python's HTTP client uses.
    if found and not urllib.request.proxy_bypass_environment(_HOST, excluded):  # type: ignore[attr-defined]
        raise DrawbackError(
            f"proxy: must not apply to {_HOST}, where local servers and emulators run; add it to no_proxy. "
            f"Given: {', '.join(found)} without it in no_proxy"
        )
    return ", ".join(found) or "none"


def compiled_kernels(missing: str) -> str:
    """Return that the kernels of statevector_cpu can run.

    Args:
        missing: Why they cannot, or empty.

    Raises:
        DrawbackError: If they cannot.
    """
    if missing:
        raise DrawbackError(f"statevector_cpu: {missing}; simulator auto takes another one")
    return "those of statevector_cpu can run"


def _load_tensorflow() -> tuple[str, int]:
    """Load TensorFlow in another process, and return its version and its number of GPUs.

    Raises:
        ConfigError: If it cannot be loaded.
    """
    command = [sys.executable, "-c", _LOAD]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_LOAD_SECONDS)
    except subprocess.TimeoutExpired:
        raise ConfigError(f"TensorFlow: must load within {_LOAD_SECONDS:g} s. Given: longer") from None
    if done.returncode:
        last = (done.stderr.strip() or f"exit code {done.returncode}").splitlines()[-1]
        raise ConfigError(
            f"TensorFlow: must load; install it again: {installation.install_command('run')}. "
            f"Given: {single_line(last)}"
        )
    version, count = json.loads(done.stdout.splitlines()[-1])
    return version, count


def gpus(offered: int, used: int) -> str:
    """Return the number of GPUs.

    Args:
        offered: Number of GPUs of the driver.
        used: Number of GPUs that TensorFlow finds.

    Raises:
        ConfigError: If TensorFlow does not find all GPUs.
    """
    if used < offered:
        raise ConfigError(
            f"GPUs: TensorFlow must find all of the {offered} of the driver: {installation.install_command('gpu')}. "
            f"Given: {used}"
        )
    return str(used) if used else "none"


def _shared_bytes() -> int | None:
    """Return the size of /dev/shm, or None without it, as on macOS."""
    try:
        state = os.statvfs("/dev/shm")
    except OSError:
        return None
    return state.f_blocks * state.f_frsize


def shared_memory(size: int | None, count: int) -> str:
    """Return the size of /dev/shm.

    Args:
        size: Its size in bytes, or None without it.
        count: Number of GPUs.

    Raises:
        ConfigError: If it is too small for several GPUs.
        DrawbackError: If it would be.
        UnknownError: If this operating system has none.
    """
    if size is None:
        raise UnknownError("this system has no /dev/shm")
    found = format_bytes(size)
    if size >= _SHARED_MEMORY_BYTES:
        return f"/dev/shm has {found}"
    line = f"/dev/shm: several GPUs need {format_bytes(_SHARED_MEMORY_BYTES)}, as with docker run --shm-size=1g"
    if count > 1:
        raise ConfigError(f"{line}. Given: {found}")
    raise DrawbackError(f"{line}; it has {found}")
