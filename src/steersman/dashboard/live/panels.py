"""The figures, panels and yardsticks of a run's own workflow file -> pictures and arrays for the page.

They are programs of the workflow's author, so they run only where the run is trusted. One is drawn when somebody opens
it, from a history of its own, so that other viewers do not wait; and again at most once in a while.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from steersman.dashboard import style, yardsticks
from steersman.dashboard.errors import PanelFails
from steersman.dashboard.figures import live, svg_of
from steersman.dashboard.live.packing import packed
from steersman.dashboard.live.watched import Watched
from steersman.data.errors import NothingToDraw
from steersman.data.history import History
from steersman.data.results import Results
from steersman.data.stored import variables
from steersman.stages.errors import UntrustedCode
from steersman.stages.panel import shown
from steersman.stages.params import Params
from steersman.stages.workflow import Workflow
from steersman.system.calls import called
from steersman.system.errors import EngineError, told

AGAIN_S = 20.0  # between two drawings
YARDSTICKS = "yardsticks"
Draw = Callable[[History], Any]

_drawing = threading.Lock()  # matplotlib draws one figure at a time


def listed(watched: Watched) -> dict[str, Any]:
    """Names and titles of what the workflow file draws, whether it is shown unasked, and why there is nothing."""
    trouble, found = "", None
    try:
        found = watched.workflow()
        if found is None and not watched.trusted:
            trouble = str(UntrustedCode(str(watched.directory.workflow)))
    except EngineError as error:
        trouble = str(error)
    shown = [{"name": name, "title": title, "open": True} for name, title, _ in own(watched)]
    shown += [{"name": name, "title": title} for name, title, _ in (_drawn(*found) if found else ())]
    return {"panels": shown, "trouble": trouble}


def panel(watched: Watched, name: str) -> bytes:
    """What a panel shows, packed: `svg` (uint8 text), or `values` ((n, m) or (n,) float32); `meta` has its caption.

    Raises: NothingToDraw: there is no such panel, or nothing to draw yet. PanelFails. BadInput: the file can no longer
        be read.
    """
    ours = [(title, draw) for each, title, draw in own(watched) if each == name]
    found = None if ours else watched.workflow()
    wanted = ours or [(title, draw) for each, title, draw in (_drawn(*found) if found else ()) if each == name]
    if not wanted:
        raise NothingToDraw(f"the workflow has no panel {name!r}")
    with _drawing:
        kept = watched.drawn.get(name)
        if kept is None or (kept[0] != watched.change and time.monotonic() - kept[1] > AGAIN_S):
            change = watched.change
            history = History(watched.directory)
            kept = watched.drawn[name] = change, time.monotonic(), _packed(*wanted[0], history)
    return kept[2]


def _packed(title: str, draw: Draw, history: History) -> bytes:
    try:
        with style.applied():
            made = draw(history)
            if made is None:
                raise NothingToDraw("the workflow has nothing to draw here yet")
            found, caption = shown(made)
            meta = {"title": title, "caption": caption}
            if isinstance(found, np.ndarray):
                sphere = any(each.sphere for each in variables(history).values())  # as the run's own fields are
                return packed(meta | {"globe": sphere and found.shape[1:] == (2 * len(found),)}, values=found)
            return packed(meta, svg=np.frombuffer(svg_of(found).encode(), np.uint8))
    except NothingToDraw:
        raise
    except Exception as error:  # whatever its author's program raises is its author's to see
        raise PanelFails(told(error)) from None


def own(watched: Watched) -> Iterator[tuple[str, str, Draw]]:
    """The same of what every run shows that has it: this runs no code of the run."""
    for name, (title, draw) in live(watched.history).items():
        yield name, title, draw


def _drawn(workflow: Workflow, params: Params) -> Iterator[tuple[str, str, Draw]]:
    """Name, title and how to draw of everything that a workflow file shows."""

    def by(function: Callable[[Any, Any], Any]) -> Draw:
        return lambda history: called(function, params, Results(history))

    if workflow.yardsticks:
        yield YARDSTICKS, "What was reached", lambda history: yardsticks.draw(history, workflow, params)
    for name, (title, function) in {**workflow.figures, **workflow.panels}.items():
        yield name, title, by(function)
