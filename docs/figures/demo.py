"""The result of a demo run in one picture, for the README.

python docs/figures/demo.py runs/fold-0001
"""

from __future__ import annotations

import sys
from pathlib import Path

from matplotlib.figure import Figure

from steersman.dashboard import choices, sampling, slots, style
from steersman.dashboard.history import History
from steersman.dashboard.scored import Scored, plane
from steersman.engine.run_directory import open_run


def draw(history: History) -> Figure:
    """What was sampled, why, and what the slots did."""
    scored = Scored(history)
    name = scored.widest()
    if name is None:
        raise SystemExit("this run has no score with two columns; give a run of the fold workflow")
    figure = style.sheet(7.4, width=8.6)
    rows = [["frames"] * 3 + ["starts"] * 3, ["shares"] * 3 + ["metric"] * 3, ["slots"] * 5 + ["time"]]
    panels = figure.subplot_mosaic(rows, height_ratios=(5, 2.6, 1.7))
    seen = plane(name, scored.matrix(name))
    panels["starts"].sharex(panels["frames"])
    panels["starts"].sharey(panels["frames"])
    sampling.frames_by_time(panels["frames"], history, scored, seen)
    sampling.starts_by_policy(panels["starts"], history, scored, seen)
    choices.shares_of_policies(panels["shares"], history)
    choices.metric(panels["metric"], history, next(iter(history.metrics)))
    for panel in (panels["shares"], panels["metric"]):
        panel.set_xlabel(history.clock.progress_scale.label)
    slots.gantt(panels["slots"], history)
    slots.where_time_went(panels["time"], slots.shares(history))
    return figure


def main() -> None:
    history = History(open_run(Path(sys.argv[1])))
    with style.applied():
        draw(history).savefig(Path(__file__).with_suffix(".png"), dpi=170)


if __name__ == "__main__":
    main()
