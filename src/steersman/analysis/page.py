"""An answer and its figure -> a folder with JSON, figure and a page that opens offline."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from steersman.dashboard import page
from steersman.dashboard.figures import save_svg
from steersman.system.files import replace_file

Rows = Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Analysis:
    """What is said of runs.

    Args:
        said: plain values, with `problems` in words, and `notes`, which leave the results as good as they are.
        facts: rows of what it was made with.
        results: rows by the title of their table.
        lines: the same for a terminal.
    """

    said: Mapping[str, Any]
    figure: Figure
    caption: str
    facts: Rows
    results: Mapping[str, Rows]
    lines: Sequence[str]


def write(folder: Path, title: str, origin: Mapping[str, Any], analysis: Analysis) -> dict[str, Any]:
    """Write analysis.json, figure.png, figure.svg and report.html; returns what the JSON holds.

    Under `report` it has what the report of a run shows: `rows` and a `caption`.

    Args:
        origin: what the JSON begins with.
    """
    folder.mkdir(parents=True, exist_ok=True)
    shown = {"rows": [row for rows in analysis.results.values() for row in rows], "caption": analysis.caption}
    known: dict[str, Any] = plain({**origin, **analysis.said, "report": shown})
    replace_file(folder / "analysis.json", json.dumps(known, indent=1) + "\n")
    analysis.figure.savefig(png := io.BytesIO(), format="png")
    replace_file(folder / "figure.png", png.getvalue())
    svg = save_svg(analysis.figure, folder / "figure.svg")
    sections = [
        page.header(f"{title}: what equilibrium would be"),
        *(page.paragraph(problem, "failed") for problem in analysis.said["problems"]),
        *map(page.paragraph, analysis.said["notes"]),
        page.section("The model", page.facts(analysis.facts)),
        *(page.section(name, page.facts(rows)) for name, rows in analysis.results.items()),
        page.section("Figure", page.figure("Time scales and free energy", analysis.caption, svg)),
    ]
    replace_file(folder / "report.html", page.page(title, sections))
    return known


def plain(value: Any) -> Any:
    """What JSON can hold: null for what is not known."""
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
