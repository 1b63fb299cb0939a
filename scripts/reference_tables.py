"""Write the tables of the reference pages from what they describe: fields of an experiment, settings of targets."""

import re
from collections.abc import Iterator
from pathlib import Path

from qcnn.cli.options.settings import flag_of
from qcnn.experiment import ALL_FIELDS
from qcnn.fields import describe, written_default
from qcnn.targets import targets_that
from qcnn.targets.base import Submits
from qcnn.targets.settings import Described, described

DOCS = Path(__file__).resolve().parents[1] / "docs"
_TABLE = re.compile(r"(<!-- (\w+): begin .*?-->\n).*?(<!-- \2: end -->)", re.DOTALL)


def words() -> str:
    """Return the table of the experiment, one row a field."""
    rows = [f"| `{name}` | {written_default(field)} | {describe(field)} |\n" for name, field in ALL_FIELDS.items()]
    return "".join(["| word | default | |\n", "|---|---|---|\n", *rows])


def settings() -> str:
    """Return the tables of what the targets' submit takes, one row a setting; those of pods once."""
    return "".join(_sections())


TABLES = {"words": words, "settings": settings}
PAGES = {"words": "experiment.md", "settings": "targets.md"}


def _sections() -> Iterator[str]:
    for name, target in targets_that(Submits).items():
        yield f"\n## {name}\n\nJobs are sent to {target.title}. {target.notes}\n\n"
        yield "| argument | flag | default | |\n|---|---|---|---|\n"
        yield from map(_row, described(target.settings))
    yield "\n"


def _row(field: Described) -> str:
    said = field.setting
    default = "required" if field.is_required else field.shown_default
    variables = ", or ".join(f"`{name}`" for name in said.variables)
    taken = f" Taken from {variables} where it is not given." if variables else ""
    flag = f"`{flag_of(field)}`"
    return f"| `{field.name}` | {flag} | {default} | {said.help}{taken} |\n"


def with_tables(page: str) -> str:
    """Return a page with each table between its two marks."""
    return _TABLE.sub(lambda marks: f"{marks[1]}{TABLES[marks[2]]()}{marks[3]}", page)


if __name__ == "__main__":
    for file in sorted(set(PAGES.values())):
        path = DOCS / file
        path.write_text(with_tables(path.read_text(encoding="utf-8")), encoding="utf-8")
