"""What a committee finds of universes that no training saw, and which ones it asked for -> a figure for a report."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from steersman.apps.cosmology.judgement import errors_of_summary
from steersman.apps.cosmology.summaries import CROPS
from steersman.apps.cosmology.universe import MIDDLE, NAMES, WIDTH, physical, targets

SYMBOLS = (r"$\Omega_M$", r"$\sigma_8$", r"$n_s$")


def found(values: Mapping[str, np.ndarray], held_out: np.ndarray) -> tuple[Figure, str] | None:
    """Above, each parameter as it is and as it is found; below, where universes were drawn. None before there are any.

    Args:
        values: the scores found (n, 8, 3), summary (n, 8, d), point (n, 3) and spread (n,).
        held_out: (n,) bool.
    """
    if "found" not in values or not held_out.any() or held_out.all():
        return None
    figure = Figure((7.2, 5.0), layout="constrained")
    above, below = figure.subplots(2, len(NAMES))
    true = targets(values["point"][held_out])
    network = values["found"][held_out] - true[:, None]
    spectrum = errors_of_summary(values, held_out).reshape(network.shape)
    for number, axes in enumerate(above):
        _compare(axes, number, physical(true)[:, number], {"spectrum": spectrum, "network": network})
    above[0].set_ylabel("found")
    above[0].legend(loc="upper left", fontsize=7)
    parameters, spread = physical(targets(values["point"][~held_out])), values["spread"][~held_out]
    for axes, (x, y) in zip(below, ((0, 1), (0, 2), (1, 2)), strict=True):
        dots = axes.scatter(parameters[:, x], parameters[:, y], 12, spread, cmap="viridis_r")
        axes.set(xlabel=SYMBOLS[x], ylabel=SYMBOLS[y])
    figure.colorbar(dots, ax=below, label="spread of the members")
    caption = f"Above: {len(true)} universes that no training saw; bars are the scatter of their {CROPS} crops."
    beside = (
        "Numbers are mean errors of a crop: of the committee, of a regression on variance and power spectrum of all "
    )
    last = f"universes below, and of who always says the middle. Below: the {len(spread)} universes that were drawn."
    return figure, f"{caption} {beside}{last}"


def _compare(axes: Axes, number: int, true: np.ndarray, errors: Mapping[str, np.ndarray]) -> None:
    """Found against true of one parameter; errors are (n, 8, 3), in units of half a range."""
    middle, half = MIDDLE[number], WIDTH[number] / 2
    limits = (middle - 1.2 * half, middle + 1.2 * half)
    axes.plot(limits, limits, color="0.4", linewidth=0.8)
    for (name, error), colour in zip(errors.items(), ("0.65", "C0"), strict=True):
        off = half * error[:, :, number]
        axes.errorbar(true, true + off.mean(1), off.std(1), fmt="o", color=colour, ms=3, elinewidth=0.8, label=name)
    each = [f"{name} {half * np.abs(error[:, :, number]).mean():.3f}" for name, error in errors.items()]
    axes.set_title(f"{', '.join(each)}\nalways the middle {half / 2:.3f}", fontsize=7)
    axes.set(xlim=limits, ylim=limits, xlabel=f"{SYMBOLS[number]}, true")
