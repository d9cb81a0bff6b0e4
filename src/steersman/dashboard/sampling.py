"""Scored frames -> figure: what was sampled, when, and where segments were started."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PathCollection
from matplotlib.figure import Figure

from steersman.dashboard import style
from steersman.dashboard.figure import figure
from steersman.data.errors import NothingToDraw
from steersman.data.history import History
from steersman.data.scored import Plane, ScoredFrames, plane

MOST_POINTS = 30_000  # more only hide each other
MOST_STARTS = 500  # of each policy
FEW_PLACES = 400  # as of contact maps, of which a short peptide has few
SPREAD = 0.006  # of the axis, between marks that share a place
CROWD = 60  # marks around one place; more are drawn over them
BINS = 20  # cells per direction in which new ground is counted


@figure("sampled", "What was sampled", 10, lambda history: bool(history.state.scored), once=True)
def draw(history: History) -> tuple[Figure, str]:
    """The plane of a score with its frames and starts, or a scalar score over time where there is no plane."""
    scored = ScoredFrames(history)
    name = scored.widest()
    if name is None:
        return _scalar(history, scored)
    seen, begun = plane(name, scored.matrix(name)), len(_starting_frames(history, scored)[0])
    return _with_starts(history, scored, seen, name) if begun else _frames_alone(history, scored, seen, name)


def _frames_alone(history: History, scored: ScoredFrames, seen: Plane, name: str) -> tuple[Figure, str]:
    figure = style.sheet(3.9)
    frames_by_time(figure.subplots(), history, scored, seen)
    caption = f"{_counted(scored, name)}; no segment was started from one of them. {_new_ground(scored, seen)}"
    return figure, caption


def _with_starts(history: History, scored: ScoredFrames, seen: Plane, name: str) -> tuple[Figure, str]:
    figure = style.sheet(3.9)
    left, right = figure.subplots(1, 2, sharex=True, sharey=True)
    frames_by_time(left, history, scored, seen)
    starts = starts_by_policy(right, history, scored, seen)
    right.set(ylabel="")
    left.margins(0.08)
    caption = (
        f"{_counted(scored, name)}. Left: when each was made. Right: the "
        f"frames at which {starts.total():,} segments were started ({_list(starts)}){_shown(starts)}. "
        f"{_new_ground(scored, seen)}"
    )
    return figure, caption


def frames_by_time(axes: Axes, history: History, scored: ScoredFrames, seen: Plane) -> None:
    """What was sampled, coloured by when: every frame, or every place where frames share few places."""
    progress = history.clock.progress(scored.moment)
    _, one, which, frames = np.unique(seen.places(), return_index=True, return_inverse=True, return_counts=True)
    if len(one) <= min(FEW_PLACES, len(scored) // 3):
        first = np.full(len(one), np.inf)
        np.minimum.at(first, which, progress)
        dots = _dots(axes, seen.points[one], first, s=8 + 400 * frames / len(scored), alpha=0.85)
        label = f"first reached at {history.clock.progress_scale.label}; area: share of frames"
    else:
        shown = _some(np.arange(len(scored)), MOST_POINTS)
        shown = shown[np.argsort(-progress[shown], kind="stable")]  # the oldest on top: what is dark was reached late
        dots = _dots(axes, seen.points[shown], progress[shown], s=6, rasterized=True)
        label = f"made at {history.clock.progress_scale.label}, the oldest on top"
    axes.figure.colorbar(dots, ax=axes, label=label, location="top", pad=0.02, aspect=40)
    axes.set(xlabel=seen.labels[0], ylabel=seen.labels[1])


def starts_by_policy(axes: Axes, history: History, scored: ScoredFrames, seen: Plane) -> Counter[str]:
    """The frames in the background, those that segments were started from marked by who chose them."""
    shown = _some(np.arange(len(scored)), MOST_POINTS)
    axes.scatter(seen.points[shown, 0], seen.points[shown, 1], color=style.FAINT, s=6, linewidths=0, rasterized=True)
    at, policies = _starting_frames(history, scored)
    x, y = _side_by_side(seen, at).T
    counts = Counter(policies.tolist())
    for policy, number in counts.most_common():
        mine = _some(np.flatnonzero(policies == policy), MOST_STARTS)
        axes.scatter(
            x[mine], y[mine], label=f"{style.words(policy)} ({number:,})",
            color=style.policy_colour(policy, history.policies), marker=style.policy_marker(policy), s=16,
            linewidths=0.3, edgecolors="white", rasterized=len(mine) > 500,
        )  # fmt: skip
    style.legend_above(axes, ncols=2, title="segments were started from here, chosen by", alignment="left")
    axes.set(xlabel=seen.labels[0], ylabel=seen.labels[1])
    return counts


def _dots(axes: Axes, points: np.ndarray, moments: np.ndarray, **look: Any) -> PathCollection:
    return axes.scatter(points[:, 0], points[:, 1], c=moments, cmap=style.TIME_MAP, linewidths=0, **look)


def _side_by_side(seen: Plane, at: np.ndarray) -> np.ndarray:
    """Points of the plane; those that share a place are set around it in a spiral, so that each can be seen."""
    rank = _rank_within(seen.places()[at]) % CROWD
    radius, angle = SPREAD * np.sqrt(rank), 2.4 * rank  # the golden angle: an even disc
    around = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)
    return np.asarray(seen.points[at] + seen.extent * around)


def _rank_within(which: np.ndarray) -> np.ndarray:
    """0, 1, 2, ... for the members of each group, in order."""
    order = np.argsort(which, kind="stable")
    starts = np.searchsorted(which[order], which[order], side="left")
    rank = np.empty(len(which), dtype=int)
    rank[order] = np.arange(len(which)) - starts
    return rank


def _starting_frames(history: History, scored: ScoredFrames) -> tuple[np.ndarray, np.ndarray]:
    """Positions of the frames that segments started from, and the policy of each."""
    segments = history.segments
    chosen = np.flatnonzero(segments.parent >= 0)
    parent = segments.parent[chosen]
    at = scored.find(segments.walker[parent], segments.parent_row[chosen])
    return at[at >= 0], segments.policy[chosen][at >= 0]


def _counted(scored: ScoredFrames, name: str) -> str:
    return f"{len(scored):,} frames in {name} under {f'model {scored.model}' if scored.model else 'no model'}"


def _new_ground(scored: ScoredFrames, seen: Plane) -> str:
    """How much of what was sampled was first reached in the last quarter of the frames."""
    low = seen.points.min(axis=0)
    grid = np.minimum(BINS * (seen.points - low) / seen.extent, BINS - 1).astype(int)
    order = np.argsort(scored.moment, kind="stable")
    _, first = np.unique((grid @ [BINS, 1])[order], return_index=True)
    late = int((first >= 0.75 * len(order)).sum())
    return f"Of the {len(first)} cells of this plane that were visited, {late} were first reached in the last quarter."


def _scalar(history: History, scored: ScoredFrames) -> tuple[Figure, str]:
    if not scored.names or not len(scored):
        raise NothingToDraw("the score function returned no score")
    name = scored.names[0]
    values, progress = scored.matrix(name)[:, 0], history.clock.progress(scored.moment)
    figure = style.sheet(2.8)
    left, right = figure.subplots(1, 2, sharey=True, width_ratios=(3, 1))
    shown = _some(np.arange(len(scored)), MOST_POINTS)
    left.scatter(progress[shown], values[shown], s=4, color=style.BLUE, linewidths=0, alpha=0.5, rasterized=True)
    right.hist(values, bins=50, orientation="horizontal", color=style.BLUE)
    left.set(xlabel=history.clock.progress_scale.label, ylabel=name)
    right.set(xlabel="frames")
    return figure, f"{name} of {len(scored):,} frames, from {values.min():.4g} to {values.max():.4g}."


def _some(indices: np.ndarray, most: int) -> np.ndarray:
    """All of them, or `most` drawn at random, always the same."""
    if len(indices) <= most:
        return indices
    return np.asarray(np.random.default_rng(0).choice(indices, most, replace=False))


def _shown(starts: Counter[str]) -> str:
    return f", at most {MOST_STARTS} shown of each" if max(starts.values(), default=0) > MOST_STARTS else ""


def _list(counts: Counter[str]) -> str:
    return ", ".join(f"{number:,} by {style.words(policy)}" for policy, number in counts.most_common()) or "none"
