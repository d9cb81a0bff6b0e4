"""The views of a run by name: what a request for one gives, for the server and for the offline report alike."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from pkgutil import iter_modules
from types import ModuleType
from typing import Any

from steersman.dashboard.errors import PanelFails
from steersman.dashboard.live import frame, latent_map, overview, panels
from steersman.dashboard.live import views as parts
from steersman.dashboard.live.packing import packed
from steersman.dashboard.live.views import failures
from steersman.dashboard.live.watched import Watched
from steersman.journal.segments import HOW
from steersman.system.calls import called
from steersman.system.errors import BadInput, EngineError, place, told
from steersman.system.registry import Others

Answer = Mapping[str, Any] | bytes
Query = Mapping[str, str]
SERVED = {"state", "messages", "tell", "panel"}  # by other ways
log = logging.getLogger("steersman.dashboard")

PAGE = files("steersman.dashboard.live") / "page"
WHOLE: dict[
    str, Callable[[Watched], Answer]
] = {  # that take no query, as those of `views`; the offline report keeps them
    "metrics": overview.metrics,
    "walkers": overview.walkers,
}
OTHER: dict[str, Callable[[Watched, Query], Answer]] = {
    "segments": lambda watched, query: _segments(watched, int(_number(query, "change", "0"))),
    "points": lambda watched, query: latent_map.points(watched, query.get("colour", "time"), _box(query)),
    "pick": lambda watched, query: latent_map.pick(
        watched,
        _number(query, "x"),
        _number(query, "y"),
        (_number(query, "rx"), _number(query, "ry")),
        _generation(query),
    ),
    "lasso": lambda watched, query: latent_map.lasso(watched, _corners(query), _generation(query)),
    "stderr": lambda watched, query: failures.stderr(watched, query.get("segment", "")),
    "frame": lambda watched, query: frame.frame(watched, *_frame(query)),
    "film": lambda watched, query: frame.film(watched, *_frame(query), query.get("name", "")),
    "topology": lambda watched, query: frame.topology(watched),
    "panels": lambda watched, query: panels.listed(watched),
}


@cache
def views() -> dict[str, ModuleType]:
    """The parts of the page that stand alone; of one of another package that cannot be used, a line is logged."""
    ours = {each.name: import_module(f"{parts.__name__}.{each.name}") for each in iter_modules(parts.__path__)}
    taken = {*ours, *WHOLE, *OTHER, *SERVED, *(Path(file.name).stem for file in PAGE.iterdir())}
    others, problems = Others("steersman.views", taken, _check).loaded()
    for problem in problems.values():
        log.warning("%s", problem)
    return ours | others


def scripts() -> dict[str, Path]:
    """The JavaScript modules of `views`, by the names that the page imports."""
    return {f"{name}.js": _script(view) for name, view in views().items()}


def _script(view: ModuleType) -> Path:
    return Path(str(view.__file__)).with_suffix(".js")


def _check(view: ModuleType) -> None:
    if not callable(view.answer) or not _script(view).is_file():
        raise TypeError(f"it needs answer(watched), and {_script(view)} beside it")


def answer(watched: Watched, view: str, query: Query) -> Answer | None:
    """Plain values, or bytes (packed columns, or the topology); None when there is no such view.

    Raises: BadInput: something is wrong with the query. It is of another map. NothingToDraw: the run does not
        hold it. PanelFails: a view raises another error.
    """
    if view == "panel":  # it may take long, and holds no lock
        return panels.panel(watched, query.get("name", ""))
    with watched.lock:
        if view in WHOLE:
            return WHOLE[view](watched)
        if view in OTHER:
            return OTHER[view](watched, query)
        return _alone(watched, view) if view in views() else None


def _alone(watched: Watched, view: str) -> Answer:
    try:
        return called(views()[view].answer, watched)  # type: ignore[no-any-return]
    except EngineError:
        raise
    except Exception as error:  # of another package
        raise PanelFails(told(error) + place(error)) from error


def _segments(watched: Watched, change: int) -> bytes:
    at, columns = watched.segments_since(change)
    meta = {"change": watched.change, "how": HOW, "policies": watched.history.policies}
    return packed(meta, at=at, **columns)


def _number(query: Query, name: str, default: str = "") -> float:
    return _as_number(name, query.get(name, default))


def _frame(query: Query) -> tuple[int, int]:
    return int(_number(query, "walker")), int(_number(query, "row"))


def _generation(query: Query) -> int | None:
    return int(_number(query, "generation")) if "generation" in query else None


def _box(query: Query) -> latent_map.Box | None:
    if "x0" not in query:
        return None
    return _number(query, "x0"), _number(query, "x1"), _number(query, "y0"), _number(query, "y1")


def _corners(query: Query) -> list[tuple[float, float]]:
    flat = [_as_number("corners", text) for text in query.get("corners", "").split(",")[:400]]
    return list(zip(flat[::2], flat[1::2], strict=False))


def _as_number(name: str, text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        raise BadInput(f"{name}={text:.40}: this is not a number") from None
    if not abs(number) < 1e300:
        raise BadInput(f"{name}={text:.40}: this number is too large")
    return number
