"""A comparison -> table, CSV, JSON and figure, in its folder."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from steersman.analysis.comparison.curves import draw
from steersman.analysis.comparison.statistics import Interval, median_time
from steersman.analysis.comparison.verdicts import ArmResult, Runs, as_json, bounds
from steersman.analysis.page import plain
from steersman.dashboard import style
from steersman.data.facts import digits, percent

MEDIAN_TIME = "A median time: half of the seeds had got there (Kaplan-Meier; runs that ended before that count, too)."


def write(folder: Path, all_runs: Sequence[Runs], rows: Sequence[tuple[ArmResult, Runs]]) -> dict[str, Any]:
    """Write table.md, runs.csv, comparison.json and figure.png; returns what the JSON holds."""
    written: dict[str, Any] = plain({"folder": str(folder), "rows": [as_json(row, runs) for row, runs in rows]})
    (folder / "comparison.json").write_text(json.dumps(written, indent=1) + "\n")
    (folder / "table.md").write_text(table(rows), encoding="utf-8")
    with (folder / "runs.csv").open("w", newline="", encoding="utf-8") as file:
        out = csv.writer(file)
        out.writerow(["arm", "guided", "yardstick", "seed", "final", "level", "time", "reached", "chosen_by_policy"])
        for row, runs in rows:
            for i, seed in enumerate(runs.seeds):
                times: list[tuple[Any, ...]] = [(at, of.time[i], int(of.reached[i])) for at, of in row.times.items()]
                for of_level in times or [("", "", "")]:
                    of_seed = seed, row.final[i], *of_level
                    own = runs.own[i] / max(runs.starts[i], 1)
                    out.writerow([row.arm.label, row.arm.guided, row.yardstick, *of_seed, own])
    with style.applied():
        draw(all_runs).savefig(folder / "figure.png")
    return written


def table(rows: Sequence[tuple[ArmResult, Runs]]) -> str:
    """The comparison as a table in Markdown, one for each yardstick, and what each arm cost."""
    text = []
    for name in dict.fromkeys(row.yardstick for row, _ in rows):
        mine = [(row, runs) for row, runs in rows if row.yardstick == name]
        levels, unit = list(mine[0][0].times), mine[0][1].unit
        head = ["arm", "at the end, median (range)", *(f"median {_unit(unit)} to {level:g}" for level in levels)]
        head += ["starts by its policy", "compared with plain sampling"]
        text += [f"**{name}**", "", _line(head), _line(["---"] * len(head))]
        for row, _ in mine:
            arm, end, share, verdict = cells(row)
            text.append(_line([f"`{arm}`", end, *(_reached(row, level) for level in levels), share, verdict]))
        text += ["", MEDIAN_TIME] if levels else []
        text.append("")
    return "\n".join([*text, *_costs(rows)]) + "\n"


def cells(row: ArmResult) -> tuple[str, str, str, str]:
    """The arm, median and range of its final values, the share of starts that its policy itself chose, the verdict."""
    low, middle, high = np.quantile(row.final, [0, 0.5, 1])
    n = digits(low, middle, high)
    return row.arm.marked, f"{middle:.{n}g} ({low:.{n}g} to {high:.{n}g})", percent(row.share), row.verdict


def _reached(row: ArmResult, level: float) -> str:
    times, middle = row.times[level], median_time(row.times[level])
    ratio = "" if row.arm.plain else f"; {_ratio(row.sooner[level])}"
    count = f"{times.reached.sum()} of {len(times.reached)}"
    return f"{f'{middle:,.4g}' if np.isfinite(middle) else 'not reached'} ({count}{ratio})"


def _ratio(ratio: Interval) -> str:
    if not ratio.value and np.isinf(ratio.high):
        return "ratio unknown"
    return f"{'> ' if ratio.at_least else ''}{ratio.value:.2g}x, {bounds(ratio)}"


def _costs(rows: Sequence[tuple[ArmResult, Runs]]) -> list[str]:
    each = {row.arm.label: (row, runs) for row, runs in rows}
    parts = list(next(iter(each.values()))[1].cost)
    text = ["**cost of a run**, s", "", _line(["arm", *parts]), _line(["---"] * (len(parts) + 1))]
    for row, runs in each.values():
        text.append(_line([f"`{row.arm.marked}`", *(f"{runs.cost[part] / len(runs.seeds):.1f}" for part in parts)]))
    return text


def _unit(unit: str) -> str:
    return "time" if unit == "1" else unit


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
