"""Programs of their own that speak to the cluster, and what they say."""

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path


class Program:
    """A program that runs; what it prints is read as far as is asked for."""

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

    def says(self, pattern: str) -> str:
        """Wait for a line and return it."""
        assert self.process.stdout
        for line in self.process.stdout:
            self.output += line
            if re.search(pattern, line):
                return line
        raise AssertionError(f"it never said {pattern!r}:\\n{self.output}")

    def lines(self, process: str) -> list[str]:
        """What a process of a job has printed, as far as the program has passed it on."""
        prefix = f"[{process}] "
        return [line.removeprefix(prefix) for line in self.output.splitlines() if line.startswith(prefix)]

    def ends(self) -> int:
        """Wait for its end and return the exit code."""
        assert self.process.stdout
        self.output += self.process.stdout.read()
        return self.process.wait()

    def close(self) -> None:
        """End it, and read no more."""
        self.process.kill()
        self.process.wait()
        if self.process.stdout:
            self.process.stdout.close()

    @property
    def errors(self) -> list[str]:
        """The lines it ended with."""
        assert "Traceback" not in self.output, self.output
        return [line for line in self.output.splitlines() if line.startswith("error: ")]


class Qcnn:
    """Types qcnn's commands."""

    def __init__(self, kubeconfig: Path) -> None:
        self.kubeconfig = kubeconfig
        self._started: list[Program] = []

    def start(self, *words: str) -> Program:
        """Type a command."""
        program = Program(self.kubeconfig, [sys.executable, "-c", "from qcnn.cli.main import main; main()", *words])
        self._started.append(program)
        return program

    def __call__(self, *words: str, code: int = 0) -> str:
        """Type a command and return what it printed, once it has ended, with this exit code."""
        program = self.start(*words)
        assert program.ends() == code, program.output
        assert "Traceback" not in program.output, program.output
        return program.output

    def close(self) -> None:
        """End what still runs."""
        for program in self._started:
            program.close()
