"""Self-contained HTML pages without external fonts, images, styles and scripts."""

import base64
import dataclasses
import hashlib
import html
import re
import string
from collections.abc import Iterable, Mapping, Sequence

# The Content-Security-Policy prevents browsers from loading or running anything else.
_PAGE = string.Template("""\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy"
  content="default-src 'none'; style-src 'unsafe-inline'; img-src data:$script_policy">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>$title</title>
<style>
:root { color-scheme: light; }
* { box-sizing: border-box; }
body { margin: 0; padding: 24px 16px 48px; background: #f6f7f9; color: #1c2330;
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
main { max-width: 1120px; margin: 0 auto; }
main { overflow-wrap: break-word; }
h1 { margin: 0; font-size: 24px; line-height: 1.25; }
h2 { margin: 32px 0 12px; font-size: 17px; }
p { margin: 4px 0 0; }
.quiet, figcaption { color: #5a6475; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(150px, 1fr)); gap: 12px; margin-top: 20px; }
.tiles div, figure, .table { background: #fff; border: 1px solid #e1e5eb; border-radius: 8px; }
.tiles div { padding: 10px 14px; }
.tiles b { display: block; font-size: 22px; font-variant-numeric: tabular-nums; line-height: 1.3; }
.columns { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(420px, 100%), 1fr)); gap: 16px; }
figure { margin: 0; padding: 14px; }
figure svg { display: block; width: 100%; max-width: 640px; height: auto; margin: 0 auto; }
figure h3 { margin: 0 0 6px; font-size: 15px; }
figcaption { margin-top: 6px; font-size: 13px; }
.table { align-self: start; overflow-x: auto; }
table { width: 100%; border-collapse: collapse; font-size: 14px; }
th, td { padding: 6px 14px; border-top: 1px solid #edf0f4; text-align: left; vertical-align: top; }
tr:first-child > * { border-top: 0; }
th { font-weight: 500; color: #5a6475; }
td { font-variant-numeric: tabular-nums; }
.pairs, .pairs tbody { display: block; }
.pairs tr { display: flex; flex-wrap: wrap; border-top: 1px solid #edf0f4; }
.pairs tr:first-child { border-top: 0; }
.pairs th, .pairs td { border-top: 0; }
.pairs th { flex: 0 0 45%; min-width: min-content; }
.pairs td { flex: 1 1 auto; max-width: 100%; overflow-wrap: anywhere; }
.wide td, .wide th { white-space: nowrap; background: #fff; }
.wide td:first-child, .wide th:first-child { position: sticky; left: 0; }
.wide wbr { display: none; }
.wide td.long { min-width: 280px; white-space: normal; }
.wide td.long wbr { display: inline; }
.wide .marked > td { background: #e6f4ee; }
.mark { margin-left: 2px; padding: 1px 7px; border-radius: 8px; background: #00845a; color: #fff; font-size: 12px; }
a { color: #0060a0; }
th button { all: unset; cursor: pointer; }
th button:focus-visible { outline: 2px solid #0072b2; }
[aria-sort="ascending"] button::after { content: " \\2191"; }
[aria-sort="descending"] button::after { content: " \\2193"; }
@media (max-width: 600px) {
  .wide td.name { min-width: 150px; white-space: normal; }
  .wide td.name wbr { display: inline; }
}
.swatch { display: inline-block; width: 12px; height: 12px; margin-right: 8px; border-radius: 3px; }
</style>
</head>
<body>
<main>
<h1>$title</h1>
<p class="quiet">$subtitle</p>
$content
</main>
$script</body>
</html>
""")


# Sorts a table by a column, also by keyboard. Empty cells are last in both directions.
_SORT = """
for (const table of document.querySelectorAll("table.wide")) {
  const heads = [...table.tHead.rows[0].cells];
  for (const head of heads) {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const direction = head.getAttribute("aria-sort") === "ascending" ? -1 : 1;
      heads.forEach(other => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", direction > 0 ? "ascending" : "descending");
      const value = row => row.cells[head.cellIndex].dataset.value;
      const isText = text => Number.isNaN(Number(text));
      const compare = (a, b) => {
        if (a === "" || b === "") return (a === "") - (b === "");
        if (isText(a) || isText(b)) return direction * (isText(a) - isText(b) || a.localeCompare(b));
        return direction * (a - b);
      };
      const body = table.tBodies[0];
      body.append(...[...body.rows].sort((a, b) => compare(value(a), value(b))));
    });
  }
}
"""
# Position at which a line may be broken. Texts do not contain this character.
_BREAK = "\0"
# Number of characters that fit the screen of a phone without a break.
_MAX_WORD = 30
# Number of characters of a cell on a single line.
_MAX_CELL = 60
# Limits of the output of a notebook cell: rows, and characters of a text.
_MAX_NOTEBOOK_ROWS, _MAX_NOTEBOOK_CELL = 20, 120


@dataclasses.dataclass(frozen=True)
class ReportFigure:
    """Figure of a page: SVG element, title and caption."""

    title: str
    svg: str
    caption: str


def document(title: str, subtitle: str, parts: Iterable[str], *, sortable: bool = False) -> str:
    """Return a page.

    Args:
        title: Title as text.
        subtitle: Subtitle as text.
        parts: Content as HTML.
        sortable: Whether the page has a script that sorts its tables. It is readable without the script.
    """
    digest = base64.b64encode(hashlib.sha256(_SORT.encode()).digest()).decode()
    return _PAGE.substitute(
        title=html.escape(title),
        subtitle=_breakable(subtitle),
        content="\n".join(parts),
        # Browsers run no other script, for example one in the name of a run.
        script_policy=f"; script-src 'sha256-{digest}'" if sortable else "",
        script=f"<script>{_SORT}</script>\n" if sortable else "",
    )


def _breakable(text: str) -> str:
    """Return text as HTML, in which long names and paths may be broken after a punctuation mark."""
    words = (re.sub(r"(?<=[-_/:.,@])", _BREAK, word) if len(word) > _MAX_WORD else word for word in text.split(" "))
    return html.escape(" ".join(words)).replace(_BREAK, "<wbr>")


def heading(text: str) -> str:
    """Return the heading of a section."""
    return f"<h2>{html.escape(text)}</h2>"


def tiles(values: Mapping[str, str]) -> str:
    """Return tiles with the main values by name."""
    cells = (f"<div>{html.escape(name)}<b>{html.escape(value)}</b></div>" for name, value in values.items())
    return f'<div class="tiles">{"".join(cells)}</div>'


def columns(parts: Iterable[str]) -> str:
    """Return parts in columns, or below each other on a narrow screen."""
    return f'<div class="columns">{"".join(parts)}</div>'


def note(text: str) -> str:
    """Return a paragraph of quiet text."""
    return f'<p class="quiet">{_breakable(text)}</p>'


def figure(content: ReportFigure) -> str:
    """Return a figure with its title and caption."""
    title, caption = html.escape(content.title), html.escape(content.caption)
    return f"<figure><h3>{title}</h3>{content.svg}<figcaption>{caption}</figcaption></figure>"


def pairs(values: Mapping[str, object]) -> str:
    """Return a table of names and values."""
    rows = (f"<tr><th>{html.escape(name)}</th><td>{_breakable(str(value))}</td></tr>" for name, value in values.items())
    return f'<div class="table"><table class="pairs">{"".join(rows)}</table></div>'


def plain_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a horizontally scrolling table of texts.

    Args:
        header: Column names.
        rows: Cells of each row.
    """
    head = "".join(f"<th>{html.escape(name)}</th>" for name in header)
    body = "".join(f"<tr>{''.join(f'<td>{_breakable(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f'<div class="table"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def notebook_table(title: str, subtitle: str, header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return a table for the output of a notebook cell, which has the style of the notebook.

    Args:
        title: Title as text.
        subtitle: Subtitle as text.
        header: Names of the columns, or empty for names and values.
        rows: Rows. At most 20 are in the table, and numbers are rounded to 6 digits.
    """
    first = "th" if not header else "td"
    head = "".join(f"<th>{_short(name)}</th>" for name in header)
    body = "".join(
        f"<tr><{first}>{_short(name)}</{first}>{''.join(f'<td>{_short(value)}</td>' for value in values)}</tr>"
        for name, *values in rows[:_MAX_NOTEBOOK_ROWS]
    )
    more = len(rows) - _MAX_NOTEBOOK_ROWS
    return (
        # Classic notebooks and JupyterLab typeset formulas in other elements, and a formula may contain links.
        f'<div class="tex2jax_ignore mathjax_ignore"><p><b>{html.escape(title)}</b> {_short(subtitle)}</p>'
        f"<table>{f'<thead><tr>{head}</tr></thead>' if head else ''}<tbody>{body}</tbody></table>"
        f"{f'<p>and {more} more</p>' if more > 0 else ''}</div>"
    )


def _short(value: object) -> str:
    """Return a value as HTML, with an ellipsis instead of the middle of a long text."""
    text = "" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)
    if len(text) > _MAX_NOTEBOOK_CELL:
        half = _MAX_NOTEBOOK_CELL // 2
        text = f"{text[:half]}\N{HORIZONTAL ELLIPSIS}{text[-half:]}"
    return html.escape(text)


@dataclasses.dataclass(frozen=True)
class Cell:
    """Cell of a table: its text, and the value by which it is sorted, None or empty if it is missing."""

    text: str
    value: object


@dataclasses.dataclass(frozen=True)
class TableRow:
    """Row of a table: cells, and its CSS color in the figures.

    `link` is the relative URL of the first cell, and `mark` a label next to it. Both may be empty.
    """

    cells: Sequence[Cell]
    color: str
    link: str = ""
    mark: str = ""


def table(header: Sequence[str], rows: Iterable[TableRow]) -> str:
    """Return a horizontally scrolling table, with a color swatch in each row.

    Args:
        header: Column names.
        rows: Rows, in the order of the page.
    """
    head = "".join(f"<th>{html.escape(name)}</th>" for name in header)
    body = "".join(map(_row, rows))
    return f'<div class="table"><table class="wide"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _row(row: TableRow) -> str:
    first, *others = row.cells
    name = f'<span class="swatch" style="background:{row.color}"></span>'
    text = _breakable(first.text)
    name += f'<a href="{html.escape(row.link)}">{text}</a>' if row.link else text
    name += f' <span class="mark">{html.escape(row.mark)}</span>' if row.mark else ""
    cells = (_cell(cell, _breakable(cell.text), "long" if len(cell.text) > _MAX_CELL else "") for cell in others)
    opened = '<tr class="marked">' if row.mark else "<tr>"
    return f"{opened}{_cell(first, name, 'name' if len(first.text) > _MAX_WORD else '')}{''.join(cells)}</tr>"


def _cell(cell: Cell, content: str, kind: str) -> str:
    value = html.escape("" if cell.value is None else str(cell.value))
    return f'<td class="{kind}" data-value="{value}">{content}</td>'
