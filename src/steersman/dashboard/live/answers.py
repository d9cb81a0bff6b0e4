"""The views of a run by name: what a request for one gives, for the server and for the offline report alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from steersman.dashboard.live import failures, frame, latent_map, overview, panels, stages, trust
from steersman.dashboard.live.packing import packed
from steersman.dashboard.live.watched import Watched
from steersman.journal.segments import HOW
from steersman.system.errors import BadRequest

Answer = Mapping[str, Any] | bytes

WHOLE: dict[str, Callable[[Watched], Answer]] = {  # that take no query; the offline report keeps them
    "metrics": overview.metrics,
    "walkers": overview.walkers,
    "models": trust.models,
    "failures": failures.failures,
    "stages": stages.graph,
}


def answer(watched: Watched, view: str, query: Mapping[str, str]) -> Answer | None:
    """Plain values, or bytes (packed columns, or the topology); None when there is no such view.

    Raises: BadRequest: something is wrong with the query. Moved: it is of another map. NothingToDraw: the run does not
        hold it.
    """
    if view == "panel":  # it may take long, and holds no lock
        return panels.panel(watched, query.get("name", ""))
    with watched.lock:
        if view in WHOLE:
            return WHOLE[view](watched)
        match view:
            case "segments":
                at, columns = watched.segments_since(int(_number(query, "change", "0")))
                meta = {"change": watched.change, "how": HOW, "policies": watched.history.policies}
                return packed(meta, at=at, **columns)
            case "points":
                return latent_map.points(watched, query.get("colour", "time"), _box(query))
            case "pick":
                reach = _number(query, "rx"), _number(query, "ry")
                return latent_map.pick(watched, _number(query, "x"), _number(query, "y"), reach, _generation(query))
            case "lasso":
                return latent_map.lasso(watched, _corners(query), _generation(query))
            case "stderr":
                return failures.stderr(watched, query.get("segment", ""))
            case "frame":
                return frame.frame(watched, *_frame(query))
            case "film":
                return frame.film(watched, *_frame(query), query.get("name", ""))
            case "topology":
                return frame.topology(watched)
            case "panels":
                return panels.listed(watched)
    return None


def _number(query: Mapping[str, str], name: str, default: str = "") -> float:
    return _as_number(name, query.get(name, default))


def _frame(query: Mapping[str, str]) -> tuple[int, int]:
    return int(_number(query, "walker")), int(_number(query, "row"))


def _generation(query: Mapping[str, str]) -> int | None:
    return int(_number(query, "generation")) if "generation" in query else None


def _box(query: Mapping[str, str]) -> latent_map.Box | None:
    if "x0" not in query:
        return None
    return _number(query, "x0"), _number(query, "x1"), _number(query, "y0"), _number(query, "y1")


def _corners(query: Mapping[str, str]) -> list[tuple[float, float]]:
    flat = [_as_number("corners", text) for text in query.get("corners", "").split(",")[:400]]
    return list(zip(flat[::2], flat[1::2], strict=False))


def _as_number(name: str, text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        raise BadRequest(f"{name}={text:.40}: this is not a number") from None
    if not abs(found) < 1e300:
        raise BadRequest(f"{name}={text:.40}: this number is too large")
    return found
