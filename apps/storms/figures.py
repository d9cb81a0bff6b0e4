"""What a committee makes of storms -> figures for a report."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from steersman.apps.shallow_water.solver import latitudes, longitudes
from steersman.apps.storms.flow import DAYS, SPEED
from steersman.apps.storms.learning import judged, pooled
from steersman.apps.storms.rule import CLASSES, CYCLONE, RIVER
from steersman.apps.storms.simulation import CHANNELS, seen

if TYPE_CHECKING:
    from steersman.models.networks.committee import Committee

SHOWN = 3  # flows
COLOURS = {CYCLONE: "#d55e00", RIVER: "#0072b2"}


def masks(model: Committee, frames: Mapping[str, np.ndarray], choice: str = "all") -> tuple[Figure, str]:
    """Flows that no training saw: what was observed, and what the rule and the committee mark in it.

    The flows are those with the most cyclones and rivers together, by the rarer of the two.

    Args:
        model: of channels as `choice` says, see `seen`.
        frames: as `run` gives them, (n, ...) each.
    """
    held = {name: frames[name] for name in ("observed", "mask", "ruled", "point")}
    both = np.stack([(held["mask"] == number).sum((1, 2)) for number in COLOURS], 1)
    first = np.argsort(-(both / np.maximum(both.mean(0), 1)).min(1), kind="stable")[:SHOWN]
    observed = held["observed"][first]
    shares = model.probabilities(seen(observed, choice)).mean(1)
    scores, everything = judged(model, held, choice), np.ones(len(both), bool)
    figure = Figure((7.2, 1.5 * len(first) + 0.6), layout="constrained")
    grid = figure.subplots(len(first), 3, sharex=True, sharey=True, squeeze=False)
    humidity = held["observed"][first, list(CHANNELS).index("humidity")]
    marked = held["mask"][first], shares.argmax(1), held["ruled"][first]
    for number, row in enumerate(grid):
        for axes, mask in zip(row, marked, strict=True):
            _map(axes, humidity[number], mask[number])
    words = []
    for axes, title, by in ((grid[0][1], "committee", "confusion"), (grid[0][2], "rule on what is seen", "rule")):
        values = pooled(scores, everything, by)
        axes.set_title(title, fontsize=9)
        words.append(f"{title} " + ", ".join(f"{name}s {values[name]:.2f}" for name in CLASSES[1:]))
    grid[0][0].set_title("rule on the flow: the truth", fontsize=9)
    lines = [Line2D([], [], color=colour, label=f"{CLASSES[number]}s") for number, colour in COLOURS.items()]
    figure.legend(handles=lines, loc="outside lower center", ncols=2, fontsize=8)
    caption = f"Grey: humidity as it is seen. Intersection over union on {len(both)} flows that no training saw"
    return figure, f"{caption}: {'; '.join(words)}."


def draws(values: Mapping[str, np.ndarray], held_out: np.ndarray) -> tuple[Figure, str] | None:
    """Where flows were drawn, and how much the committee disagrees about them; None before there are scores.

    Args:
        values: scores as `judged` gives them.
        held_out: (n,) bool.
    """
    if "point" not in values:
        return None
    point, doubt = values["point"], values["disagreement"]
    day = DAYS[0] + point[:, 5] * (DAYS[1] - DAYS[0])
    faster = SPEED[0] + np.maximum(point[:, 0], point[:, 2]) * (SPEED[1] - SPEED[0])
    figure = Figure((7.2, 2.9), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(1.25, 1))
    most = float(np.quantile(doubt, 0.98)) or 1e-6
    dots = left.scatter(day[~held_out], faster[~held_out], 9, doubt[~held_out], vmin=0, vmax=most, cmap="viridis_r")
    left.set(xlabel="day on which it is looked at", ylabel="speed of the faster jet (m/s)", xlim=DAYS)
    figure.colorbar(dots, ax=left, label="disagreement (nats)")
    bins = np.linspace(*SPEED, 8)
    for which, colour, label in ((held_out, "0.6", "held out: evenly"), (~held_out, "C0", "drawn")):
        right.hist(faster[which], bins, weights=np.full(which.sum(), 1 / max(which.sum(), 1)), histtype="step",
                   color=colour, label=label)  # fmt: skip
    right.set(xlabel="speed of the faster jet (m/s)", ylabel="share of flows", xlim=SPEED)
    right.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=2, fontsize=8)
    words = f"mean disagreement {doubt[held_out].mean():.3g} where held out, {doubt[~held_out].mean():.3g} where drawn"
    return figure, f"{int((~held_out).sum())} flows were drawn and {int(held_out.sum())} held out; {words} (nats)."


def _map(axes: Axes, humidity_HW: np.ndarray, mask_HW: np.ndarray) -> None:
    """Humidity in grey, and the outlines of both classes."""
    where = longitudes(humidity_HW.shape[1]), latitudes(humidity_HW.shape[0])
    axes.pcolormesh(*where, humidity_HW, cmap="Greys", vmin=0, vmax=24, rasterized=True)
    for number, colour in COLOURS.items():
        if (mask_HW == number).any():
            axes.contour(*where, mask_HW == number, [0.5], colors=colour, linewidths=1.0)
    axes.set(ylim=(-80, 80), xticks=[0, 90, 180, 270], yticks=[-60, -30, 0, 30, 60])
    axes.xaxis.set_major_formatter("{x:.0f}°")
    axes.yaxis.set_major_formatter("{x:.0f}°")
    axes.tick_params(labelsize=7)
