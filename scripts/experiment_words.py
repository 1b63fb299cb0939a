"""Write the table of the experiment's words in docs/experiment.md from their one description, qcnn/experiment.py."""

import re
from pathlib import Path

from qcnn.experiment import WORDS, describe, written_default

PAGE = Path(__file__).resolve().parents[1] / "docs" / "experiment.md"
_TABLE = re.compile(r"(<!-- words: begin .*?-->\n).*?(<!-- words: end -->)", re.DOTALL)


def table() -> str:
    """Return the table, one row a word."""
    rows = [f"| `{name}` | {written_default(field)} | {describe(field)} |\n" for name, field in WORDS.items()]
    return "".join(["| word | default | |\n", "|---|---|---|\n", *rows])


def with_table(page: str) -> str:
    """Return a page with the table between its two marks."""
    return _TABLE.sub(lambda marks: f"{marks[1]}{table()}{marks[2]}", page)


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
