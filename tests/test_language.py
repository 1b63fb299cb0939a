"""Wording of the code and the documents: terms that have a standard technical name are not used."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
# The standard terms are: permanent error, heartbeat, MSE lower bound, again, its.
_TERMS = re.compile(
    r"\b(own faults?|signs? of life|nobody|somebody|whoever|so many|is told|are told|ends? well|ended well|anew"
    r"|of (its|their|our) own|that which|again and again|error floor|goes on|go on|is gone|are gone)\b",
    re.IGNORECASE,
)
# The changelog records earlier names.
_EXCLUDED = ("CHANGELOG.md", Path(__file__).name)


def _tracked_files() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "*.py", "*.md", "*.yaml", "*.yml", "Makefile", "Dockerfile"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    if listed.returncode:
        pytest.skip("requires a git checkout")
    files = [ROOT / name for name in listed.stdout.splitlines()]
    return [file for file in files if file.is_file() and file.name not in _EXCLUDED]


def test_files_use_standard_terms() -> None:
    found = [
        f"{file.relative_to(ROOT)}:{number}: {line.strip()}"
        for file in _tracked_files()
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1)
        if _TERMS.search(line)
    ]
    assert not found, "\n".join(found)
