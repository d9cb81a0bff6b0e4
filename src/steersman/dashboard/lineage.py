"""Segments -> figure: which segment was started from a frame of which."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from steersman.dashboard import style
from steersman.dashboard.figure import figure
from steersman.data.errors import NothingToDraw
from steersman.data.history import History
from steersman.data.segment_table import SegmentTable

MOST_SEGMENTS = 500  # more branches than this cannot be distinguished on a page


@figure("lineage", "Which segment came from which", 90)
def draw(history: History) -> tuple[Figure, str]:
    """The tree of segments over time, coloured by who chose each start."""
    segments = history.segments
    if not (segments.parent >= 0).any():
        raise NothingToDraw("no segment began at a frame of another")
    kept = longest_lineages(segments, MOST_SEGMENTS)
    leaves = len(kept) - len(np.intersect1d(segments.parent[kept], kept))
    figure = style.sheet(min(6.0, 1.4 + 0.05 * leaves))
    tree(figure.subplots(), history, kept)
    return figure, _caption(history, kept)


def tree(axes: Axes, history: History, kept: np.ndarray) -> None:
    """Draw some segments; each branch leaves its parent where the parent stands and ends at its own beginning."""
    segments = history.segments
    x, y = history.clock.progress(segments.began), heights(segments, kept)
    children = kept[segments.parent[kept] >= 0]
    parents = segments.parent[children]
    branches = np.stack([x[parents], y[parents], x[parents], y[children], x[children], y[children]], axis=1)
    colours = [style.policy_colour(policy, history.policies) for policy in segments.policy[children]]
    lines = LineCollection(list(branches.reshape(-1, 3, 2)), colors=colours, linewidths=0.7, rasterized=len(kept) > 300)
    axes.add_collection(lines)
    for policy in dict.fromkeys(segments.policy[kept]):
        mine = kept[segments.policy[kept] == policy]
        axes.scatter(
            x[mine], y[mine], s=9, linewidths=0, color=style.policy_colour(policy, history.policies),
            label=style.words(policy), rasterized=len(kept) > 300, zorder=3,
        )  # fmt: skip
    axes.set(xlabel=f"{history.clock.progress_scale.label} at which a segment began", yticks=[])
    axes.spines["left"].set_visible(False)
    axes.margins(x=0.01, y=0.02)
    style.legend_above(axes)


def longest_lineages(segments: SegmentTable, most: int) -> np.ndarray:
    """Positions of at most `most` segments, ascending: the deepest ones first, each with all its ancestors."""
    kept: set[int] = set()
    for tip in np.argsort(-segments.generations(), kind="stable"):
        path = _path(segments, int(tip), kept)
        if len(kept) + len(path) <= most:
            kept.update(path)
        if len(kept) >= most:
            break
    return np.array(sorted(kept), dtype=int)


def heights(segments: SegmentTable, kept: np.ndarray) -> np.ndarray:
    """(n,) float: a height for each kept segment, so that no branches of the tree cross; NaN for the others."""
    children: dict[int, list[int]] = {-1: []}
    for i in kept.tolist():
        children.setdefault(int(segments.parent[i]), []).append(i)
        children.setdefault(i, [])
    y = np.full(len(segments), np.nan)
    for lane, leaf in enumerate(_leaves(children)):
        y[leaf] = lane
    for i in reversed(kept.tolist()):  # children come after their parents, so they have their heights already
        if children[i]:
            y[i] = np.mean(y[children[i]])
    return y


def _path(segments: SegmentTable, tip: int, known: set[int]) -> list[int]:
    """A segment and its ancestors, up to the first known one."""
    path = []
    while tip >= 0 and tip not in known:
        path.append(tip)
        tip = int(segments.parent[tip])
    return path


def _leaves(children: dict[int, list[int]]) -> list[int]:
    """Segments without children, depth first."""
    found, waiting = [], list(reversed(children[-1]))
    while waiting:
        at = waiting.pop()
        waiting.extend(reversed(children[at]))
        if not children[at]:
            found.append(at)
    return found


def _caption(history: History, kept: np.ndarray) -> str:
    segments = history.segments
    depth, below = segments.generations(), segments.descendants()
    part = "" if len(kept) == len(segments) else f"The longest lineages, {len(kept)} of {len(segments):,} segments. "
    most = int(below.argmax())
    return (
        f"{part}A branch leaves its parent and ends where the child began. The deepest segment, "
        f"{segments.name(int(depth.argmax()))}, has {int(depth.max())} ancestors; {segments.name(most)} has the most "
        f"descendants, {int(below[most]):,}."
    )
