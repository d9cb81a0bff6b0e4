"""History -> figure: who chose the starts, and what came of it."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from steersman.dashboard import style
from steersman.dashboard.figure import figure
from steersman.data.errors import NothingToDraw
from steersman.data.facts import percent
from steersman.data.history import History

BINS = 30  # of time, in which the shares are counted
MOST_METRICS = 4


@figure("why", "Why: which policy chose the starts, and with what result", 20)
def draw(history: History) -> tuple[Figure, str]:
    """Share of each policy in the starts over time, and below it the metrics."""
    names = list(history.metrics)[:MOST_METRICS]
    figure = style.sheet(1.9 + 1.4 * len(names))
    top, *others = figure.subplots(1 + len(names), 1, sharex=True, squeeze=False)[:, 0]
    shares_of_policies(top, history)
    for axes, name in zip(others, names, strict=True):
        metric(axes, history, name)
    figure.axes[-1].set_xlabel(history.clock.progress_scale.label)
    return figure, " ".join([_caption_shares(history), *(_caption_metric(history, name) for name in names)])


def shares_of_policies(axes: Axes, history: History) -> None:
    """Stacked shares of the policies in the starts chosen in each bin of time."""
    chosen = history.chosen
    if not len(chosen):
        raise NothingToDraw("no start was chosen")
    moments, policies = history.clock.progress(chosen["moment"]), np.array(history.policies, object)[chosen["policy"]]
    edges = np.linspace(0, max(float(moments.max()), 1e-9), min(BINS, max(2, len(moments) // 12)) + 1)
    total = np.maximum(np.histogram(moments, edges)[0], 1)
    top = np.zeros(len(total))
    for policy in history.policies:
        below, top = top, top + 100 * np.histogram(moments[policies == policy], edges)[0] / total
        colour, label = style.policy_colour(policy, history.policies), style.words(policy)
        axes.stairs(top, edges, baseline=below, fill=True, color=colour, label=label)
    axes.set(ylabel="starts chosen by (%)", ylim=(0, 100), xlim=(0, history.clock.progress(history.state.now)))
    style.legend_above(axes)


def metric(axes: Axes, history: History, name: str) -> None:
    """One metric over time, with the moments at which a model came into use."""
    if name not in history.metrics:
        raise NothingToDraw(f"the run has no metric {name!r}")
    moments, values = history.metrics[name].T
    axes.step(history.clock.progress(moments), values, where="post", color=style.BLUE)
    axes.plot(history.clock.progress(moments[-1:]), values[-1:], "o", color=style.BLUE, markersize=4, clip_on=False)
    axes.set(ylabel=style.words(name), xlim=(0, history.clock.progress(history.state.now)))
    axes.margins(y=0.15)
    style.mark_models(axes, models_in_use(history))


def models_in_use(history: History) -> list[tuple[float, int]]:
    """When each accepted model was there, along the time axis, and its version."""
    return [
        (float(history.clock.progress(model.fit.t)), model.version)
        for model in history.state.models
        if model.accepted and model.fit
    ]


def _caption_shares(history: History) -> str:
    policies = history.chosen["policy"]
    times = np.bincount(policies, minlength=len(history.policies))
    shares = (
        f"{style.words(name)} {percent(n / len(policies))}" for name, n in zip(history.policies, times, strict=True)
    )
    return f"{len(policies):,} starts were chosen: {', '.join(shares)}."


def _caption_metric(history: History, name: str) -> str:
    values = history.metrics[name][:, 1]
    return f"The metric {style.words(name)} went from {values[0]:.4g} to {values[-1]:.4g}."
