"""docs/figures/cosmology.png: the same fluctuations, at four times and in universes of other parameters, by JaxPM."""

from dataclasses import replace
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

from steersman.apps.cosmology import SCALE_FACTORS, VOXEL_MPC_H, Universe, density
from steersman.apps.cosmology.universe import MIDDLE, WIDTH

MESH, SLAB, SEED = 64, 6, 3
SYMBOLS = {"sigma_8": r"$\sigma_8$", "omega_m": r"$\Omega_M$", "n_s": r"$n_s$"}


def show(axes: Axes, cube: np.ndarray, title: str) -> object:
    axes.set(xticks=[], yticks=[])
    axes.set_title(title, fontsize=9)
    slab = cube[:, :, :SLAB].mean(2)
    return axes.imshow(np.maximum(slab.T, 0.01), norm=LogNorm(0.1, 10), cmap="inferno", interpolation="bilinear")


figure = Figure((9, 4.3), layout="constrained")
above, below = figure.subfigures(2, 1, height_ratios=(1.35, 1))
middle = density(Universe(), SEED, MESH)
for axes, a, cube in zip(above.subplots(1, len(SCALE_FACTORS)), SCALE_FACTORS, middle, strict=True):
    image = show(axes, cube, f"z = {1 / a - 1:.1f}" + (" (today)" if a == 1 else ""))
grid = iter(below.subplots(1, 6))
for name, symbol in SYMBOLS.items():
    number = list(vars(Universe())).index(name)
    for side in (-0.5, 0.5):
        value = float(MIDDLE[number] + side * WIDTH[number])
        today = density(replace(Universe(), **{name: value}), SEED, MESH)[-1]
        show(next(grid), today, f"{symbol} = {value:.2f}")
bar = figure.colorbar(image, ax=above.axes, shrink=0.8, aspect=16, pad=0.01)
bar.set_label("density / mean", fontsize=8)
bar.ax.tick_params(labelsize=8)
above.supylabel(f"{MESH * VOXEL_MPC_H:g} Mpc/h", fontsize=8)
below.supylabel("today", fontsize=8)
figure.savefig(Path(__file__).with_name("cosmology.png"), dpi=110)
