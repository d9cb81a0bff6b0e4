"""docs/figures/diffraction.png: a pattern of each of the 27 classes, by abTEM, counted at a dose of 10^5."""

from pathlib import Path

import numpy as np
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

from steersman.apps.diffraction.conditions import BINS, CRYSTALS, THICKNESS_A, TILT_MRAD, Conditions
from steersman.apps.diffraction.simulation import COLUMNS, ROWS, counts


def middle(limits: tuple[float, float], number: int) -> float:
    return limits[0] + (number + 0.5) * (limits[1] - limits[0]) / BINS


figure = Figure((9, 4.9), layout="constrained")
for row, crystal in enumerate(CRYSTALS):
    for column in range(BINS**2):
        thickness, tilt = middle(THICKNESS_A, column // BINS), middle(TILT_MRAD, column % BINS)
        axes = figure.add_subplot(len(CRYSTALS), BINS**2, row * BINS**2 + column + 1)
        pattern = counts(Conditions(crystal, thickness, tilt), seed=1)
        axes.imshow(np.maximum(pattern, 0.5), norm=LogNorm(0.5, 600), cmap="magma")
        axes.set(xticks=[], yticks=[])
        if row == 0:
            axes.set_title(f"{thickness:g} Å\n{tilt:g} mrad", fontsize=8)
        if column == 0:
            axes.set_ylabel(crystal)
figure.supxlabel(f"{ROWS} x {COLUMNS} pixels of 1 mrad; electrons, logarithmic", fontsize=8)
figure.savefig(Path(__file__).with_name("diffraction.png"), dpi=110)
