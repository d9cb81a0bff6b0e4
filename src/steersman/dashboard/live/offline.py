"""A history -> the page's views for an offline report: its scripts, styles and the answers to what they ask.

The scripts are those of the live page. They ask for the same things, and find the answers inside the report.
"""

from __future__ import annotations

import base64
import contextlib
import json
import time
import urllib.parse
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import numpy as np

from steersman.dashboard.errors import PanelFails
from steersman.dashboard.figures import Drawing
from steersman.dashboard.live import answers, frame, latent_map, overview, panels, server
from steersman.dashboard.live.packing import packed
from steersman.dashboard.live.watched import Watched
from steersman.data.errors import NothingToDraw
from steersman.data.history import History
from steersman.system.errors import EngineError, told

MOST_POINTS = 30_000
MOST_SEGMENTS = 60_000  # of more, slots and lineage are left to the live page
MOST_COLOURS = 16  # of the map; that each walker and each slot has is left to the live page, too
LINEAGES, FILM = 3, 24  # deepest lineages whose films are kept, and frames of each
MOST_FILM_BYTES = 6 * 2**20  # of all films
MOST_STDERR = 20


def embedded(history: History, drawings: Sequence[Drawing], trouble: str, words: str) -> tuple[str, str, str]:
    """What goes into the head of a report, its scripts, and its body.

    Args:
        drawings, trouble: the figures that `figures/` has, and why it lacks others.
        words: HTML that stands there until the scripts run.
    Raises: EngineError: the page's JavaScript libraries are not installed.
    """
    server.check_libraries()
    watched = Watched.of(history)
    kept = dict(_kept(watched)) | dict(_panels(watched, drawings, trouble))
    has_molecule = "topology" in kept
    style = "\n".join([_text(server.LIBRARIES, "uPlot.min.css"), _text(answers.PAGE, "page.css")])
    scripts = {file.name: file for file in answers.PAGE.iterdir() if file.name.endswith(".js")} | answers.scripts()
    modules = {f"steersman/{name}": _url(file.read_bytes()) for name, file in scripts.items()}
    libraries = ["uPlot.iife.min.js", *(["3Dmol-min.js"] if has_molecule else [])]
    head = [f"<style>\n{style}\n</style>", _script(json.dumps({"imports": modules}), "importmap")]
    head += [_script(_text(server.LIBRARIES, name)) for name in libraries]
    begin = [
        _script(msgspec.json.encode(kept).decode(), "application/json", "kept"),
        _script('import "steersman/run.js";', "module"),
    ]
    return "\n".join(head), "\n".join(begin), f'<header id="top"></header>\n<main id="page">{words}</main>'


def _kept(watched: Watched) -> Iterator[tuple[str, Any]]:
    """Address of a view -> its answer: plain values, or base64 of what is packed; or why there is none."""
    now = watched.history.state.now
    yield (
        "state",
        overview.state(watched, now or time.time())
        | {"may_act": False, "others": [], "baseline": "", "live": False, "views": [*answers.views()]},
    )
    asked: list[tuple[str, dict[str, str]]] = [(view, {}) for view in (*answers.WHOLE, *answers.views())]
    asked += [("segments", {})] * (len(watched.table) <= MOST_SEGMENTS)
    asked += [("stderr", {"segment": segment}) for segment in list(watched.history.causes)[-MOST_STDERR:]]
    for view, query in asked:
        try:
            yield _asked(view, **query), _plain(answers.answer(watched, view, query))
        except Exception as error:  # a damaged file may cost its own view, never the report
            yield _asked(view, **query), {"missing": told(error)}
    with contextlib.suppress(EngineError):
        yield from _points(watched)
    with contextlib.suppress(EngineError):
        yield from _frames(watched)


def _points(watched: Watched) -> Iterator[tuple[str, Any]]:
    """The map once, and what colours it by each colour."""
    at, colours = latent_map.shown(watched, MOST_POINTS)
    if at is None:
        yield _asked("points", colour="time"), _plain(packed({"total": 0, "colours": []}))
        return
    names = [each for each in latent_map.colour_names(watched) if each not in ("walker", "slot")][:MOST_COLOURS]
    yield "places", _plain(colours)
    for name in names:
        meta, c = latent_map.coloured(watched, name, at)
        yield _asked("points", colour=name), _plain(packed(meta | {"colours": names}, c=c))


def _frames(watched: Watched) -> Iterator[tuple[str, Any]]:
    """Films of the deepest lineages, as far as they are not too large."""
    table, room = watched.table, MOST_FILM_BYTES
    made = table.made
    deepest = made[np.argsort(-table.generations()[made], kind="stable")]
    has_topology = frame.has_topology(watched)
    for at in _apart(deepest.tolist(), table.parent)[:LINEAGES]:
        walker, row = int(table.walker[at]), int(table.end[at]) - 1
        facts = frame.frame(watched, walker, row)
        for shown in facts["variables"]:
            if shown["view"] == "molecule" and not has_topology:
                continue
            with contextlib.suppress(NothingToDraw):
                film = _plain(frame.film(watched, walker, row, shown["name"], FILM))
                if len(film) <= room:
                    room -= len(film)
                    yield _asked("film", walker=walker, row=row, name=shown["name"]), film
        yield _asked("frame", walker=walker, row=row), facts
    if has_topology:
        yield "topology", _plain(frame.topology(watched))


def _apart(deepest: list[int], parent: np.ndarray) -> list[int]:
    """The first of some segments that are no ancestors of those before them."""
    seen: set[int] = set()
    tips = []
    for at in deepest[:2000]:
        if at in seen:
            continue
        tips.append(at)
        while at >= 0:
            seen.add(at)
            at = int(parent[at])
    return tips


def _panels(watched: Watched, drawings: Sequence[Drawing], trouble: str) -> Iterator[tuple[str, Any]]:
    """The figures as they are drawn already, then the panels of the workflow, which only the page shows."""
    listed, troubles = list[dict[str, Any]](), [trouble] if trouble else []
    for each in drawings:
        if each.svg:
            yield _asked("panel", name=each.name), _plain(panels.picture(each.title, each.caption, each.svg))
            listed.append({"name": each.name, "title": each.title, "open": True})
    with contextlib.suppress(EngineError):
        workflow = watched.workflow()
        for name, (title, _) in workflow[0].panels.items() if workflow else ():
            try:
                yield _asked("panel", name=name), _plain(panels.panel(watched, name))
                listed.append({"name": name, "title": title})
            except NothingToDraw:
                pass
            except PanelFails as error:
                troubles.append(f"{title}: {error}")
    yield "panels", {"panels": listed, "trouble": "; ".join(troubles)}


def _asked(view: str, **query: Any) -> str:
    """As the page asks for it."""
    return f"{view}?{urllib.parse.urlencode(query)}" if query else view


def _plain(answer: Any) -> Any:
    return base64.b64encode(answer).decode() if isinstance(answer, bytes) else answer


def _text(folder: Any, name: str) -> str:
    return str((folder / name).read_text(encoding="utf-8"))


def _url(script: bytes) -> str:
    return f"data:text/javascript;base64,{base64.b64encode(script).decode()}"


def _script(text: str, kind: str = "", name: str = "") -> str:
    """A script element that nothing inside can close."""
    typed = f' type="{kind}"' if kind else ""
    named = f' id="{name}"' if name else ""
    safe = (
        text.replace("<", "\\u003c")
        if "json" in kind or kind == "importmap"
        else text.replace("</script", "<\\/script")
    )
    return f"<script{typed}{named}>{safe}</script>"
