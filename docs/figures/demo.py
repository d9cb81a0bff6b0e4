"""The result of a demo run in one picture, for the README, and two figures of its report, for the pages.

python docs/figures/demo.py runs/fold-0001
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from steersman.dashboard import sampling, slots, structure, style
from steersman.dashboard.figures import FIGURES
from steersman.data.history import History
from steersman.data.scored import Scored, plane
from steersman.journal.run_directory import open_run


def draw(history: History) -> Figure:
    """Where the frames lie in latent space, how the peptide folds, and what the slots did."""
    scored = Scored(history)
    name = scored.widest()
    if name is None:
        raise SystemExit("this run has no score with two columns; give a run of the fold workflow")
    figure = style.sheet(6.2, width=8.6)
    parts: Any = figure.subfigures(2, 1, height_ratios=(4.4, 1.7))
    map_, folding = parts[0].subfigures(1, 2)
    sampling.frames_by_time(map_.subplots(), history, scored, plane(name, scored.matrix(name)))
    measured = structure.quantities(history)[:2]
    column = folding.subplots(len(measured), 1, sharex=True)
    for axes, quantity in zip(column, measured, strict=True):
        structure.over_time(axes, history, *quantity)
    column[-1].set_xlabel(history.clock.progress_scale.label)
    rows, time = parts[1].subplots(1, 2, width_ratios=(4, 1))
    slots.gantt(rows, history)
    slots.where_time_went(time, slots.shares(history.state, history.state.now))
    return figure


def main() -> None:
    history = History(open_run(Path(sys.argv[1])))
    place = Path(__file__)
    with style.applied():
        draw(history).savefig(place.with_suffix(".png"), dpi=170)
        for name in ("quantities", "models"):
            _, report = FIGURES[name]
            report(history)[0].savefig(place.with_stem(f"demo_{name}").with_suffix(".png"), dpi=170)


if __name__ == "__main__":
    main()
