"""A biased run -> figure: where its walkers and controls went, and the free energy, by weights and as it converged."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from steersman.dashboard import style
from steersman.dashboard.figure import figure
from steersman.data import reweighing
from steersman.data.errors import NothingToDraw
from steersman.data.facts import count
from steersman.data.history import History
from steersman.data.reweighing import lineages, reweighted
from steersman.journal.modes.biases import Biases, read
from steersman.journal.records import Biased
from steersman.journal.segments import FAILED, HOW
from steersman.steering import Bias
from steersman.steering.errors import BadScores
from steersman.steering.opes import ENERGY, HOT, counted
from steersman.steering.reweighting import Reweighted
from steersman.steering.weighted_ensemble import FEWEST, Mean

SHOWN, NODES, BINS = 4, 300, 60


@figure("bias", "The free energy along the biased score", 60, reweighing.applies, unasked=True)
def draw(history: History) -> tuple[Figure, str]:
    """A score along simulated time, of controls and of pushed walkers; its free energy in kT; that along the bias."""
    of = history.state.mode(Biases)
    versions = of.sound
    if not versions:
        raise NothingToDraw("no bias was made")
    of_last = [version for version in versions if version.model == versions[-1].model]
    biases = {round(i): of_last[round(i)] for i in np.linspace(0, len(of_last) - 1, SHOWN)}
    loaded = [read(history.directory, each.bias, each.sha256) for each in biases.values()]
    tracks = _Tracks.of(history)
    if tracks is None:
        figure = style.sheet(2.7)
        _surfaces(figure.subplots(), list(biases.values()), loaded)
        return figure, _caption(versions, of_last, loaded[-1])
    figure = style.sheet(4.6)
    grid = figure.add_gridspec(2, 1, height_ratios=(6, 5))
    sides = grid[0].subgridspec(1, 1 + bool(tracks.control.any())).subplots(sharey=True, squeeze=False)[0]
    for axes, control in zip(sides, (True, False) if len(sides) > 1 else (False,), strict=True):
        tracks.draw(axes, control=control)
    sides[-1].set(ylabel="" if len(sides) > 1 else tracks.label)
    left, right = grid[1].subgridspec(1, 2).subplots(squeeze=False)[0]
    tracks.profile(left)
    _surfaces(right, list(biases.values()), loaded)
    return figure, _caption(versions, of_last, loaded[-1]) + tracks.said()


@dataclass(frozen=True)
class _Tracks:
    """One score of every frame, (n,), with the lineage of each (-1: its segment failed), the simulated time in it,
    whether it is a control or hot, the model along whose coordinate it was pushed (0: by none), states and weights."""

    label: str
    unit: str
    value: np.ndarray
    lineage: np.ndarray
    time: np.ndarray
    control: np.ndarray
    hot: np.ndarray
    pushed_by: np.ndarray
    states: dict[str, np.ndarray]
    weights: Reweighted

    @classmethod
    def of(cls, history: History) -> _Tracks | None:
        """None: there are no scores, or too few frames count."""
        state, segments = history.state, history.segments
        scores = history.scores
        try:
            weights = reweighted(history, scores)
        except BadScores:  # `analyse` says so
            return None
        if len(weights) < FEWEST:
            return None
        segment = segments.of_frames(scores.walker, scores.row)
        failed = segments.how[segment] == HOW[FAILED]  # each would be a lineage of its own
        lineage = np.where(failed, -1, lineages(segments)[segment])
        order = np.lexsort((scores.row, segment, lineage))
        first = np.searchsorted(lineage[order], lineage[order])
        time = np.empty(len(segment))
        time[order] = (np.arange(len(segment)) - first + 1) * state.simulated / max(state.frames, 1)
        time[failed] = np.nan
        flags = {name: value for name, value in scores.values.items() if value.dtype == bool and value.ndim == 1}
        states = {name: value for name, value in flags.items() if name != HOT}
        own = [name for name, value in scores.values.items() if value.ndim == 1 and name not in (ENERGY, HOT, *states)]
        name = next(iter(own), next(iter(scores.values)))
        several = scores.values[name].ndim > 1
        return cls(
            f"{name}, first dimension" if several else name, state.time_unit, scores.matrix(name)[:, 0], lineage, time,
            np.isin(segments.start[segment], list(state.mode(Biases).controls)), ~counted(scores), scores.biased_by,
            states, weights,
        )  # fmt: skip

    def draw(self, axes: Axes, *, control: bool) -> None:
        mine = (self.control == control) & np.isfinite(self.time)
        colour = style.GREY if control else style.BLUE
        for which, shade in ((~self.hot, colour), (self.hot, style.ORANGE)):
            some = mine & which
            axes.plot(self.time[some], self.value[some], ".", color=shade, markersize=1.2, rasterized=True)
        unit = f" ({self.unit})" if self.unit != "1" else ""
        of = "each walker" if not control else "each control"
        learned = "what a model learned meanwhile" if self.pushed_by.any() else "a known coordinate"
        title = "plain dynamics: never pushed" if control else f"pushed along {learned}"
        title += "; orange: hot, counts in no average" if (mine & self.hot).any() else ""
        axes.set(xlabel=f"simulated time of {of}{unit}", ylabel=self.label, xlim=(0, np.nanmax(self.time)))
        axes.set_title(title, fontsize=8, loc="left")
        if not control:
            moments = [
                (float(self.time[mine & (self.pushed_by == model)].min()), int(model))
                for model in np.unique(self.pushed_by[mine]) if model
            ]  # fmt: skip
            style.mark_models(axes, moments)

    def profile(self, axes: Axes) -> None:
        """The free energy by the weights of the frames, with its interval."""
        counted = self.value[self.weights.order]
        edges = np.linspace(counted.min(), counted.max(), BINS + 1)
        energy, low, high = self.weights.free_energy(self.value[:, None], [edges]).T
        at = (edges[1:] + edges[:-1]) / 2
        curve(axes, at, energy, low, high, self.label)

    def said(self) -> str:
        """What the frames are worth, and of each state how much it weighs and who came there."""
        weights = self.weights
        worth = f"By their weights {len(weights):,} frames are worth {weights.effective:,.0f} unbiased ones."
        text = f" Dashed: another model. {worth}" if self.pushed_by.any() else f" {worth}"
        if weights.collapsed:
            text += (
                " The weights have collapsed: the walkers are where the unbiased system hardly ever is. Take fewer "
                "dimensions or another barrier."
            )
        for name, state in self.states.items():
            difference = weights.difference(state, ~state)
            entered, _ = weights.passages(~state, state)
            plain = f", controls {count(self._controls(state), 'time')}" if self.control.any() else ""
            pushed = f"in these frames pushed walkers entered it {count(entered, 'time')}"
            text += f" {name}: {_interval(difference)} above all else; {pushed}{plain}."
            if min(weights.passages_apart(~state, state)) < weights.enough_passages:
                text += " Few passages: the interval may be too narrow."
        return text

    def _controls(self, state: np.ndarray) -> int:
        """How often they entered a state; of pushed walkers the weights know it, for those frames that count."""
        order = np.lexsort((self.time, self.lineage))
        order = order[self.control[order] & (self.lineage[order] >= 0)]
        inside, lineage = state[order], self.lineage[order]
        return int((inside[1:] & ~inside[:-1] & (lineage[1:] == lineage[:-1])).sum())


def curve(axes: Axes, at: np.ndarray, energy: np.ndarray, low: np.ndarray, high: np.ndarray, label: str) -> None:
    """Free energy in kT along a quantity, with its interval: all (n,) float; NaN where there are no frames, as between
    the values of a whole number."""
    top = 1.3 * np.nanmax(energy) + 1  # also where all bins are alike
    axes.plot(at, energy, color=style.BLUE)
    axes.fill_between(at, low, high, color=style.BLUE, alpha=0.2, linewidth=0)
    beside = np.pad(np.isfinite(energy), 1)
    alone = np.isfinite(energy) & ~beside[:-2] & ~beside[2:]  # a line or a band shows none of these
    axes.plot(at[alone], energy[alone], "o", color=style.BLUE, markersize=3)
    axes.vlines(at[alone], low[alone], np.minimum(high[alone], 2 * top), color=style.BLUE, alpha=0.4)
    axes.set(xlabel=label, ylabel="free energy / kT", ylim=(min(0.0, np.nanmin(low)), top))


def surface(figure: Figure, axes: Axes, x: np.ndarray, y: np.ndarray, energy: np.ndarray) -> None:
    """Free energy (n, m) in kT over two quantities, by the middles of their bins (n,) and (m,)."""
    shown = axes.pcolormesh(x, y, energy.T, cmap="viridis", shading="nearest", rasterized=True)
    figure.colorbar(shown, ax=axes, label="free energy / kT")


def _interval(mean: Mean) -> str:
    if not np.isfinite(mean.value):
        return "its free energy is not known"
    return f"{mean.value:.1f} kT ({mean.low:.1f} to {mean.high:.1f})"


def _surfaces(axes: Axes, records: list[Biased], biases: list[Bias]) -> None:
    at, barrier = biases[-1].axes[0], biases[-1].barrier_kT
    at = np.linspace(at[0], at[-1], NODES)
    for number, (record, bias) in enumerate(zip(records, biases, strict=True)):
        energy = -np.log(np.maximum(bias.density(at), np.finfo(float).tiny))
        energy = np.where(energy - energy.min() < 1.5 * barrier, energy - energy.min(), np.nan)
        newest = number == len(biases) - 1
        shade = 0.25 + 0.5 * number / max(1, len(biases) - 1)
        look: dict[str, Any] = (
            {"color": style.BLUE, "linewidth": 2} if newest else {"color": style.GREY, "alpha": shade}
        )
        axes.plot(at, energy, label=f"{record.frames:,} frames", **look)
    axes.set(xlabel="first dimension of the biased score", ylabel="free energy / kT", ylim=(0, None))
    style.legend_above(axes, ncols=2)


def _caption(versions: list[Biased], of_last: list[Biased], newest: Bias) -> str:
    last = versions[-1]
    changes = sum(after.model != before.model for before, after in pairwise(versions))
    along = (
        f", along the score of model {last.model}, which has had {len(of_last)} versions; "
        f"{count(changes, 'change')} of the model before"
    )
    return (
        f"Version {last.bias} of the bias, of {last.frames:,} frames{along if last.model else ''}. The barrier is "
        f"{newest.barrier_kT:g} kT."
    )
