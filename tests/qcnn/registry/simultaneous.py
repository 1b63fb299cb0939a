"""Registrations and promotions at the same time, in threads with a registry each."""

import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, TypeVar

import pytest

from qcnn.errors import ArtifactError
from qcnn.registry.gate import promote
from qcnn.registry.interface import Registry
from qcnn.registry.registration import register
from tests.qcnn.registry.models import Run, write_run

T = TypeVar("T")
Opened = Callable[[], AbstractContextManager[Registry]]


def run_in_threads(function: Callable[[T], None], values: Iterable[T]) -> None:
    """Call a function with each value in a separate thread, and wait for all."""
    every = [*values]
    with ThreadPoolExecutor(len(every)) as threads:
        # An iteration over the results raises the error of a thread.
        list(threads.map(function, every))


def register_at_once(opened: Opened, runs: Sequence[Run], name: str) -> list[tuple[Path, int]]:
    """Register runs when all registries are open, and return the folder and the version of each registration."""
    start, found = threading.Barrier(len(runs)), list[tuple[Path, int]]()

    def add(run: Run) -> None:
        with opened() as registry:
            start.wait(60)
            found.append((run.folder, register(registry, str(run.folder), name).version))

    run_in_threads(add, runs)
    return found


def assert_one_promotion_wins(opened: Opened, name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    """Promote three versions when all have compared theirs, check that one wins, and return it.

    Args:
        opened: Opens the registry.
        name: Name of the model to register.
        folder: Folder for the runs.
        monkeypatch: Replaces methods of the registries.
    """
    with opened() as registry:
        for each, factor in {"a": 0.5, "b": 1.0, "c": 1.1}.items():
            register(registry, str(write_run(folder / each, factor).folder), name)
    moved, lines = _promote_at_once(opened, (1, 2, 3), name, monkeypatch)
    (winner,) = moved
    assert len(lines) == 2
    for line in lines:
        assert line.startswith(f"label: champion of {name} was moved by another process to version {winner};")
    with opened() as registry:
        assert registry.labels(name).versions == {"champion": winner}
        assert [each.version for each in registry.promotions(name)] == [winner]
    return winner


def _promote_at_once(
    opened: Opened, versions: Sequence[int], name: str, monkeypatch: pytest.MonkeyPatch
) -> tuple[list[int], list[str]]:
    """Promote versions when all have compared theirs, and return the moved versions and the lines of the errors."""
    start, moved, lines = threading.Barrier(len(versions)), list[int](), list[str]()

    def move(version: int) -> None:
        with opened() as registry:
            original = registry.move

            def when_all_have_read(*arguments: Any) -> bool:
                start.wait(60)
                return original(*arguments)

            monkeypatch.setattr(registry, "move", when_all_have_read)
            try:
                moved.append(promote(registry, name, version=version).version)
            except ArtifactError as error:
                lines.append(str(error))

    run_in_threads(move, versions)
    return moved, lines
