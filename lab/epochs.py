"""Records of `fit` -> figure: where the time of each epoch of training went, under DeepEx's labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from steersman.dashboard import style
from steersman.data.errors import NothingToDraw

STACKED = {
    "IpUpdateTime": style.SKY, "FwdTime": style.BLUE, "BwdTime": style.GREEN, "WtUpdateTime": style.ORANGE,
    "SyncTime": style.VERMILION,
}  # fmt: skip


def drawn(epochs: Sequence[dict[str, Any]]) -> tuple[Figure, str]:
    """Stack the seconds of each epoch; TotalCompTime is the line above the first four labels.

    Args:
        epochs: records of `fit`; one without a profile is passed over.
    Raises: NothingToDraw: none has a profile.
    """
    profiled = [epoch for epoch in epochs if "TotalCompTime" in epoch]
    if not profiled:
        raise NothingToDraw("no epoch of training has a profile")
    figure = style.sheet(2.9)
    axes = figure.subplots()
    _stack(axes, profiled)
    style.legend_above(axes)
    return figure, caption(profiled)


def caption(epochs: Sequence[dict[str, Any]]) -> str:
    """A sentence: how long, and the share of each label."""
    seconds = sum(epoch["seconds"] for epoch in epochs)
    shares = ", ".join(f"{label} {sum(epoch[label] for epoch in epochs) / seconds:.1%}" for label in STACKED)
    return f"{len(epochs)} epochs in {seconds:.3g} s: {shares}."


def _stack(axes: Axes, epochs: Sequence[dict[str, Any]]) -> None:
    edges, top = 0.5 + np.arange(len(epochs) + 1), np.zeros(len(epochs))
    for label, colour in STACKED.items():
        below, top = top, top + [epoch[label] for epoch in epochs]
        axes.stairs(top, edges, baseline=below, fill=True, color=colour, label=label)
    computing = [epoch["TotalCompTime"] for epoch in epochs]
    axes.hlines(computing, edges[:-1], edges[1:], color=style.INK, linewidth=1.2, label="TotalCompTime")
    axes.set(xlabel="epoch", ylabel="time of an epoch (s)", xlim=(edges[0], edges[-1]), ylim=(0, None))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
