"""Groups, sets, copies and serial modules of openDIEL, as loops, lists and arguments of tasks; then an ordinary loop.

steersman run examples/groups.py        # 3 sets of 14 group runs; what needs nothing of each other runs at once
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from steersman import Params, Workflow, budget


@dataclass(frozen=True)
class Group:
    """Modules that run one after another, so many times, when the groups before it are done."""

    modules: tuple[str, ...]
    times: int
    after: tuple[str, ...] = ()
    copies: int = 1


GROUPS = {
    "G1": Group(("mesh", "flow"), 5),
    "G2": Group(("heat",), 3, after=("G1",)),
    "G3": Group(("stress", "strain"), 2, after=("G1",)),
    "G5": Group(("couple",), 1, after=("G2", "G3")),
    "G4": Group(("sample",), 2, after=("G5",)),
    "Last": Group(("report",), 1, after=("G4",)),
}


class Sets(Params):
    sets: int = 3
    frames: int = 40


wf = Workflow("groups", Sets, stop=lambda p: budget(frames=p.frames))


@wf.task(retries=1)
def group(name: str, number: int, modules: tuple[str, ...], before: list[Any]) -> dict[str, Any]:
    """One run of a group: its modules in their order. What ran before it, at any depth of `before`, is an argument."""
    began = time.time()
    done = [f"{name}.{module}" for module in modules]  # in place of each module's command(...)
    return {"group": name, "set": number, "modules": done, "began": began, "ended": time.time()}


@wf.before
def trace(p: Sets) -> list[Any]:
    """The runs of all groups of all sets; Parsl begins each when its arguments are there."""
    runs: list[Any] = []
    before: list[Any] = []  # the last runs of the set before
    for number in range(p.sets):
        last: dict[str, list[Any]] = {}
        for name, each in GROUPS.items():
            needed = [last[other] for other in each.after] or [before]
            for _ in range(each.times):
                copies = [group.later(name, number, each.modules, needed, copy=copy) for copy in range(each.copies)]
                needed = [copies]
                runs += copies
            last[name] = copies
        before = last["Last"]
    return runs


@wf.simulate
def walk(p: Sets, start: Any, out: Any) -> None:
    assert len(start.prepared) == p.sets * sum(each.times * each.copies for each in GROUPS.values())
    x, rng = start.frame.get("x", np.zeros(2)), np.random.default_rng(out.seed)
    for i in range(20):
        x = x + rng.normal(size=2)
        out.append(time=i + 1.0, x=x)


@wf.score
def place(p: Sets, model: None, frames: Any) -> dict[str, Any]:
    return {"x": frames["x"], "far": np.hypot(*frames["x"].T)}


@wf.task
def looked_at(x: list[float], number: int) -> float:
    """An expensive calculation on a frame that was found."""
    return float(np.hypot(x[0], x[1])) + number


@wf.task
def table(rows: list[float]) -> dict[str, float]:
    return {"lowest": min(rows), "highest": max(rows)}


@wf.after
def found(p: Sets, run: Any) -> Any:
    """Copies of a calculation on each of the frames that went farthest."""
    best = run.scores.nlargest(3, "far")
    return table.later([looked_at.later([row.x_0, row.x_1], copy) for row in best.itertuples() for copy in range(2)])
