"""A model -> its figure: implied time scales, and the free energy along a score or its two slowest combinations."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from steersman.analysis.markov import MarkovStateModel
from steersman.analysis.trajectories import Trajectories
from steersman.dashboard import free_energy, style

CAPTION = (
    "Left: implied time scales by lag with 95 % intervals; below the dotted line nothing can be seen; the upright line "
    "is the lag that was chosen. Right: free energy {}, frames weighted by the model."
)
BINS = 40
COLOURS = (style.BLUE, style.VERMILION, style.GREEN)


def caption(data: Trajectories) -> str:
    over = (f"along {data.score} with 95 % intervals", f"over the two numbers of {data.score}")
    dimensions = data.features.shape[1]
    return CAPTION.format(
        over[dimensions - 1] if dimensions < 3 else f"over the two slowest combinations in {data.score}"
    )


def draw(data: Trajectories, model: MarkovStateModel) -> Figure:
    figure = style.sheet(3.0)
    left, right = figure.subplots(1, 2)
    unit = "" if data.unit == "1" else f" / {data.unit}"
    _scales(left, data, model)
    left.set(xlabel=f"lag{unit}", ylabel=f"implied time scales{unit}", yscale="log")
    if data.features.shape[1] == 1:
        _profile(right, data, model)
    else:
        _map(figure, right, data, model)
    return figure


def _profile(axes: Axes, data: Trajectories, model: MarkovStateModel) -> None:
    x = data.features[:, 0]
    edges = np.histogram_bin_edges(x, BINS)
    own = np.digitize(x, edges[1:-1])
    share = np.array([model.average(own == i) for i in range(BINS)])
    with np.errstate(divide="ignore"):
        energy, high, low = -np.log(np.where(share > 0, share, [np.nan, 0.0, np.nan])).T
    zero = np.nanmin(energy)
    middle = (edges[1:] + edges[:-1]) / 2
    free_energy.curve(axes, middle, energy - zero, low - zero, high - zero, data.score)


def _map(figure: Figure, axes: Axes, data: Trajectories, model: MarkovStateModel) -> None:
    x = slowest(data, model)
    height, *edges = np.histogram2d(x[:, 0], x[:, 1], bins=BINS, weights=model.weights)
    energy = -np.log(np.where(height > 0, height, np.nan))
    across, up = ((each[1:] + each[:-1]) / 2 for each in edges)
    free_energy.surface(figure, axes, across, up, energy - np.nanmin(energy))
    if data.features.shape[1] == 2:
        axes.set(xlabel=f"{data.score}, first number", ylabel=f"{data.score}, second number")
    else:
        axes.set(xlabel="slowest coordinate", ylabel="second slowest")


def slowest(data: Trajectories, model: MarkovStateModel) -> np.ndarray:
    """(n, 2) float: the features themselves where there are two, else their two slowest combinations."""
    features = data.features
    if features.shape[1] == 2:
        return features
    from deeptime.decomposition import TICA

    lag = model.lag.frames
    pieces = [features[piece] for piece in data.pieces if len(piece) > lag]
    projected = TICA(lagtime=lag, dim=2).fit_fetch(pieces).transform(features)
    return np.asarray(np.column_stack([projected, np.zeros((len(features), 2))])[:, :2])


def _scales(axes: Axes, data: Trajectories, model: MarkovStateModel) -> None:
    lag = np.array([each.frames for each in model.lags]) * data.step
    for k, colour in enumerate(COLOURS):
        value, low, high = np.array([each.scales[k] for each in model.lags]).T * data.step
        axes.plot(lag, value, color=colour, marker=".")
        axes.fill_between(lag, low, high, color=colour, alpha=0.2, linewidth=0)
    axes.plot(lag, lag, color=style.GREY, linestyle=":")  # what is over within a lag cannot be seen
    axes.axvline(model.lag.frames * data.step, color=style.INK, linewidth=0.8)
