"""Day 6 of the perturbed jet of Galewsky et al. (2004), as its authors draw it: vorticity, northern hemisphere.

python docs/figures/shallow_water.py
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from steersman.apps.shallow_water import run
from steersman.dashboard import style
from steersman.models.sphere.harmonics import SphericalHarmonics
from steersman.stages.start import Start

TRUNCATION = 85


def main() -> None:
    *_, last = run(Start(), seed=0, case="galewsky", truncation=TRUNCATION, days=6, diffusion_hours=6)
    sphere = SphericalHarmonics(TRUNCATION)
    north = sphere.latitudes > np.radians(10)
    with style.applied():
        figure = style.sheet(2.6)
        axes = figure.subplots()
        levels = np.arange(-11, 17, 2)
        shown = axes.contourf(
            np.degrees(sphere.longitudes),
            np.degrees(sphere.latitudes[north]),
            1e5 * np.roll(last.vorticity, sphere.columns // 4, axis=1)[north],
            levels=levels,
            cmap="RdBu_r",
            vmin=-15,
            vmax=15,
            extend="both",
        )
        figure.colorbar(shown, label="vorticity (10⁻⁵ s⁻¹)")
        axes.set_xlabel("longitude (degrees, the bump at 90)")
        axes.set_ylabel("latitude (degrees)")
        axes.set_xticks(range(0, 361, 60))
        figure.savefig(Path(__file__).with_suffix(".png"), dpi=170)


if __name__ == "__main__":
    main()
