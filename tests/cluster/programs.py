"""Child processes that use the cluster, and their output."""

import contextlib
import json
import os
import re
import signal
from pathlib import Path
from typing import Any

from tests.forks import started


class Program:
    """Child process of a Python module, whose output is read on demand."""

    def __init__(self, kubeconfig: Path, module: str, *arguments: str) -> None:
        self.output = ""
        environment = {**os.environ, "KUBECONFIG": str(kubeconfig)}
        self._stack = contextlib.ExitStack()
        self.process, self._printed = self._stack.enter_context(
            started("-m", module, *arguments, environment=environment)
        )

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the process."""
        os.kill(self.process.pid, number)

    def wait_for_line(self, pattern: str) -> str:
        """Wait for a line that matches a pattern, and return it."""
        for line in self._printed:
            self.output += line
            if re.search(pattern, line):
                return line
        raise AssertionError(f"no line matches {pattern!r}:\n{self.output}")

    def lines(self, process: str) -> list[str]:
        """Return the forwarded lines of a process of a job."""
        prefix = f"[{process}] "
        return [line.removeprefix(prefix) for line in self.output.splitlines() if line.startswith(prefix)]

    @property
    def restarts(self) -> int:
        """Number of logged restarts of processes or of the job."""
        return len(re.findall("is restarted|restarting the job", self.output))

    def exit_code(self) -> int:
        """Wait for the process to exit, and return its exit code."""
        self.output += self._printed.read()
        return self.process.wait()

    def close(self) -> None:
        """Kill the process and close its output."""
        self._stack.close()

    @property
    def errors(self) -> list[str]:
        """Error lines of the output."""
        assert "Traceback" not in self.output, self.output
        return [line for line in self.output.splitlines() if line.startswith("error: ")]


class Qcnn:
    """Runner of qcnn commands."""

    def __init__(self, kubeconfig: Path) -> None:
        self.kubeconfig = kubeconfig
        self._started: list[Program] = []

    def start(self, *arguments: str) -> Program:
        """Start a command."""
        program = Program(self.kubeconfig, "qcnn.cli", *arguments)
        self._started.append(program)
        return program

    def __call__(self, *arguments: str, code: int = 0) -> str:
        """Run a command, check its exit code and return its output."""
        program = self.start(*arguments)
        assert program.exit_code() == code, program.output
        assert "Traceback" not in program.output, program.output
        return program.output

    def read(self, *arguments: str) -> Any:
        """Run a command with `--format json`, and return its result. Warnings may precede the last line."""
        return json.loads(self(*arguments, "--format", "json").splitlines()[-1])

    def close(self) -> None:
        """Kill all commands that still run."""
        for program in self._started:
            program.close()
