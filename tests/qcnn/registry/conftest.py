"""Fixtures of the tests of registries."""

from tests.qcnn.cli import conftest as command_line

typed = command_line.typed
