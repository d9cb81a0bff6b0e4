"""A watched run -> its latent map: points of a part of the plane, the frames under a click, those within a lasso."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.path import Path as Polygon

from steersman.dashboard.live.packing import packed
from steersman.dashboard.live.watched import Watched
from steersman.data.point_cloud import PointCloud
from steersman.data.segment_table import SegmentTable
from steersman.system.errors import BadInput

MOST_POINTS = 400_000  # that travel at a time; of more, every second, third, ... one
MOST_LISTED = 200  # frames under one click
FILM = 40  # frames of a lasso that are listed, spread over it
COLOURS = ("time", "policy", "walker", "slot", "version", "cluster")  # and each scalar score

ALL = slice(None)
Box = tuple[float, float, float, float]  # x from, x to, y from, y to


def points(watched: Watched, colour: str = "time", box: Box | None = None, most: int = MOST_POINTS) -> bytes:
    """The frames within a box of the plane, packed: float32 x, y, c.

    `meta` says: model, generation, labels of the axes, what c is (its title, kind and names), low and high of c, how
    many frames there are in all and in the box, that every `every`-th of these is shown, and how many are not read yet.
    """
    cloud, table = current(watched)
    if cloud.axes is None or not len(cloud):
        return packed({"total": 0, "colours": []})
    at, inside = _within(watched, box, most)
    x, y = cloud.place(at, table, watched.history.wall_time)
    meta, c = coloured(watched, colour, at, inside)
    return packed(meta, x=x, y=y, c=c)


def shown(watched: Watched, most: int) -> tuple[np.ndarray | None, bytes]:
    """At most so many frames of the map, read to its end; packed: float32 x, y, int32 segment (its position), row."""
    cloud, table = current(watched)
    while cloud.behind:
        cloud, table = current(watched)
    if cloud.axes is None or not len(cloud):
        return None, b""
    at, _ = _within(watched, None, most)
    x, y = cloud.place(at, table, watched.history.wall_time)
    return at, packed({}, x=x, y=y, segment=cloud.segment[at], row=cloud.row[at])


def coloured(
    watched: Watched, colour: str, at: np.ndarray, inside: int | None = None
) -> tuple[dict[str, Any], np.ndarray]:
    """What `points` says of some frames, and their c."""
    cloud = watched.cloud
    assert cloud.axes is not None
    total = len(counting(cloud, watched.table))
    inside = total if inside is None else inside
    c, names, title = colours(watched, colour, at)
    finite = c[np.isfinite(c)]
    least, most = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 1.0)
    if colour == "time":
        least = min(least, 0.0)  # a frame's moment is interpolated: no label shows the first one's
    low, high = (least, most) if colour == "time" or not len(finite) else np.percentile(finite, [0.5, 99.5]).tolist()
    meta = {
        "model": cloud.model, "generation": cloud.generation, "labels": cloud.axes.labels, "total": total,
        "inside": inside, "every": max(1, round(inside / max(1, len(at)))), "colour": colour, "title": title,
        "names": names, "low": low, "high": high, "beyond": [least < low, most > high],
        "colours": colour_names(watched), "flat": cloud.axes.projection is None,
        "change": watched.change, "behind": cloud.behind,
    }  # fmt: skip
    return meta, c.astype(np.float32)


def colours(watched: Watched, colour: str, at: np.ndarray) -> tuple[np.ndarray, list[str], str]:
    """What colours some frames: (m,) float, the names of its values where these are no amounts, and a title."""
    cloud, table, history = watched.cloud, watched.table, watched.history
    segment = np.maximum(cloud.segment[at], 0)
    match colour:
        case "policy":
            codes = watched.column("policy")[segment].astype(float)
            return np.where(codes == 255, np.nan, codes), list(history.policies), "who chose the start"
        case "walker" | "slot":
            return getattr(table, colour)[segment].astype(float), [], colour
        case "version":
            return table.model[segment].astype(float), [], "version of the model that chose the start (0: none)"
        case "bias":
            return watched.column("bias")[segment].astype(float), [], "version of the bias that pushed it (0: none)"
        case "cluster":
            return cloud.clusters(at).astype(float), [], "cluster of the plane (k-means)"
        case name if name in cloud.scores:
            return cloud.score(name, at).astype(float), [], name
    scale = watched.clock.progress_scale
    return watched.clock.progress(cloud.moments(at, table)), [], f"made at {scale.label}"


def colour_names(watched: Watched) -> list[str]:
    """What frames may be coloured by; where some segments were pushed, what tells them from the others, too."""
    return [*COLOURS, *["bias"] * bool(watched.column("bias").any()), *watched.cloud.scores]


def pick(
    watched: Watched, x: float, y: float, reach: tuple[float, float], generation: int | None = None
) -> dict[str, Any]:
    """The frames nearest to a point of the plane, the nearest first, within `reach` along x and y; else the nearest.

    Args:
        generation: that of the map on which the point lies; None: this one.
    Raises: BadInput: it is a place of an older map.
    """
    cloud, table = _of(watched, generation)
    if not len(cloud):
        return {"frames": [], "number": 0}
    px, py = cloud.place(ALL, table, watched.history.wall_time)
    near = np.flatnonzero((np.abs(px - x) <= reach[0]) & (np.abs(py - y) <= reach[1]))
    near = near[_counts(cloud, table, near)]
    if not len(near):
        near = counting(cloud, table)
    if not len(near):
        return {"frames": [], "number": 0}
    away = ((px[near] - x) / reach[0]) ** 2 + ((py[near] - y) / reach[1]) ** 2
    within = max(1, int((away <= 1).sum()))
    nearest = np.argpartition(away, min(within, MOST_LISTED) - 1)[: min(within, MOST_LISTED)]
    listed = near[nearest[np.argsort(away[nearest], kind="stable")]]
    return {"frames": _named(cloud, table, listed), "number": within}


def lasso(watched: Watched, corners: Sequence[tuple[float, float]], generation: int | None = None) -> dict[str, Any]:
    """The frames within a polygon: how many, who chose their starts, their scores, and some spread over time.

    Raises: BadInput, see `pick`.
    """
    cloud, table = _of(watched, generation)
    if not len(cloud) or len(corners) < 3:
        return {"number": 0, "frames": []}
    outline = np.asarray(corners, float)
    low, high = outline.min(axis=0), outline.max(axis=0)
    px, py = cloud.place(ALL, table, watched.history.wall_time)
    near = np.flatnonzero((px >= low[0]) & (px <= high[0]) & (py >= low[1]) & (py <= high[1]))
    near = near[_counts(cloud, table, near)]
    held = near[Polygon(outline).contains_points(np.stack([px[near], py[near]], axis=1))] if len(near) else near
    if not len(held):
        return {"number": 0, "frames": []}
    policies = Counter(table.policy[cloud.segment[held]].tolist())
    progress = watched.clock.progress(cloud.moments(held, table))
    spread = held[np.argsort(progress, kind="stable")][
        np.linspace(0, len(held) - 1, min(FILM, len(held))).round().astype(int)
    ]
    scores = {name: cloud.score(name, held).astype(float) for name in cloud.scores[:6]}
    return {
        "number": len(held),
        "share": len(held) / len(counting(cloud, table)),
        "segments": len(np.unique(cloud.segment[held])),
        "policies": policies.most_common(),
        "made": [float(np.nanmin(progress)), float(np.nanmax(progress)), watched.clock.progress_scale.unit],
        "scores": {
            name: [float(np.nanmean(v)), float(np.nanmin(v)), float(np.nanmax(v))] for name, v in scores.items()
        },
        "frames": _named(cloud, table, spread),
    }


def places(watched: Watched, frames: Sequence[tuple[int, int, int]]) -> list[list[float] | None]:
    """Where some frames (position of the segment, walker, row) lie on the map; None for one without a score."""
    cloud, table = current(watched)
    if not len(cloud):
        return [None] * len(frames)
    at = cloud.of_segments([segment for segment, _, _ in frames])
    known = dict(zip(zip(cloud.segment[at].tolist(), cloud.row[at].tolist(), strict=True), at.tolist(), strict=True))
    numbers = [known.get((segment, row)) for segment, _, row in frames]
    have = np.array([i for i in numbers if i is not None], int)
    x, y = cloud.place(have, table, watched.history.wall_time)
    shown = iter(zip(x.tolist(), y.tolist(), strict=True))
    return [None if i is None else list(next(shown)) for i in numbers]


def current(watched: Watched) -> tuple[PointCloud, SegmentTable]:
    """The points of the map, read on, and the segments of the same moment."""
    state, table = watched.history.state, watched.table
    watched.cloud.catch_up(state.scored_with, state.scored, table)
    return watched.cloud, table


def _of(watched: Watched, generation: int | None) -> tuple[PointCloud, SegmentTable]:
    cloud, table = current(watched)
    if generation not in (None, cloud.generation):
        raise BadInput(
            "the map has changed since, for a newer model scored the frames; it is drawn again: choose again"
        )
    return cloud, table


def _within(watched: Watched, box: Box | None, most: int) -> tuple[np.ndarray, int]:
    """Positions of the frames of a box, thinned evenly to `most`, and how many there are."""
    cloud, table = watched.cloud, watched.table
    if box is None or cloud.axes is None or cloud.axes.projection is None:
        at = counting(cloud, table)
        return at[:: max(1, -(-len(at) // most))], len(at)
    inside = (cloud.x >= box[0]) & (cloud.x <= box[1]) & (cloud.y >= box[2]) & (cloud.y <= box[3])
    at = np.flatnonzero(inside)
    at = at[_counts(cloud, table, at)]
    return at[:: max(1, -(-len(at) // most))], len(at)


def counting(cloud: PointCloud, table: SegmentTable) -> np.ndarray:
    """Positions of all frames that count, (n,)."""
    return np.flatnonzero(_counts(cloud, table, ALL))


def _counts(cloud: PointCloud, table: SegmentTable, at: np.ndarray | slice) -> np.ndarray:
    """Whether frames belong to segments that count: one may have been run twice."""
    segment = cloud.segment[at]
    return np.asarray((segment >= 0) & (table.end > table.first)[np.maximum(segment, 0)])


def _named(cloud: PointCloud, table: SegmentTable, at: np.ndarray) -> list[dict[str, Any]]:
    segment = cloud.segment[at]
    return [
        {"walker": int(table.walker[s]), "row": int(row), "segment": table.name(s), "frame": int(row - table.first[s])}
        for s, row in zip(segment.tolist(), cloud.row[at].tolist(), strict=True)
    ]
