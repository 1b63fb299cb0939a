"""Parser of the documents: pages, fenced blocks and commands."""

import dataclasses
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs").glob("*.md"))
DOCUMENTS = [*(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")), *PAGES]
# Comment in a block of commands that tests cannot run, followed by the requirement.
NOT_RUN = "# requires: "

_BLOCK = re.compile(r"^( *)```(\w+)([^\n]*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
_TITLE = re.compile(r'title="(.*?)"')


@dataclasses.dataclass(frozen=True)
class Block:
    """Fenced block of a document. `title` is empty if the block has none."""

    document: str
    language: str
    title: str
    text: str


@dataclasses.dataclass(frozen=True)
class Command:
    """Command in a document, without its comment. `runs` is false if its block has the mark `NOT_RUN`."""

    document: str
    line: str
    runs: bool


def blocks(path: Path, language: str) -> list[Block]:
    """Return the blocks of a document in one language, in document order."""
    found = []
    for indent, block_language, rest, text in _BLOCK.findall(path.read_text()):
        title = _TITLE.search(rest)
        if block_language == language:
            lines = textwrap.dedent(text) if indent else text
            found.append(Block(path.name, language, title[1] if title else "", lines))
    return found


def count_words(path: Path) -> int:
    """Return the number of words of a document, without code blocks and the rulings of tables."""
    prose = _BLOCK.sub("", path.read_text())
    return sum(bool(re.search(r"\w", word)) for word in prose.split())


def commands() -> Iterator[Command]:
    """Yield all commands of all documents."""
    for path in DOCUMENTS:
        for block in blocks(path, "sh"):
            runs = NOT_RUN not in block.text
            for line in _join_continued(block.text).splitlines():
                command = re.split(r"(?:^|\s+)# ", line)[0].strip()
                if command:
                    yield Command(path.name, command, runs)


def example(title: str, language: str = "python") -> str:
    """Return the code of the block with this title in docs/extend.md."""
    (block,) = [block for block in blocks(ROOT / "docs" / "extend.md", language) if block.title == title]
    return block.text


def _join_continued(text: str) -> str:
    """Return text with continued lines joined: after a backslash or inside quotes."""
    joined = ""
    for line in text.replace("\\\n", " ").splitlines():
        needs_row_count = joined.rpartition("\n")[2].count("'") % 2
        joined += f" {line.strip()}" if needs_row_count else f"\n{line}"
    return joined
