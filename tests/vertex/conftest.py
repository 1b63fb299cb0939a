"""A Vertex AI on this machine."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.vertex.server.vertex import Vertex


@pytest.fixture
def vertex(tmp_path: Path) -> Iterator[Vertex]:
    with contextlib.closing(Vertex(tmp_path)) as server:
        yield server
