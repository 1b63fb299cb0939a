"""Test processes that are forked from a process with all libraries loaded.

The tests use the fork server of qcnn, with one server per session instead of one per run. A forked process has a
separate environment, working directory, output, exit code and signal handling. Tests of the behavior while libraries
load must start a new process instead.
"""

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TextIO

import pytest

from qcnn.components.steps.train_local import PRELOADED_MODULES
from qcnn.jobs.local.fork_client import ChildProcess, ForkServer, start_process
from qcnn.jobs.local.fork_protocol import VARIABLE

MODULES = (
    *PRELOADED_MODULES,
    "qcnn.results.evaluate",
    "qcnn.results.report",
    "google.cloud.aiplatform_v1",
    "google.cloud.logging_v2",
    "google.cloud.storage",
    "kfp.compiler",
    "kubernetes.client",
    "qcnn.pipelines.compiler",
    "qcnn.cli.main",
)


@pytest.fixture(scope="session")
def fork_variables() -> Iterator[Mapping[str, str]]:
    """Environment variables of a process whose children are forked."""
    with contextlib.closing(ForkServer(MODULES)) as server:
        # If the operating system does not support forking, processes are started normally.
        yield {VARIABLE: server.address}


@pytest.fixture
def forks(monkeypatch: pytest.MonkeyPatch, fork_variables: Mapping[str, str]) -> None:
    """Fork the processes that a test starts with `run` and those that qcnn starts."""
    for name, value in fork_variables.items():
        monkeypatch.setenv(name, value)


@contextlib.contextmanager
def forked_training(variables: Mapping[str, str]) -> Iterator[None]:
    """Context manager in which training runs of steps and the Python API use the fork server of the session."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in variables.items():
            patch.setenv(name, value)
        yield


@contextlib.contextmanager
def started(*arguments: str, environment: Mapping[str, str] | None = None) -> Iterator[tuple[ChildProcess, TextIO]]:
    """Context manager that starts Python with arguments, yields the process and its output, and kills it."""
    output, written = os.pipe()
    with os.fdopen(output) as printed, Path(os.devnull).open() as nothing:
        process = start_process(
            (sys.executable, *arguments),
            os.environ if environment is None else environment,
            stdin=nothing.fileno(),
            stdout=written,
            stderr=written,
        )
        os.close(written)
        try:
            yield process, printed
        finally:
            process.kill()
            process.wait()


def run(*arguments: str, environment: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run Python with arguments and return the result. The process is forked if they start with -m and a module."""
    with (
        tempfile.TemporaryFile("w+") as out,
        tempfile.TemporaryFile("w+") as err,
        Path(os.devnull).open() as nothing,
    ):
        process = start_process(
            (sys.executable, *arguments),
            os.environ if environment is None else environment,
            stdin=nothing.fileno(),
            stdout=out.fileno(),
            stderr=err.fileno(),
        )
        code = process.wait()
        out.seek(0)
        err.seek(0)
        return subprocess.CompletedProcess(arguments, code, out.read(), err.read())
