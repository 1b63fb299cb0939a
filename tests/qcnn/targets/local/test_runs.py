"""Log file, record and observer of local runs, without training."""

import logging
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from typing_extensions import override

from qcnn.errors import ConfigError, WriteError
from qcnn.experiment.parsing import from_mapping
from qcnn.results.local_run import RunFolders, of_run, read_record
from qcnn.targets.local import runs
from qcnn.targets.local.observer import Observer, StepState

CONFIG = from_mapping({"qubits": 4, "rounds": 3})


class Recorded(Observer):
    """Observer that keeps the steps and lines."""

    def __init__(self) -> None:
        self.steps: list[tuple[str, StepState]] = []
        self.lines: list[str] = []

    @override
    def step(self, name: str, state: StepState) -> None:
        self.steps.append((name, state))

    @override
    def line(self, text: str) -> None:
        self.lines.append(text)


def _run(folder: Path, monkeypatch: pytest.MonkeyPatch, step: Callable[[], None]) -> tuple[Recorded, RunFolders]:
    """Run an experiment whose first step is a function, up to this step."""

    def generate(*_: object) -> None:
        step()
        raise ConfigError("end: of the test. Given: a")

    monkeypatch.setattr(runs, "generate_step", generate)
    observer = Recorded()
    with pytest.raises(ConfigError, match=r"^end: of the test"):
        runs.run_experiment(CONFIG, of_run(folder), observer)
    return observer, of_run(folder)


def test_log_has_messages_of_thread_and_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    logger = logging.getLogger("qcnn")

    def step() -> None:
        logger.warning("two\nlines of model.qasm")
        other = threading.Thread(target=logger.warning, args=("of another run",))
        other.start()
        other.join()

    observer, folders = _run(tmp_path / "run", monkeypatch, step)
    lines = ["two", "lines of model.qasm", "error: end: of the test. Given: a"]
    assert observer.lines == lines
    assert observer.steps == [("generate-data", "running"), ("generate-data", "failed")]
    log = (folders.run / "log.txt").read_text()
    assert log == "== generate-data\n" + "".join(f"    {line}\n" for line in lines)
    record = read_record(folders.run)
    assert (record.state, [step.state for step in record.steps]) == ("failed", ["failed"])
    assert not logger.handlers


def test_log_that_cannot_be_written_ends_run(tmp_path: Path) -> None:
    (folder := tmp_path / "run").mkdir()
    (folder / "log.txt").symlink_to("/dev/full")
    with pytest.raises(WriteError, match=r"^output: cannot be written \(No space left on device\). Given: .*/log.txt$"):
        runs.run_experiment(CONFIG, of_run(folder), Recorded())


def test_unexpected_error_has_traceback_in_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def generate(*_: object) -> None:
        raise RuntimeError("a defect")

    monkeypatch.setattr(runs, "generate_step", generate)
    observer = Recorded()
    with pytest.raises(RuntimeError):
        runs.run_experiment(CONFIG, of_run(tmp_path / "run"), observer)
    assert (observer.lines[0], observer.lines[-1]) == (
        "Traceback (most recent call last):",
        "RuntimeError: a defect",
    )
