"""The exit codes that the documents list are those of the code."""

import re

from qcnn import startup
from qcnn.cli import output
from tests.docs.documents import ROOT


def test_the_page_lists_the_exit_codes_that_there_are() -> None:
    _, page = (ROOT / "docs" / "command-line.md").read_text().split("## Exit codes")
    of_commands, of_workers = page.split("Workers themselves")
    known = (output.DONE, output.FAILED, output.REFUSED, output.INTERRUPTED, output.UNREAD)
    assert _codes(of_commands) == [*known]
    assert _codes(of_workers) == [startup.OWN_FAULT, startup.ABANDONED, startup.RETRYABLE]


def test_a_command_ends_with_no_other_number() -> None:
    """Whoever ends one by a number of its own would have to say so on that page."""
    for path in (ROOT / "qcnn" / "cli").rglob("*.py"):
        found = re.findall(r"(?:sys\.exit|SystemExit|StepError)\([^)\n]*\b(\d+)\)", path.read_text())
        assert not found, path


def _codes(text: str) -> list[int]:
    return [int(code) for code in re.findall(r"^\| (\d+) \|", text, re.MULTILINE)]
