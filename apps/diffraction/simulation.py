"""Conditions -> convergent-beam electron diffraction pattern: multislice by abTEM, then electrons that are counted.

A pattern has 120 x 85 pixels of 1 mrad, the direct beam in the middle: as many as in AtomAI's of DeepEx. The crystal is
still (no phonons) and the probe stands on its first atom.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from steersman.apps.diffraction.conditions import Conditions
from steersman.apps.errors import OutOfRange
from steersman.store import Variable

ENERGY_EV, SEMIANGLE_MRAD, SLICE_A = 200e3, 8.0, 2.0
ROWS, COLUMNS, PIXEL_MRAD = 120, 85, 1.0
# structure, lattice constant (A), cells across, grid points of a cell: some 20 A, and 68 mrad after anti-aliasing
CRYSTAL = {"Si": ("diamond", 5.431, 4, 43), "Au": ("fcc", 4.078, 5, 33), "Fe": ("bcc", 2.866, 7, 24)}
MOST_A = 1000.0  # a thicker crystal takes minutes

VARIABLES = {
    "pattern": Variable(("angle_x", "angle_y"), "electron", "electrons in a pixel of 1 mrad"),
    "label": Variable((), "1", "crystal x thickness x tilt"),
    "point": Variable(("parameter",), "1", "crystal, thickness, tilt, defocus, astigmatism, dose, from 0 to 1"),
}


def intensity(conditions: Conditions) -> np.ndarray:
    """Simulate the pattern of infinitely many electrons.

    Returns: (120, 85) float32, the share of the electrons in each pixel; their sum is below 1 by what lies outside.
    Raises: OutOfRange: a crystal that is not known, or one thinner than 0 or thicker than 1000 angstrom.
    """
    return _on_pixels(*exit_intensity(conditions))


def counts(conditions: Conditions, seed: int) -> np.ndarray:
    """The same as counted: (120, 85) uint32 electrons, which arrive independently of each other (Poisson).

    Raises: OutOfRange: see `intensity`; or fewer than 0 electrons, or more than 10^9.
    """
    if not 0 <= conditions.dose <= 1e9:
        raise OutOfRange("dose", conditions.dose, "in 0 to 10^9 electrons")
    return np.random.default_rng((seed, 1)).poisson(conditions.dose * intensity(conditions)).astype(np.uint32)


def seen(patterns: np.ndarray) -> np.ndarray:
    """Counted patterns (n, 120, 85) -> what a network takes: (n, 1, 120, 85) float32 near 0 to 1, whatever the dose."""
    total = np.maximum(patterns.sum((1, 2), keepdims=True, dtype=np.float64), 1.0)
    scaled: np.ndarray = np.log1p(patterns / total * (0.1 * ROWS * COLUMNS)) / math.log(100.0)
    return scaled[:, None].astype(np.float32)


def exit_intensity(conditions: Conditions) -> tuple[np.ndarray, tuple[float, float]]:
    """The same on the grid of the simulation, up to the angle of anti-aliasing.

    Returns: (rows, columns) float, the direct beam at [rows // 2, columns // 2]; and mrad of a pixel along both.
    """
    thickness = conditions.thickness_A
    if not 0 <= thickness <= MOST_A:
        raise OutOfRange("thickness_A", thickness, f"in 0 to {MOST_A:g}")
    abtem, unit = _abtem(), _unit(conditions.crystal)
    _, constant, across, points = CRYSTAL[conditions.crystal]
    probe = abtem.Probe(
        energy=ENERGY_EV, semiangle_cutoff=SEMIANGLE_MRAD, tilt=(conditions.tilt_mrad, 0.0), extent=across * constant,
        gpts=across * points, defocus=conditions.defocus_A, astigmatism=conditions.astigmatism_A,
    )  # fmt: skip
    cells = round(thickness / constant)
    whole = abtem.CrystalPotential(unit, (across, across, cells)) if cells else None
    wave = probe.build(lazy=False) if whole is None else probe.multislice(whole, lazy=False)
    pattern = wave.diffraction_patterns(max_angle="cutoff", parity="odd")
    return np.asarray(pattern.array), tuple(pattern.angular_sampling)


def _on_pixels(pattern: np.ndarray, sampling: tuple[float, float]) -> np.ndarray:
    """Bring all crystals' patterns to the same angles; what is between two points of the grid is taken from both."""
    from scipy.ndimage import map_coordinates

    where = [
        PIXEL_MRAD * (np.arange(n) - (n - 1) / 2) / step + size // 2
        for n, step, size in zip((ROWS, COLUMNS), sampling, pattern.shape, strict=True)
    ]
    found = map_coordinates(pattern, np.meshgrid(*where, indexing="ij"), order=1)
    return np.asarray(found * (PIXEL_MRAD**2 / (sampling[0] * sampling[1])), np.float32)


@functools.lru_cache(maxsize=1)
def _abtem() -> Any:
    import abtem

    abtem.config.set({"device": "cpu", "fft": "numpy", "dask.lazy": False, "diagnostics.progress_bar": False})
    return abtem


@functools.lru_cache(maxsize=len(CRYSTAL))
def _unit(crystal: str) -> Any:
    """The potential of one unit cell, which all thicknesses repeat."""
    from ase.build import bulk

    if crystal not in CRYSTAL:
        raise OutOfRange("crystal", crystal, f"one of {', '.join(CRYSTAL)}")  # type: ignore[arg-type]
    structure, constant, _, points = CRYSTAL[crystal]
    cell = bulk(crystal, structure, a=constant, cubic=True)
    slices = constant / math.ceil(constant / SLICE_A)
    return _abtem().Potential(cell, gpts=points, slice_thickness=slices).build(lazy=False)
