"""The result of a demo run in one picture, for the README, and two figures of its report, for the pages.

python docs/figures/demo.py runs/fold-0001
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure, SubFigure

from steersman.dashboard import choices, sampling, slots, style
from steersman.dashboard.figures import FIGURES
from steersman.dashboard.scored import Plane, Scored, plane
from steersman.journal.history import History
from steersman.journal.run_directory import open_run


def draw(history: History) -> Figure:
    """What was sampled, why, and what the slots did."""
    scored = Scored(history)
    name = scored.widest()
    if name is None:
        raise SystemExit("this run has no score with two columns; give a run of the fold workflow")
    figure = style.sheet(8.0, width=8.6)
    parts: Any = figure.subfigures(3, 1, height_ratios=(4.4, 2.2, 1.7))
    top, middle, bottom = parts
    _sampled(top, history, scored, plane(name, scored.matrix(name)))
    _why(middle, history)
    rows, time = bottom.subplots(1, 2, width_ratios=(4, 1))
    slots.gantt(rows, history)
    slots.where_time_went(time, slots.shares(history.state, history.state.now))
    return figure


def _sampled(figure: SubFigure, history: History, scored: Scored, seen: Plane) -> None:
    frames, starts = figure.subplots(1, 2, sharex=True, sharey=True)
    sampling.frames_by_time(frames, history, scored, seen)
    sampling.starts_by_policy(starts, history, scored, seen)
    starts.set_ylabel("")


def _why(figure: SubFigure, history: History) -> None:
    shares, metric = figure.subplots(1, 2)
    choices.shares_of_policies(shares, history)
    shares.get_legend().remove()
    choices.metric(metric, history, next(iter(history.metrics)))
    for axes in (shares, metric):
        axes.set_xlabel(history.clock.progress_scale.label)


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
