"""Comparisons -> the tables and figures of docs/results/ and lab/notebook/, between their marks; see `make compare`.

python docs/figures/results.py runs/compare-*
"""

import json
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from steersman.analysis.comparison.arms import PLAIN
from steersman.analysis.comparison.statistics import Interval, Times, difference, median_time, speed_up

DOCS = Path(__file__).parents[1]


def measured(folder: Path, name: str) -> str:
    """What stands between the marks of a comparison; its figure is copied."""
    rows = json.loads((folder / "comparison.json").read_text())["rows"]
    seeds = len(rows[0]["seeds"])
    if rows[0]["varied"]:
        return f"{seeds} seeds each.\n\n" + "".join(f"{line}\n" for line in varied(rows))
    shutil.copy(folder / "figure.png", DOCS / "figures" / f"results_{name}.png")
    curves = f"![Medians and their bands](../figures/results_{name}.png)"
    tables = f"{curves}\n\n{seeds} seeds each.\n\n{shorter((folder / 'table.md').read_text()).strip()}\n"
    return tables + "".join(f"\n{line}\n" for line in saved(rows))


def shorter(tables: str) -> str:
    """Without costs, and what another column says: of verdicts the difference at the end is left."""
    blocks = re.split(r"^(?=\*\*)", tables.partition("**cost of a run**")[0], flags=re.MULTILINE)
    return "".join(_one_line(block) or _shorter(block) for block in blocks)


def _shorter(table: str) -> str:
    table = table.replace("| compared with plain sampling |", "| difference at the end |")
    table = re.sub(r"\| plain sampling: what the others are compared with \|$", "| |", table, flags=re.MULTILINE)
    table = re.sub(r"\| (?:better|worse) at the end, ([^;|]*)(?:; [^|]*)?\|$", r"| \1 |", table, flags=re.MULTILINE)
    table = re.sub(r"\| (?:no difference shown|\S+ is reached [^|]*?) \|$", "| none shown |", table, flags=re.MULTILINE)
    return re.sub(r" +\|$", " |", table, flags=re.MULTILINE)


def _one_line(table: str) -> str:
    """Of a yardstick with one level that no arm reaches in the median; else nothing."""
    levels, counts = re.findall(r"median \S+ to (\S+)", table), re.findall(r"\((\d+) of (\d+)", table)
    if len(levels) != 1 or re.search(r"\| [\d,.]+ \(\d+ of", table):
        return ""
    reached, runs = (sum(map(int, each)) for each in zip(*counts, strict=True))
    return f"**{table.split('**')[1]}**: {levels[0]} is reached by {reached} of {runs} runs.\n\n"


def varied(rows: list[dict[str, Any]]) -> Iterator[str]:
    """Policies against values of what varies, by each yardstick: the end, and how soon a middle level is reached."""
    found = {(row["yardstick"], row["arm"].removesuffix(f", {row['varied']}"), row["varied"]): row for row in rows}
    yardsticks, policies, values = (list(dict.fromkeys(key[i] for key in found)) for i in range(3))
    for yardstick in yardsticks:
        yield f"| **{yardstick}** | {' | '.join(f'`{value}`' for value in values)} |"
        yield "|" + " --- |" * (len(values) + 1)
        for policy in policies:
            mine = [found[yardstick, policy, value] for value in values]
            yield f"| `{policy}` | {' | '.join(map(_end_and_time, mine))} |"
        yield ""


def _end_and_time(row: dict[str, Any]) -> str:
    """318; 175 in 97.2 (3.1x, 2.3 to 4.3)"""
    level = row["levels"][len(row["levels"]) // 2]
    times, middle = _times(level), median_time(_times(level))
    reached = f"by {times.reached.sum()} of {len(times.reached)}"
    when = f"in {middle:,.{0 if middle >= 100 else 1}f}" if np.isfinite(middle) else reached
    value, low, high = level["sooner"]
    ratio = "" if value is None or not low else f" ({value:.2g}x, {low:.2g} {f'to {high:.2g}' if high else 'or more'})"
    return f"{row['final_median']:.4g}; {level['level']:g} {when}{'' if row['arm'].startswith(PLAIN) else ratio}"


def saved(rows: list[dict[str, Any]]) -> Iterator[str]:
    """What each prune rule saves, beside the same policy without it: `compare` has plain sampling as its control."""
    without = {(row["arm"], row["yardstick"]): row for row in rows}
    for row in rows:
        policy, _, rule = row["arm"].partition(", prune=")
        if rule and (control := without.get((policy, row["yardstick"]))):
            rng = np.random.default_rng(0)
            sooner = [
                f"{after['level']:g} is reached {_words(speed_up(_times(before), _times(after), rng))} as soon"
                for before, after in zip(control["levels"], row["levels"], strict=True)
            ]
            more = difference(np.array(control["final"]), np.array(row["final"]))
            end = f"{more.value:+.3g} at the end ({more.low:+.3g} to {more.high:+.3g})"
            yield f"**{row['yardstick']}**, `prune={rule}` beside `{policy}` without it: {'; '.join([*sooner, end])}."


def _times(level: dict[str, Any]) -> Times:
    return Times(np.array(level["times"]), ~np.array(level["censored"]))


def _words(ratio: Interval) -> str:
    if not np.isfinite([ratio.value, ratio.low]).all() or ratio.value == 0:
        return "an unknown number of times"
    bounds = f"{ratio.low:.2g} {'or more' if np.isinf(ratio.high) else f'to {ratio.high:.2g}'}"
    return f"{'at least ' if ratio.at_least else ''}{ratio.value:.2g} times ({bounds})"


def main(folders: list[str]) -> None:
    for folder in map(Path, folders):
        name = folder.name.split("-")[-1]
        mark = re.compile(f"(<!-- {name} -->\n).*?(<!-- end -->)", re.DOTALL)
        new = measured(folder, name)
        for page in (*DOCS.glob("results/*.md"), DOCS.parent / "lab" / "notebook" / "steering.md"):
            page.write_text(mark.sub(lambda found, new=new: found[1] + new + found[2], page.read_text()))


if __name__ == "__main__":
    main(sys.argv[1:])
