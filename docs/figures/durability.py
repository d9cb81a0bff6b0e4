"""A campaign of which everything is killed once, and what it had committed meanwhile.

PYTHONPATH=. python docs/figures/durability.py
"""

from __future__ import annotations

import random
import tempfile
import time
from pathlib import Path

from matplotlib.axes import Axes

from steersman.dashboard import style
from steersman.data.history import History
from steersman.journal import file as journal
from tests.faults.campaign import Campaign

KILLS = ("walker", "trainer", "server", "manager", "interchange", "driver", "everything")
BETWEEN = 1500  # frames that are committed between two kills


def killed(folder: Path) -> tuple[History, dict[str, float]]:
    """Kill one of each kind; give the run, and when each was killed."""
    campaign, moments = Campaign(folder, random.Random(1)), {}
    try:
        for kind in KILLS:
            _go_on(campaign)
            while not campaign.kills[kind]:
                moments[kind] = time.time()
                campaign.kill(kind)
        budget = _go_on(campaign) + BETWEEN
        campaign.check(campaign.finish(budget), budget)
    finally:
        campaign.close()
    return History(campaign.directory), moments


def _go_on(campaign: Campaign) -> int:
    """Let it commit some more frames; how many there are then."""
    frames = campaign.state().frames
    return campaign.until(lambda state: state.frames > frames + BETWEEN).frames


def committed(axes: Axes, history: History, moments: dict[str, float]) -> None:
    """Frames over wall time, with a line where something was killed."""
    frames = [record for record in journal.read(history.directory.journal) if record["kind"] == "frames"]
    each: dict[int, int] = {}
    total = []
    for record in frames:
        each[record["walker"]] = record["frames"]
        total.append(sum(each.values()))
    begin = frames[0]["t"]
    axes.step([record["t"] - begin for record in frames], total, where="post", color=style.BLUE)
    for kind, moment in moments.items():
        axes.axvline(moment - begin, color=style.VERMILION, linewidth=0.8)
        place = {"xycoords": ("data", "axes fraction"), "textcoords": "offset points", "xytext": (-2, 2)}
        axes.annotate(kind, (moment - begin, 1), rotation=35, color=style.VERMILION, fontsize=8, **place)
    axes.set(xlabel="wall time since the first frame (s)", ylabel="committed frames", xlim=(0, None), ylim=(0, None))


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        history, moments = killed(Path(folder))
        with style.applied():
            figure = style.sheet(2.4)
            committed(figure.subplots(), history, moments)
            figure.savefig(Path(__file__).with_suffix(".png"))


if __name__ == "__main__":
    main()
