"""What a committee makes of diffraction patterns -> figures for a report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.image import AxesImage

from steersman.apps.diffraction import potential, zone_axes
from steersman.apps.diffraction.conditions import BINS, CLASSES, CRYSTALS, THICKNESS_A, TILT_MRAD, bin_of
from steersman.apps.diffraction.crystals import ZONES
from steersman.apps.diffraction.simulation import COLUMNS, PIXEL_MRAD, ROWS, seen

if TYPE_CHECKING:
    from steersman.models import Committee

RIGHT, WRONG = "C2", "C3"


def classes(committee: Committee, frames: Mapping[str, np.ndarray]) -> tuple[Figure, str]:
    """A pattern of each class, and whether the committee names it.

    Args:
        frames: `pattern` (n, 120, 85), electrons that were counted, and `label` (n,), their classes.
    """
    patterns, labels = frames["pattern"], frames["label"]
    figure = Figure((7.2, 4.6), layout="constrained")
    grid = figure.subplots(len(CRYSTALS), BINS**2, squeeze=False)
    share = committee.probabilities(seen(patterns)).mean(1)
    right = share.argmax(1) == labels
    for label, axes in enumerate(grid.flat):
        axes.set(xticks=[], yticks=[])
        if label < BINS**2:
            axes.set_title(
                f"{_range(THICKNESS_A, label // BINS)} Å\n{_range(TILT_MRAD, label % BINS)} mrad", fontsize=6
            )
        if label % BINS**2 == 0:
            axes.set_ylabel(CRYSTALS[label // BINS**2])
        rows = np.flatnonzero(labels == label)
        if not len(rows):
            axes.imshow(np.full(patterns.shape[1:], np.nan))
            axes.set_frame_on(False)
            continue
        first = rows[0]
        _pattern(axes, patterns[first])
        axes.set_xlabel(f"{100 * share[first, label]:.0f} %", color=RIGHT if right[first] else WRONG, fontsize=7)
    caption = f"{(~right).sum()} of {len(labels)} patterns that no training saw are named wrongly."
    which = "The first of each class; below it what the committee gives to its true class, red where another gets more."
    return figure, f"{which} {caption}"


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
    missed, judged = int((held_out & wrong).sum()), int(held_out.sum())
    caption = f"Red crosses: the {missed} of {judged} held-out patterns named wrongly."
    return figure, f"Grey lines: borders between classes, of which there are {CLASSES}. {caption}"


def of_scores(values: Mapping[str, np.ndarray], held_out: np.ndarray) -> tuple[Figure, str] | None:
    """The same of the scores point, disagreement and wrong; None before there are any."""
    if "point" not in values:
        return None
    return draws(values["point"], values["disagreement"], held_out, np.asarray(values["wrong"], bool))


def potentials(frames: Mapping[str, np.ndarray], said: np.ndarray, beside: float) -> tuple[Figure, str]:
    """A pattern of each crystal, the true potential, what the committee finds, and what it errs.

    Args:
        frames: `pattern` (n, 120, 85), `potential` (n, 32, 32) and `point` (n, 8).
        said: (n, members, 32, 32) of these by a committee, V angstrom.
        beside: mean error of who knows the crystal only, V angstrom.
    """
    true, predicted = frames["potential"], said.mean(1)
    errors = np.abs(predicted - true).mean((1, 2))
    kinds = np.array([bin_of(share, len(potential.CRYSTALS)) for share in frames["point"][:, 0]])
    shown = [_median(errors, kinds == kind) for kind in np.unique(kinds)]
    figure = Figure((7.2, 1.6 * len(shown) + 0.3), layout="constrained")
    grid = figure.subplots(len(shown), 4, squeeze=False)
    for (pattern, left, middle, right), first in zip(grid, shown, strict=True):
        _pattern(pattern, frames["pattern"][first])
        pattern.set(ylabel=potential.CRYSTALS[kinds[first]], ylim=pattern.get_xlim()[::-1])
        most = float(true[first].max())
        _window(left, true[first], vmin=0, vmax=most)
        pixels = _window(middle, predicted[first], vmin=0, vmax=most)
        off = _window(right, predicted[first] - true[first], vmin=-most / 2, vmax=most / 2, cmap="RdBu_r")
        for axes, image in ((middle, pixels), (right, off)):
            figure.colorbar(image, ax=axes, fraction=0.046, pad=0.04).ax.tick_params(labelsize=6)
        right.set_ylabel(f"mean error {errors[first]:.0f}", fontsize=7)
    titles = "pattern", "true potential (V Å)", "found (V Å)", "found - true (V Å)"
    for axes, title in zip(grid[0], titles, strict=True):
        axes.set_title(title, fontsize=8)
    for axes, unit in zip(grid[-1], ("mrad", "Å", "Å", "Å"), strict=True):
        axes.set_xlabel(unit, fontsize=7)
    for axes in grid.flat:
        axes.tick_params(labelsize=6)
    caption = f"Mean error on {len(true)} patterns that no training saw: {errors.mean():.1f} V Å"
    null = f"who knows the crystal and says its mean potential errs by {beside:.1f} V Å"
    return figure, f"{caption}; {null}. Of each crystal the pattern of the median error; the probe stands at 0."


def mixed_up(committee: Committee, frames: Mapping[str, np.ndarray]) -> tuple[Figure, str]:
    """Patterns of each crystal along its zone axes, and which the committee takes for which.

    Args:
        frames: `pattern` (n, projections, 120, 85), electrons that were counted, and `label` (n,), the crystals,
            numbers in `zone_axes.CRYSTALS`.
    """
    patterns, labels = frames["pattern"], frames["label"]
    crystals, named = zone_axes.CRYSTALS, committee.probabilities(seen(patterns)).mean(1).argmax(1)
    shown, zones = [int(np.argmax(labels == label)) for label in np.unique(labels)], list(ZONES)[: patterns.shape[1]]
    figure = Figure((7.2, 4.6 + 0.9 * len(zones)), layout="constrained")
    rows = figure.add_gridspec(2, 1, height_ratios=(0.9 * len(zones) + 0.3, 4.3))
    above, below = (figure.add_subfigure(rows[number]) for number in (0, 1))
    grid = above.subplots(len(zones), len(shown), squeeze=False)
    for column, first in zip(grid.T, shown, strict=True):
        column[0].set_title(crystals[labels[first]], fontsize=8)
        for axes, pattern in zip(column, patterns[first], strict=True):
            _pattern(axes, pattern)
            axes.set(xticks=[], yticks=[])
    for axes, zone in zip(grid[:, 0], zones, strict=True):
        axes.set_ylabel(f"[{zone}]", fontsize=8)
    _confusion(below.subplots(), labels, named, crystals)
    wrong = int((named != labels).sum())
    caption = f"Above, the first of each crystal; below, {len(labels)} crystals that no training saw, of which {wrong}"
    along = ", ".join(f"[{zone}]" for zone in zones)
    return figure, f"{caption} are named wrongly (red, off the diagonal). The committee sees {along}."


def _confusion(axes: Axes, labels: np.ndarray, named: np.ndarray, names: Sequence[str]) -> None:
    """Count what is named how; red is what is wrong, four times as strong as what is right."""
    counts = np.zeros((len(names), len(names)), int)
    np.add.at(counts, (labels, named), 1)
    shade = np.where(np.eye(len(names)), counts, -4 * counts) / counts.max()
    axes.imshow(shade, cmap="RdBu", vmin=-1, vmax=1)
    for (row, column), count in np.ndenumerate(counts):
        if count:
            colour = "white" if abs(shade[row, column]) > 0.6 else "black"
            axes.text(column, row, str(count), color=colour, ha="center", va="center", fontsize=8)
    axes.set_xticks(range(len(names)), names, fontsize=7)
    axes.set_yticks(range(len(names)), names, fontsize=7)
    axes.set(xlabel="named by the committee", ylabel="true crystal")


def _pattern(axes: Axes, pattern: np.ndarray) -> None:
    """Show electrons logarithmically; a pixel without any is black, not empty."""
    across, down = COLUMNS * PIXEL_MRAD / 2, ROWS * PIXEL_MRAD / 2
    norm = LogNorm(0.5, pattern.max() + 1)
    axes.imshow(np.maximum(pattern, 0.5), norm=norm, cmap="magma", extent=(-across, across, down, -down))


def _window(axes: Axes, values: np.ndarray, **colours: Any) -> AxesImage:
    half = potential.SIZE * potential.PIXEL_A / 2
    axes.plot(0, 0, "+", color="red", markersize=5)
    return axes.imshow(values, extent=(-half, half, half, -half), **colours)


def _median(errors: np.ndarray, among: np.ndarray) -> int:
    """The one of these whose error is the median."""
    numbers = np.flatnonzero(among)
    return int(numbers[np.argsort(errors[numbers])[len(numbers) // 2]])


def _borders(axes: Axes) -> None:
    for number in range(1, BINS):
        for line, (low, high) in ((axes.axvline, THICKNESS_A), (axes.axhline, TILT_MRAD)):
            line(low + number * (high - low) / BINS, color="0.7", linewidth=0.8)


def _range(limits: tuple[float, float], number: int) -> str:
    step = (limits[1] - limits[0]) / BINS
    return f"{limits[0] + number * step:g}-{limits[0] + (number + 1) * step:g}"
