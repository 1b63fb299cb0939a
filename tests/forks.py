"""Processes of tests that load nothing: all are forked from one that has loaded what they need.

It is the program's own fork server, which serves all tests of a session rather than one run. A process that it forks is
one of its own in all else: environment, folder, output, signals and exit code. What is read or said when a library is
loaded is seen only in a process that is started anew.
"""

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TextIO

import pytest

from qcnn.api import trainings
from qcnn.components.steps.train_local import LOADED
from qcnn.jobs.local.fork_client import ChildProcess, fork_server, start_process
from qcnn.jobs.local.fork_protocol import VARIABLE

_MODULES = (
    *LOADED,
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
# `qcnn.startup.loading` sets it in every process: from then on it is in what a process hands down.
_SET_BY_LOADING = {"TF_CPP_MIN_LOG_LEVEL": "2"}


@pytest.fixture(scope="session")
def fork_variables() -> Iterator[Mapping[str, str]]:
    """The variables of a process whose children are forked."""
    with contextlib.ExitStack() as stack:
        with pytest.MonkeyPatch.context() as patch:
            for name, value in _SET_BY_LOADING.items():
                patch.setenv(name, value)
            stack.enter_context(fork_server(_MODULES))
        # Where the operating system allows none, all processes are started anew.
        yield {VARIABLE: os.environ.pop(VARIABLE, ""), **_SET_BY_LOADING}


@pytest.fixture
def forks(monkeypatch: pytest.MonkeyPatch, fork_variables: Mapping[str, str]) -> None:
    """What this test starts by `run`, or the program by its own means, is forked."""
    for name, value in fork_variables.items():
        monkeypatch.setenv(name, value)


@contextlib.contextmanager
def trainings_forked(variables: Mapping[str, str]) -> Iterator[None]:
    """Have trainings in this block, by steps or the Python interface, start no fork server, but use the one of all."""

    def none(_: Sequence[str]) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    with pytest.MonkeyPatch.context() as patch:
        for name, value in variables.items():
            patch.setenv(name, value)
        patch.setattr(trainings, "fork_server", none)
        yield


@contextlib.contextmanager
def started(*arguments: str, environment: Mapping[str, str] | None = None) -> Iterator[tuple[ChildProcess, TextIO]]:
    """Start Python with these arguments in the folder of this process; yield it with what it prints, and end it."""
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
    """Run Python with these arguments, -m and a module to be forked, in the folder of this process to its end."""
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
