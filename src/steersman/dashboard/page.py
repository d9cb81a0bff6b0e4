"""Plain text -> HTML: every piece of text is escaped here and nowhere else."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files
from string import Template

from steersman.dashboard.style import WIDTH

COLUMN_REM = 57.5  # page.css: max-width less padding
POINTS = 72  # an inch
Rows = Iterable[Sequence[str]]


def page(title: str, sections: Iterable[str]) -> str:
    """A whole page that needs nothing but itself."""
    style = (files("steersman.dashboard") / "page.css").read_text(encoding="utf-8")
    article = ['<article class="report">', *sections, "</article>"]
    return alone(title, f"<style>\n{style}\n</style>", "", "\n".join(article))


def alone(title: str, head: str, scripts: str, body: str) -> str:
    """The same of HTML for its head, its body, and what follows that."""
    template = Template((files("steersman.dashboard") / "page.html").read_text(encoding="utf-8"))
    return template.substitute(title=escape(title), head=head, body=body, scripts=scripts)


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


def figure(title: str, caption: str, svg: str) -> str:
    """A drawing with its caption."""
    size = re.search(r'width="([0-9.]+)pt"', svg)
    share = 1.0 if size is None else min(1.0, float(size[1]) / (POINTS * WIDTH))  # of a column as wide as our figures
    width = f'style="width: min(100%, {COLUMN_REM * share:.4g}rem)"'
    named = svg.replace("<svg", f'<svg {width} role="img" aria-label="{escape(title)}"', 1)
    return f"<figure>\n{named}\n<figcaption>{escape(caption)}</figcaption>\n</figure>"
