"""Scored frames -> figure: what was sampled, when, and where segments were started."""

from __future__ import annotations

from collections import Counter

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from steersman.dashboard import style
from steersman.dashboard.errors import NothingToDraw
from steersman.dashboard.history import History
from steersman.dashboard.scored import Plane, Scored, plane

MOST_POINTS = 30_000  # more only hide each other
MOST_STARTS = 3_000
BINS = 20  # cells per direction in which new ground is counted


def draw(history: History) -> tuple[Figure, str]:
    """The plane of a score with its frames and starts, or a scalar score over time where there is no plane."""
    scored = Scored(history)
    name = scored.widest()
    return _scalar(history, scored) if name is None else _plane(history, scored, name)


def _plane(history: History, scored: Scored, name: str) -> tuple[Figure, str]:
    seen = plane(name, scored.matrix(name))
    figure = style.sheet(3.5)
    left, right = figure.subplots(1, 2, sharex=True, sharey=True)
    frames_by_time(left, history, scored, seen)
    starts = starts_by_policy(right, history, scored, seen)
    right.set_ylabel("")
    model = f"model {scored.model}" if scored.model else "no model"
    caption = (
        f"{len(scored):,} frames in {name} under {model}. Left: when each was made. Right: the "
        f"{starts.total():,} frames that segments were started from ({_list(starts)}). {_new_ground(scored, seen)}"
    )
    return figure, caption


def frames_by_time(axes: Axes, history: History, scored: Scored, seen: Plane) -> None:
    """Every frame, coloured by when it was made; the newest on top."""
    shown = np.sort(_some(np.argsort(scored.moment, kind="stable"), MOST_POINTS))
    shown = shown[np.argsort(scored.moment[shown], kind="stable")]
    made = history.clock.progress(scored.moment[shown])
    dots = axes.scatter(*seen.points[shown].T, c=made, cmap=style.TIME_MAP, s=5, linewidths=0, rasterized=True)
    axes.figure.colorbar(dots, ax=axes, label=f"made at {history.clock.progress_scale.label}", pad=0.02, aspect=30)
    axes.set(xlabel=seen.labels[0], ylabel=seen.labels[1])


def starts_by_policy(axes: Axes, history: History, scored: Scored, seen: Plane) -> Counter[str]:
    """The frames in the background, those that segments were started from marked by who chose them."""
    shown = _some(np.arange(len(scored)), MOST_POINTS)
    axes.scatter(*seen.points[shown].T, color=style.FAINT, s=3, linewidths=0, rasterized=True)
    at, policies = _starting_frames(history, scored)
    counts = Counter(dict.fromkeys(history.policies(), 0)) + Counter(policies.tolist())
    for policy, number in counts.most_common():
        mine = _some(at[policies == policy], MOST_STARTS)
        axes.scatter(
            *seen.points[mine].T, label=f"{style.words(policy)} ({number:,})", color=style.policy_colour(policy),
            marker=style.policy_marker(policy), s=20, linewidths=0.4, edgecolors="white", rasterized=len(mine) > 500,
        )  # fmt: skip
    if counts:
        style.legend_above(axes, ncols=2)
    axes.set(xlabel=seen.labels[0], ylabel=seen.labels[1])
    return counts


def _starting_frames(history: History, scored: Scored) -> tuple[np.ndarray, np.ndarray]:
    """Positions of the frames that segments started from, and the policy of each."""
    segments = history.segments
    chosen = np.flatnonzero(segments.parent >= 0)
    parent = segments.parent[chosen]
    at = scored.find(segments.walker[parent], segments.parent_row[chosen])
    return at[at >= 0], segments.policy[chosen][at >= 0]


def _new_ground(scored: Scored, seen: Plane) -> str:
    """How much of what was sampled was first reached in the last quarter of the frames."""
    low, high = seen.points.min(axis=0), seen.points.max(axis=0)
    grid = np.minimum(BINS * (seen.points - low) / np.where(high > low, high - low, 1.0), BINS - 1).astype(int)
    order = np.argsort(scored.moment, kind="stable")
    _, first = np.unique((grid @ [BINS, 1])[order], return_index=True)
    late = int((first >= 0.75 * len(order)).sum())
    return f"Of the {len(first)} cells of this plane that were visited, {late} were first reached in the last quarter."


def _scalar(history: History, scored: Scored) -> tuple[Figure, str]:
    if not scored.names or not len(scored):
        raise NothingToDraw("the score function returned no score")
    name = scored.names[0]
    values, made = scored.matrix(name)[:, 0], history.clock.progress(scored.moment)
    figure = style.sheet(2.8)
    left, right = figure.subplots(1, 2, sharey=True, width_ratios=(3, 1))
    shown = _some(np.arange(len(scored)), MOST_POINTS)
    left.scatter(made[shown], values[shown], s=4, color=style.BLUE, linewidths=0, alpha=0.5, rasterized=True)
    right.hist(values, bins=50, orientation="horizontal", color=style.BLUE)
    left.set(xlabel=history.clock.progress_scale.label, ylabel=name)
    right.set(xlabel="frames")
    return figure, f"{name} of {len(scored):,} frames, from {values.min():.4g} to {values.max():.4g}."


def _some(indices: np.ndarray, most: int) -> np.ndarray:
    """All of them, or `most` drawn at random, always the same."""
    if len(indices) <= most:
        return indices
    return np.asarray(np.random.default_rng(0).choice(indices, most, replace=False))


def _list(counts: Counter[str]) -> str:
    return ", ".join(f"{number:,} by {style.words(policy)}" for policy, number in counts.most_common()) or "none"
