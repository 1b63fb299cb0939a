"""Self-contained HTML pages without scripts or external fonts, images and styles."""

import dataclasses
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
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
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
.wide td, .wide th { white-space: nowrap; }
.swatch { display: inline-block; width: 12px; height: 12px; margin-right: 8px; border-radius: 3px; }
</style>
</head>
<body>
<main>
<h1>$title</h1>
<p class="quiet">$subtitle</p>
$content
</main>
</body>
</html>
""")


# Position at which a line may be broken. Texts do not contain this character.
_BREAK = "\0"
# Number of characters that fit the screen of a phone without a break.
_MAX_WORD = 30


@dataclasses.dataclass(frozen=True)
class ReportFigure:
    """Figure of a page: SVG element, title and caption."""

    title: str
    svg: str
    caption: str


def document(title: str, subtitle: str, parts: Iterable[str]) -> str:
    """Return a page.

    Args:
        title: Title as text.
        subtitle: Subtitle as text.
        parts: Content as HTML.
    """
    return _PAGE.substitute(title=html.escape(title), subtitle=_breakable(subtitle), content="\n".join(parts))


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


def figure(content: ReportFigure) -> str:
    """Return a figure with its title and caption."""
    title, caption = html.escape(content.title), html.escape(content.caption)
    return f"<figure><h3>{title}</h3>{content.svg}<figcaption>{caption}</figcaption></figure>"


def pairs(values: Mapping[str, object]) -> str:
    """Return a table of names and values."""
    rows = (
        f"<tr><th>{html.escape(name)}</th><td>{_breakable(str(value))}</td></tr>" for name, value in values.items()
    )
    return f'<div class="table"><table class="pairs">{"".join(rows)}</table></div>'


def table(header: Sequence[str], rows: Iterable[Sequence[str]], colors: Sequence[str]) -> str:
    """Return a horizontally scrolling table, with a color swatch in each row.

    Args:
        header: Column names.
        rows: Cells of each row as text.
        colors: CSS color of each row in the figures.
    """
    head = "".join(f"<th>{html.escape(name)}</th>" for name in header)
    body = (
        f'<tr><td><span class="swatch" style="background:{color}"></span>'
        + "</td><td>".join(html.escape(cell) for cell in row)
        + "</td></tr>"
        for row, color in zip(rows, colors, strict=True)
    )
    return f'<div class="table"><table class="wide"><tr>{head}</tr>{"".join(body)}</table></div>'
