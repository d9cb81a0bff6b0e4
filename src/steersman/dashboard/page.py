"""Plain text -> HTML: every piece of text is escaped here and nowhere else."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files
from string import Template

from steersman.dashboard.figures import Drawing
from steersman.dashboard.style import WIDTH

COLUMN_REM = 57.5  # page.css: max-width less padding
POINTS = 72  # an inch
Rows = Iterable[Sequence[str]]


def page(title: str, sections: Iterable[str], head: str = "", begin: str = "") -> str:
    """A whole page that needs nothing but itself.

    Args:
        head, begin: HTML for its head and for the beginning of its body.
    """
    folder = files("steersman.dashboard")
    template = Template((folder / "page.html").read_text(encoding="utf-8"))
    style = (folder / "page.css").read_text(encoding="utf-8")
    return template.substitute(title=escape(title), style=style, head=head, begin=begin, body="\n".join(sections))


def header(title: str, *paragraphs: str) -> str:
    """What a page begins with."""
    return "\n".join([f"<header>\n<h1>{escape(title)}</h1>", *paragraphs, "</header>"])


def section(title: str, content: str) -> str:
    """A heading and what belongs to it; nothing at all when it is empty."""
    return f"<section>\n<h2>{escape(title)}</h2>\n{content}\n</section>" if content else ""


def paragraph(text: str, kind: str = "") -> str:
    marked = f' class="{kind}"' if kind else ""
    return f"<p{marked}>{escape(text)}</p>"


def facts(rows: Rows) -> str:
    """A table whose first column names what the second says."""
    body = "".join(f'<tr><th scope="row">{escape(name)}</th><td>{escape(text)}</td></tr>\n' for name, text in rows)
    return f"<table><tbody>\n{body}</tbody></table>" if body else ""


def table(header: Sequence[str], rows: Rows) -> str:
    """A table with a header; a column of numbers stands to the right."""
    cells = [list(row) for row in rows]
    if not cells:
        return ""
    kinds = [' class="number"' if all(map(_is_number, column)) else "" for column in zip(*cells, strict=True)]
    head = "".join(f"<th{kind}>{escape(name)}</th>" for name, kind in zip(header, kinds, strict=True))
    body = "\n".join(
        "<tr>" + "".join(f"<td{kind}>{escape(text)}</td>" for text, kind in zip(row, kinds, strict=True)) + "</tr>"
        for row in cells
    )
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>\n{body}\n</tbody></table></div>'


def figure(drawing: Drawing) -> str:
    """A drawing with its caption, or the line that says why it failed."""
    if not drawing.svg:
        return paragraph(f"This figure is missing: {drawing.trouble}.", "failed")
    size = re.search(r'width="([0-9.]+)pt"', drawing.svg)
    share = 1.0 if size is None else min(1.0, float(size[1]) / (POINTS * WIDTH))  # of a column as wide as our figures
    width = f'style="width: min(100%, {COLUMN_REM * share:.4g}rem)"'
    named = drawing.svg.replace("<svg", f'<svg {width} role="img" aria-label="{escape(drawing.title)}"', 1)
    return f"<figure>\n{named}\n{_below(drawing.caption)}</figure>"


def picture(title: str, caption: str, svg: str) -> str:
    """A drawing of others: as an image, in which nothing is executed and nothing is loaded."""
    source = base64.b64encode(svg.encode()).decode()
    image = f'<img style="width: 100%" alt="{escape(title)}" src="data:image/svg+xml;base64,{source}">'
    return f"<figure>\n{image}\n{_below(caption)}</figure>"


def _below(caption: str) -> str:
    return f"<figcaption>{escape(caption)}</figcaption>\n" if caption else ""


def details(summary: str, text: str) -> str:
    """A line that opens to a longer text."""
    return f"<details><summary>{escape(summary)}</summary><pre>{escape(text)}</pre></details>"


def commands(rows: Rows) -> str:
    """What to type, and what it does."""
    return "\n".join(
        f'<p><code>{escape(line)}</code><br><span class="soft">{escape(does)}</span></p>' for line, does in rows
    )


def _is_number(text: str) -> bool:
    return text == "-" or text.replace(",", "").replace(".", "", 1).replace("e-", "", 1).isdigit()
