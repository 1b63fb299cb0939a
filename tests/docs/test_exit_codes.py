"""Tests of the exit codes in docs/cli.md."""

import re

from qcnn.cli import output
from qcnn.process import exit_codes
from tests.docs.documents import ROOT


def test_cli_page_lists_all_exit_codes() -> None:
    _, page = (ROOT / "docs" / "cli.md").read_text().split("## Exit codes")
    of_commands, of_workers = page.split("Worker processes")
    errors = (output.FAILED, output.REJECTED, output.NOT_PROMOTED, output.INTERRUPTED, output.PIPE_CLOSED)
    assert _codes(of_commands) == [output.DONE, *errors]
    assert _codes(of_workers) == [exit_codes.PERMANENT_ERROR, exit_codes.ABANDONED, exit_codes.RETRYABLE]


def test_cli_modules_use_no_literal_exit_codes() -> None:
    """Other exit codes would be missing on the page."""
    for path in (ROOT / "qcnn" / "cli").rglob("*.py"):
        found = re.findall(r"(?:sys\.exit|SystemExit|StepError)\([^)\n]*\b(\d+)\)", path.read_text())
        assert not found, path


def _codes(text: str) -> list[int]:
    return [int(code) for code in re.findall(r"^\| (\d+) \|", text, re.MULTILINE)]
