"""Write the tables of the reference pages from the code: fields of an experiment, settings of targets."""

import itertools
import re
from collections.abc import Iterator
from pathlib import Path

from qcnn.cli.options.settings import flag_of
from qcnn.experiment.config import ALL_FIELDS, PURPOSES
from qcnn.experiment.fields import Purpose, describe_allowed, written_default
from qcnn.targets import target_classes
from qcnn.targets.base import Submits
from qcnn.targets.settings import Described, describe_settings

DOCS = Path(__file__).resolve().parents[1] / "docs"
_TABLES = re.compile(r"(<!-- (\w+): begin .*?-->\n).*?(<!-- \2: end -->)", re.DOTALL)


def field_tables() -> str:
    """Return the tables of an experiment's fields, one section per purpose and one row per field."""
    return "".join(_field_lines()) + "\n"


def setting_tables() -> str:
    """Return the tables of the settings of `submit`, one section per settings class and one row per setting."""
    return "".join(_setting_lines()) + "\n"


GENERATORS = {"fields": field_tables, "settings": setting_tables}
PAGES = {"fields": "configuration.md", "settings": "target-settings.md"}


def _field_lines() -> Iterator[str]:
    for purpose in Purpose:
        yield f"\n### {purpose.value}\n\n"
        yield "| field | default | allowed values | description |\n|---|---|---|---|\n"
        yield from (field_row(name) for name in ALL_FIELDS if PURPOSES[name] is purpose)


def field_row(name: str) -> str:
    """Return the row of a field: name, default, allowed values and description."""
    field = ALL_FIELDS[name]
    return f"| `{name}` | {written_default(field)} | {_shorten(describe_allowed(field))} | {field.description} |\n"


def _shorten(allowed: str) -> str:
    """Return a description of allowed values in the form of a table cell.

    >>> _shorten("an integer, at least 4 and at most 32768"), _shorten("a finite number, greater than 0")
    ('4 to 32768', '> 0')
    """
    allowed = re.sub(r"^(?:one of|an integer,|a finite number,) ", "", allowed)
    allowed = re.sub(r"^at least (\S+) and at most ", r"\1 to ", allowed)
    for text, sign in (("greater than", ">"), ("less than", "<"), ("at least", ">="), ("at most", "<=")):
        allowed = re.sub(rf"\b{text} (?=\d)", f"{sign} ", allowed)
    return allowed


def _setting_lines() -> Iterator[str]:
    groups = itertools.groupby(target_classes(Submits).values(), lambda kind: kind.submit_settings)
    for _, targets in groups:
        kind, *others = targets
        yield f"\n## {', '.join(each.name for each in (kind, *others))}\n\n"
        yield f"Jobs are sent to {kind.title}. {kind.notes}\n\n"
        yield "| argument | flag | default | |\n|---|---|---|---|\n"
        yield from map(_setting_row, describe_settings(kind.submit_settings))


def _setting_row(field: Described) -> str:
    setting = field.setting
    default = "required" if field.is_required else field.shown_default
    variables = ", or ".join(f"`{name}`" for name in setting.variables)
    source = f" Taken from {variables} where it is not given." if variables else ""
    return f"| `{field.name}` | `{flag_of(field)}` | {default} | {setting.help}{source} |\n"


def with_tables(page: str) -> str:
    """Return a page with current tables between its marks."""
    return _TABLES.sub(lambda marks: f"{marks[1]}{GENERATORS[marks[2]]()}{marks[3]}", page)


if __name__ == "__main__":
    for file in PAGES.values():
        path = DOCS / file
        path.write_text(with_tables(path.read_text(encoding="utf-8")), encoding="utf-8")
