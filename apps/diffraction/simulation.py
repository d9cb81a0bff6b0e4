"""Conditions -> convergent-beam electron diffraction pattern: multislice by abTEM, then electrons that are counted.

A pattern has 120 x 85 pixels of 1 mrad, the direct beam in the middle: as many as in AtomAI's of DeepEx. The crystal is
still (no phonons).
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from steersman.apps.diffraction.conditions import Conditions
from steersman.apps.diffraction.crystals import cell
from steersman.store import Variable
from steersman.system.errors import BadValue

ENERGY_EV, SLICE_A = 200e3, 2.0
ROWS, COLUMNS, PIXEL_MRAD = 120, 85, 1.0
ACROSS_A, SAMPLING_A = 19.0, 0.1264  # at least so far, at most so coarse: 66 mrad or more after anti-aliasing
TWELFTHS = 12  # grid points of a cell are a multiple: an atom of any zone lies on one; abTEM smears those between two
MOST_A = 1000.0  # a thicker crystal takes minutes

VARIABLES = {
    "pattern": Variable(("angle_x", "angle_y"), "electron", "electrons in a pixel of 1 mrad"),
    "label": Variable((), "1", "crystal x thickness x tilt"),
    "point": Variable(("parameter",), "1", "crystal, thickness, tilt, defocus, astigmatism, dose, from 0 to 1"),
}


def intensity(conditions: Conditions) -> np.ndarray:
    """Simulate the pattern of infinitely many electrons.

    Returns: (120, 85) float32, the share of the electrons in each pixel; their sum is below 1 by what lies outside.
    Raises: BadValue: a crystal or zone that is not known, or a crystal thinner than 0 or thicker than 1000 angstrom.
    """
    return _on_pixels(*exit_intensity(conditions))


def counts(conditions: Conditions, seed: int) -> np.ndarray:
    """The same as counted: (120, 85) uint32 electrons, which arrive independently of each other (Poisson).

    Raises: BadValue: see `intensity`; or fewer than 0 electrons, or more than 10^9.
    """
    if not 0 <= conditions.dose <= 1e9:
        raise BadValue("dose", conditions.dose, "give 0 to 10^9 electrons")
    return np.random.default_rng((seed, 1)).poisson(conditions.dose * intensity(conditions)).astype(np.uint32)


def seen(patterns: np.ndarray) -> np.ndarray:
    """What a network takes of counted patterns: near 0 to 1, whatever the dose.

    Args:
        patterns: (n, 120, 85), or several of each crystal (n, channels, 120, 85).
    Returns: (n, channels, 120, 85) float32.
    """
    stacks = patterns.reshape(len(patterns), -1, ROWS, COLUMNS)
    total = np.maximum(stacks.sum((2, 3), keepdims=True, dtype=np.float64), 1.0)
    return np.asarray(np.log1p(stacks / total * (0.1 * ROWS * COLUMNS)) / math.log(100.0), np.float32)


def exit_intensity(conditions: Conditions) -> tuple[np.ndarray, tuple[float, float]]:
    """The same on the grid of the simulation, up to the angle of anti-aliasing.

    Returns: (rows, columns) float, the direct beam at [rows // 2, columns // 2]; and mrad of a pixel along both.
    """
    thickness = conditions.thickness_A
    if not 0 <= thickness <= MOST_A:
        raise BadValue("thickness_A", thickness, f"give 0 to {MOST_A:g}")
    abtem, unit = _abtem(), unit_potential(conditions)
    edges, points, height = unit.extent, unit.gpts, sum(unit.slice_thickness)
    across = [math.ceil(ACROSS_A / edge) for edge in edges]
    probe = abtem.Probe(
        energy=ENERGY_EV, semiangle_cutoff=conditions.semiangle_mrad, tilt=(conditions.tilt_mrad, 0.0),
        extent=[edge * n for edge, n in zip(edges, across, strict=True)],
        gpts=[number * n for number, n in zip(points, across, strict=True)],
        defocus=conditions.defocus_A, astigmatism=conditions.astigmatism_A,
    )  # fmt: skip
    cells, where = round(thickness / height), abtem.CustomScan([conditions.position_A])
    whole = abtem.CrystalPotential(unit, (*across, cells)) if cells else None
    wave = probe.build(where, lazy=False) if whole is None else probe.multislice(whole, scan=where, lazy=False)
    pattern = wave.diffraction_patterns(max_angle="cutoff", parity="odd")
    return np.asarray(pattern.array)[0], tuple(pattern.angular_sampling)


def unit_potential(conditions: Conditions) -> Any:
    """Give abTEM's potential of one cell, slice by slice, which all thicknesses repeat; see `crystals.cell`."""
    atoms = cell(conditions.crystal, conditions.zone, conditions.strain)
    *edges, height = atoms.cell.lengths()
    points = [TWELFTHS * math.ceil(edge / (TWELFTHS * SAMPLING_A)) for edge in edges]
    thin = height / math.ceil(height / SLICE_A)
    return _abtem().Potential(atoms, gpts=points, slice_thickness=thin).build(lazy=False)


def _on_pixels(pattern: np.ndarray, sampling: tuple[float, float]) -> np.ndarray:
    """Bring all crystals' patterns to the same angles; what is between two points of the grid is taken from both."""
    from scipy.ndimage import map_coordinates

    where = [
        PIXEL_MRAD * (np.arange(n) - (n - 1) / 2) / step + size // 2
        for n, step, size in zip((ROWS, COLUMNS), sampling, pattern.shape, strict=True)
    ]
    image = map_coordinates(pattern, np.meshgrid(*where, indexing="ij"), order=1)
    return np.asarray(image * (PIXEL_MRAD**2 / (sampling[0] * sampling[1])), np.float32)


@functools.lru_cache(maxsize=1)
def _abtem() -> Any:
    import abtem

    abtem.config.set({"device": "cpu", "fft": "numpy", "dask.lazy": False, "diagnostics.progress_bar": False})
    return abtem
