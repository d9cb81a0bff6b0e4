"""A model -> its figure: implied time scales, and the free energy over the two slowest coordinates."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from steersman.analysis.markov import MarkovStateModel
from steersman.analysis.trajectories import Trajectories
from steersman.dashboard import free_energy, style

CAPTION = (
    "Left: implied time scales by lag with 95 % intervals; below the dotted line nothing can be seen; the upright line "
    "is the lag that was chosen. Right: free energy over the two slowest coordinates, frames weighted by the model."
)
BINS = 40
COLOURS = (style.BLUE, style.VERMILION, style.GREEN)


def draw(found: Trajectories, model: MarkovStateModel) -> Figure:
    figure = style.sheet(3.0)
    left, right = figure.subplots(1, 2)
    unit = "" if found.unit == "1" else f" / {found.unit}"
    _scales(left, found, model)
    left.set(xlabel=f"lag{unit}", ylabel=f"implied time scales{unit}", yscale="log")
    x = slowest(found, model)
    height, *edges = np.histogram2d(x[:, 0], x[:, 1], bins=BINS, weights=model.weights)
    energy = -np.log(np.where(height > 0, height, np.nan))
    across, up = ((each[1:] + each[:-1]) / 2 for each in edges)
    free_energy.surface(figure, right, across, up, energy - np.nanmin(energy))
    right.set(xlabel="slowest coordinate", ylabel="second slowest")
    return figure


def slowest(found: Trajectories, model: MarkovStateModel) -> np.ndarray:
    """(n, 2) float: the features themselves where there are two, else their two slowest combinations."""
    features = found.features
    if features.shape[1] == 1:
        return np.column_stack([features, np.zeros(len(features))])
    if features.shape[1] == 2:
        return features
    from deeptime.decomposition import TICA

    lag = model.lag.frames
    pieces = [features[piece] for piece in found.pieces if len(piece) > lag]
    projected = TICA(lagtime=lag, dim=2).fit_fetch(pieces).transform(features)
    return np.asarray(np.column_stack([projected, np.zeros((len(features), 2))])[:, :2])


def _scales(axes: Axes, found: Trajectories, model: MarkovStateModel) -> None:
    lag = np.array([each.frames for each in model.lags]) * found.step
    for k, colour in enumerate(COLOURS):
        value, low, high = np.array([each.scales[k] for each in model.lags]).T * found.step
        axes.plot(lag, value, color=colour, marker=".")
        axes.fill_between(lag, low, high, color=colour, alpha=0.2, linewidth=0)
    axes.plot(lag, lag, color=style.GREY, linestyle=":")  # what is over within a lag cannot be seen
    axes.axvline(model.lag.frames * found.step, color=style.INK, linewidth=0.8)
