"""Child processes that use the cluster, and their output."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any


class Program:
    """Child process, whose output is read on demand."""

    def __init__(self, kubeconfig: Path, argv: Sequence[str]) -> None:
        self.output = ""
        self.process = subprocess.Popen(
            argv,
            env={**os.environ, "KUBECONFIG": str(kubeconfig)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def wait_for_line(self, pattern: str) -> str:
        """Wait for a line that matches a pattern, and return it."""
        assert self.process.stdout
        for line in self.process.stdout:
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
        assert self.process.stdout
        self.output += self.process.stdout.read()
        return self.process.wait()

    def close(self) -> None:
        """Kill the process and close its output."""
        self.process.kill()
        self.process.wait()
        if self.process.stdout:
            self.process.stdout.close()

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
        program = Program(self.kubeconfig, [sys.executable, "-c", "from qcnn.cli.main import main; main()", *arguments])
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
