"""What the tests of the documents read of them."""

import dataclasses
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs").glob("*.md"))
DOCUMENTS = [*(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")), *PAGES]
NOT_RUN = "# not run here"

_BLOCK = re.compile(r"^( *)```(\w+)([^\n]*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
_TITLE = re.compile(r'title="(.*?)"')


@dataclasses.dataclass(frozen=True)
class Block:
    """A fenced block: what it is written in, its title if it has one, and its lines."""

    document: str
    language: str
    title: str
    text: str


@dataclasses.dataclass(frozen=True)
class Command:
    """A line that a reader types, without its comment; `runs` unless its block says that it is not run here."""

    document: str
    line: str
    runs: bool


def blocks(path: Path, language: str) -> list[Block]:
    """Return the blocks of a document in one language, in their order."""
    found = []
    for indent, written_in, rest, text in _BLOCK.findall(path.read_text()):
        title = _TITLE.search(rest)
        if written_in == language:
            lines = textwrap.dedent(text) if indent else text
            found.append(Block(path.name, language, title[1] if title else "", lines))
    return found


def commands() -> Iterator[Command]:
    """Yield every command of every document."""
    for path in DOCUMENTS:
        for block in blocks(path, "sh"):
            runs = NOT_RUN not in block.text
            for line in _joined(block.text).splitlines():
                command = re.split(r"(?:^|\s+)# ", line)[0].strip()
                if command:
                    yield Command(path.name, command, runs)


def example(title: str) -> str:
    """Return the one block of docs/extend.md with this title."""
    (block,) = [block for block in blocks(ROOT / "docs" / "extend.md", "python") if block.title == title]
    return block.text


def _joined(text: str) -> str:
    """Return lines with those that a quote or a backslash continues as one."""
    joined = ""
    for line in text.replace("\\\n", " ").splitlines():
        needs_row_count = joined.rpartition("\n")[2].count("'") % 2
        joined += f" {line.strip()}" if needs_row_count else f"\n{line}"
    return joined
