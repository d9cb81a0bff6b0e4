"""What a committee makes of diffraction patterns -> figures for a report."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

from steersman.apps.diffraction.conditions import BINS, CLASSES, CRYSTALS, THICKNESS_A, TILT_MRAD

RIGHT, WRONG = "C2", "C3"


def classes(patterns: np.ndarray, labels: np.ndarray, probabilities: np.ndarray) -> tuple[Figure, str]:
    """A pattern of each class, and whether the committee names it.

    Args:
        patterns: (n, 120, 85) electrons that were counted.
        labels: (n,) their classes.
        probabilities: (n, members, classes) of a committee.
    """
    figure = Figure((7.2, 4.6), layout="constrained")
    grid = figure.subplots(len(CRYSTALS), BINS**2, squeeze=False)
    share = probabilities.mean(1)
    right = share.argmax(1) == labels
    for label, axes in enumerate(grid.flat):
        axes.set(xticks=[], yticks=[])
        if label < BINS**2:
            axes.set_title(
                f"{_range(THICKNESS_A, label // BINS)} Å\n{_range(TILT_MRAD, label % BINS)} mrad", fontsize=6
            )
        if label % BINS**2 == 0:
            axes.set_ylabel(CRYSTALS[label // BINS**2])
        found = np.flatnonzero(labels == label)
        if not len(found):
            axes.imshow(np.full(patterns.shape[1:], np.nan))
            axes.set_frame_on(False)
            continue
        first = found[0]
        # A pixel without electrons is black, not empty.
        axes.imshow(np.maximum(patterns[first], 0.5), norm=LogNorm(0.5, patterns[first].max() + 1), cmap="magma")
        axes.set_xlabel(f"{100 * share[first, label]:.0f} %", color=RIGHT if right[first] else WRONG, fontsize=7)
    told = f"{(~right).sum()} of {len(labels)} patterns that no training saw are named wrongly."
    which = "The first of each class; below it what the committee gives to its true class, red where another gets more."
    return figure, f"{which} {told}"


def draws(points: np.ndarray, doubt: np.ndarray, held_out: np.ndarray, wrong: np.ndarray) -> tuple[Figure, str]:
    """Where patterns were drawn, how much the committee disagrees there, and where it is wrong.

    Args:
        points: (n, 6) from 0 to 1.
        doubt: (n,) disagreement, nats.
        held_out, wrong: (n,) bool.
    """
    figure = Figure((7.2, 2.9), layout="constrained")
    grid = figure.subplots(1, len(CRYSTALS), sharey=True)
    crystal = np.minimum((points[:, 0] * len(CRYSTALS)).astype(int), len(CRYSTALS) - 1)
    thickness, tilt = (low + points[:, i] * (high - low) for i, (low, high) in ((1, THICKNESS_A), (2, TILT_MRAD)))
    most = max(float(np.quantile(doubt, 0.99)), 1e-6)
    dots = []
    for number, axes in enumerate(grid):
        mine = (crystal == number) & ~held_out
        _borders(axes)
        dots.append(axes.scatter(thickness[mine], tilt[mine], 6, doubt[mine], vmin=0, vmax=most, cmap="viridis_r"))
        missed = (crystal == number) & held_out & wrong
        axes.plot(thickness[missed], tilt[missed], "x", color=WRONG, markersize=5)
        axes.set(
            title=f"{CRYSTALS[number]}: {mine.sum()} drawn", xlabel="thickness (Å)", xlim=THICKNESS_A, ylim=TILT_MRAD
        )
    grid[0].set_ylabel("tilt (mrad)")
    figure.colorbar(dots[0], ax=grid, label="disagreement (nats)")
    told = f"Red crosses: the {int((held_out & wrong).sum())} of {int(held_out.sum())} held-out patterns named wrongly."
    return figure, f"Grey lines: borders between classes, of which there are {CLASSES}. {told}"


def of_scores(values: Mapping[str, np.ndarray], held_out: np.ndarray) -> tuple[Figure, str] | None:
    """The same of the scores point, disagreement and wrong; None before there are any."""
    if "point" not in values:
        return None
    return draws(values["point"], values["disagreement"], held_out, np.asarray(values["wrong"], bool))


def _borders(axes: Axes) -> None:
    for number in range(1, BINS):
        for line, (low, high) in ((axes.axvline, THICKNESS_A), (axes.axhline, TILT_MRAD)):
            line(low + number * (high - low) / BINS, color="0.7", linewidth=0.8)


def _range(limits: tuple[float, float], number: int) -> str:
    step = (limits[1] - limits[0]) / BINS
    return f"{limits[0] + number * step:g}-{limits[0] + (number + 1) * step:g}"
