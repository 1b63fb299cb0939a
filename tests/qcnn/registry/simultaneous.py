"""Registrations and promotions at the same time, in threads with a registry each."""

import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, TypeVar

import pytest

from qcnn.errors import ArtifactError
from qcnn.registry.gate import promote
from qcnn.registry.interface import Registry
from qcnn.registry.registration import register
from tests.qcnn.registry.models import Run

T = TypeVar("T")
Opened = Callable[[], AbstractContextManager[Registry]]


def _run_in_threads(function: Callable[[T], None], values: Iterable[T]) -> None:
    threads = [threading.Thread(target=function, args=(value,)) for value in values]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def register_at_once(opened: Opened, runs: Sequence[Run], name: str) -> list[tuple[Path, int]]:
    """Register runs when all registries are open, and return the folder and the version of each registration."""
    start, found = threading.Barrier(len(runs)), list[tuple[Path, int]]()

    def add(run: Run) -> None:
        with opened() as registry:
            start.wait(60)
            found.append((run.folder, register(registry, str(run.folder), name).version))

    _run_in_threads(add, runs)
    return found


def promote_at_once(
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

    _run_in_threads(move, versions)
    return moved, lines
