"""An answer and its figure -> a folder with JSON, figure and a page that opens offline."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from steersman.analysis.answer import rows, rows_by_weights
from steersman.dashboard import page
from steersman.dashboard.figures import Drawing, save_svg
from steersman.system.files import replace_file

CAPTION = (
    "Left: implied time scales by lag with 95 % intervals; below the dotted line nothing can be seen; the upright line "
    "is the lag that was chosen. Right: free energy over the two slowest coordinates, frames weighted by the model."
)


def write(folder: Path, title: str, said: Mapping[str, Any], figure: Figure) -> dict[str, Any]:
    """Write analysis.json, figure.png, figure.svg and report.html; returns what the JSON holds.

    Under `report` it has what the report of a run shows: `rows` and a `caption`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    shown = {"rows": [*rows(said), *rows_by_weights(said)], "caption": CAPTION}
    plain: dict[str, Any] = _plain({**said, "report": shown})
    replace_file(folder / "analysis.json", json.dumps(plain, indent=1) + "\n")
    figure.savefig(png := io.BytesIO(), format="png")
    replace_file(folder / "figure.png", png.getvalue())
    svg = save_svg(figure, folder / "figure.svg")
    facts = [(name, f"{said[name]:.6g}") for name in ("frames", "pieces", "states", "lag", "connected")]
    sections = [
        page.header(f"{title}: what equilibrium would be"),
        *(page.paragraph(problem, "failed") for problem in said["problems"]),
        page.section("The model", page.facts(facts)),
        page.section("With 95 % intervals", page.facts(rows(said))),
        page.section("By the weights of the ensemble", page.facts(rows_by_weights(said))),
        page.section("Figure", page.figure(Drawing("analysis", "Time scales and free energy", CAPTION, svg))),
    ]
    replace_file(folder / "report.html", page.page(title, sections))
    return plain


def _plain(value: Any) -> Any:
    """What JSON can hold: null for what is not known."""
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
