"""Tables of commands in terminals of any width."""

import re
import sys

import pytest

from qcnn.cli.output import format_table

HEADER = ("run", "state", "learning_rate", "mse", "reason")
ROWS = [
    ("qcnn-2026-11-27-21-08-04-280500", "succeeded", 0.05, "0.1733", None),
    ("qcnn-2026-11-27-21-09-04-280501", "failed", 0.1, "", "worker 0 ended with exit code 2: loss: must be finite"),
]


@pytest.fixture
def _terminal(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", str(request.param))


@pytest.mark.parametrize("_terminal", [40, 60, 80], indirect=True)
@pytest.mark.usefixtures("_terminal")
def test_format_table_in_narrow_terminal_shows_all_cells(request: pytest.FixtureRequest) -> None:
    text = format_table(HEADER, ROWS)
    assert max(map(len, text.splitlines())) <= int(request.node.callspec.params["_terminal"])
    tables = [table.splitlines() for table in text.split("\n\n")]
    found: dict[str, str] = {}
    for names, rule, *lines in tables:
        # Text of wrapped cells, without spaces, in all lines of a column.
        for column in re.finditer("-+", rule):
            cut = slice(column.start(), column.end())
            found[names[cut].strip()] = "".join("".join(line[cut].split()) for line in lines)
    assert found == {
        name: "".join("".join(str(row[number] or "").split()) for row in ROWS) for number, name in enumerate(HEADER)
    }


@pytest.mark.parametrize("_terminal", [200], indirect=True)
@pytest.mark.usefixtures("_terminal")
def test_format_table_in_wide_terminal_is_one_table() -> None:
    assert len(format_table(HEADER, ROWS).splitlines()) == 2 + len(ROWS)


def test_format_table_without_terminal_is_one_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    assert len(format_table(HEADER, ROWS).splitlines()) == 2 + len(ROWS)
