"""The figures, panels and yardsticks of a run's own workflow file -> pictures and arrays for the page.

They are programs of the workflow's author, so they run only where the run is trusted. One is drawn when somebody opens
it, from a history of its own, so that other viewers do not wait; and again at most once in a while.
"""

from __future__ import annotations

import io
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from steersman.dashboard import style, yardsticks
from steersman.dashboard.errors import NothingToDraw, PanelFails
from steersman.dashboard.figures import SVG_METADATA
from steersman.dashboard.live.packing import packed
from steersman.dashboard.live.watched import Watched
from steersman.dashboard.results import Results
from steersman.journal.history import History
from steersman.stages.errors import UntrustedCode
from steersman.stages.panel import shown
from steersman.stages.workflow import Params, Workflow
from steersman.system.errors import EngineError, told

AGAIN_S = 20.0  # between two drawings
YARDSTICKS = "yardsticks"
Draw = Callable[[History], Any]

_drawing = threading.Lock()  # matplotlib draws one figure at a time


def listed(watched: Watched) -> dict[str, Any]:
    """Names and titles of what the workflow file draws, and why there is nothing."""
    try:
        found = watched.workflow()
    except EngineError as error:
        return {"panels": [], "trouble": str(error)}
    if found is None:
        why = str(UntrustedCode(str(watched.directory.workflow)))
        return {"panels": [], "trouble": "" if watched.trusted else why}
    return {"panels": [{"name": name, "title": title} for name, title, _ in _drawn(*found)], "trouble": ""}


def panel(watched: Watched, name: str) -> bytes:
    """What a panel shows, packed: `svg` (uint8 text), or `values` ((n, m) or (n,) float32); `meta` has its caption.

    Raises: NothingToDraw: there is no such panel, or nothing to draw yet. PanelFails. BadInput: the file can no longer
        be read.
    """
    found = watched.workflow()
    wanted = [(title, draw) for each, title, draw in (_drawn(*found) if found else ()) if each == name]
    if not wanted:
        raise NothingToDraw(f"the workflow has no panel {name!r}")
    with _drawing:
        kept = watched.drawn.get(name)
        if kept is None or (kept[0] != watched.change and time.monotonic() - kept[1] > AGAIN_S):
            change = watched.change
            kept = watched.drawn[name] = change, time.monotonic(), _packed(*wanted[0], History(watched.directory))
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
                return packed(meta, values=found)
            return packed(meta, svg=np.frombuffer(_svg(found), np.uint8))
    except NothingToDraw:
        raise
    except Exception as error:  # whatever its author's program raises is its author's to see
        raise PanelFails(told(error)) from None


def _svg(figure: Figure) -> bytes:
    text = io.StringIO()
    figure.savefig(text, format="svg", metadata=SVG_METADATA)
    return text.getvalue().encode()


def _drawn(workflow: Workflow, params: Params) -> Iterator[tuple[str, str, Draw]]:
    """Name, title and how to draw of everything that a workflow file shows."""

    def by(function: Callable[[Any, Any], Any]) -> Draw:
        return lambda history: function(params, Results(history.directory, history.state))

    if workflow.yardsticks:
        yield YARDSTICKS, "What was reached", lambda history: yardsticks.draw(history, workflow, params)
    for name, (title, function) in {**workflow.figures, **workflow.panels}.items():
        yield name, title, by(function)
