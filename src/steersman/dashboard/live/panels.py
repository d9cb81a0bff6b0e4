"""The figures of a run, and the figures, panels and yardsticks of its own workflow file -> pictures and arrays.

Those of the file are programs of the workflow's author, so they run only where the run is trusted. One is drawn when
somebody opens it, from a history of its own, so that other viewers do not wait; and again at most once in a while.
"""

from __future__ import annotations

import threading
import time
from typing import Any

import numpy as np

from steersman.dashboard import style
from steersman.dashboard.errors import PanelFails
from steersman.dashboard.figure import OPEN, Draw
from steersman.dashboard.figures import applying, made, of_workflow, svg_of
from steersman.dashboard.live.packing import packed
from steersman.dashboard.live.watched import Watched
from steersman.data.errors import NothingToDraw
from steersman.data.history import History
from steersman.data.stored import variables
from steersman.stages.errors import UntrustedCode
from steersman.stages.panel import shown
from steersman.system.errors import EngineError, told

AGAIN_S = 20.0  # between two drawings

_drawing = threading.Lock()  # matplotlib draws one figure at a time


def listed(watched: Watched) -> dict[str, Any]:
    """Names and titles of what may be drawn, whether it is shown unasked, and why there is nothing of the file."""
    panels, trouble = _known(watched)
    opened = OPEN & applying(watched.history).keys()
    shown = [{"name": name, "title": title, "open": name in opened} for name, (title, _) in panels.items()]
    return {"panels": shown, "trouble": trouble}


def panel(watched: Watched, name: str) -> bytes:
    """What a panel shows, packed: `svg` (uint8 text), or `values` ((n, m) or (n,) float32); `meta` has its caption.

    Raises: NothingToDraw: there is no such panel, or nothing to draw yet. PanelFails.
    """
    wanted = _known(watched)[0].get(name)
    if wanted is None:
        raise NothingToDraw(f"the workflow has no panel {name!r}")
    with _drawing:
        kept = watched.drawn.get(name)
        if kept is None or (kept[0] != watched.change and time.monotonic() - kept[1] > AGAIN_S):
            change = watched.change
            history = History(watched.directory)
            kept = watched.drawn[name] = change, time.monotonic(), _packed(*wanted, history)
    return kept[2]


def picture(title: str, caption: str, svg: str) -> bytes:
    """A panel that is drawn already."""
    return packed({"title": title, "caption": caption}, svg=np.frombuffer(svg.encode(), np.uint8))


def _packed(title: str, draw: Draw, history: History) -> bytes:
    try:
        with style.applied():
            content, caption = shown(made(draw, history))
            if not isinstance(content, np.ndarray):
                return picture(title, caption, svg_of(content))
            sphere = any(each.sphere for each in variables(history).values())  # as the run's own fields are
            globe = sphere and content.shape[1:] == (2 * len(content),)
            return packed({"title": title, "caption": caption, "globe": globe}, values=content)
    except NothingToDraw:
        raise
    except Exception as error:  # whatever its author's program raises is its author's to see
        raise PanelFails(told(error)) from None


def _known(watched: Watched) -> tuple[dict[str, tuple[str, Draw]], str]:
    """Title and how to draw by name, those of the workflow first: what the run is for comes before how it went. And
    what keeps the workflow's out."""
    with watched.lock:
        ours = applying(watched.history)
    try:
        loaded = watched.workflow()
    except EngineError as error:
        return ours, str(error)
    if loaded is None:
        return ours, "" if watched.trusted else str(UntrustedCode(str(watched.directory.workflow)))
    workflow, params = loaded
    return {**of_workflow(workflow, params, {**workflow.figures, **workflow.panels}), **ours}, ""
