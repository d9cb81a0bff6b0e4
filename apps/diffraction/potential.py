"""A point of the unit cube -> where a probe stands in which crystal, and the projected potential around it.

The potential is that of one cell along the beam, whatever the thickness, as a Gaussian of 0.3 angstrom sees it: nothing
finer than 0.6 angstrom is left, since a pattern says nothing of it. It is that of still, neutral, independent atoms.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from steersman.apps.diffraction.conditions import DEFOCUS_A, LOG_DOSE, Conditions, bin_of
from steersman.apps.diffraction.crystals import cell
from steersman.apps.diffraction.simulation import VARIABLES as PATTERN
from steersman.apps.diffraction.simulation import unit_potential
from steersman.apps.points import checked, scaled
from steersman.store import Variable

CRYSTALS = ("Al", "Si", "Fe", "Au")
STRAIN, THICKNESS_A = (-0.03, 0.03), (30.0, 120.0)
DIMENSIONS = 8
SIZE, PIXEL_A = 32, 0.2  # of the window around the probe: 6.4 A across
BLUR_A = 0.3  # standard deviation
SCALE_VA = 100.0  # what a network learns are multiples of it

VARIABLES = {
    "pattern": PATTERN["pattern"],
    "potential": Variable(("x", "y"), "V angstrom", "projected potential of one cell, the probe in the middle"),
    "point": Variable(("parameter",), "1", "crystal, position, strain, thickness, defocus, dose, from 0 to 1"),
}


def conditions(point: Sequence[float]) -> Conditions:
    """Take conditions from a point (8,) from 0 to 1.

    Its numbers are crystal, two of the probe's position in the cell, two of strain across the beam, thickness, defocus
    and logarithm of the dose.

    Raises: BadValue: another number of parameters, or one outside 0 to 1.
    """
    kind, x, y, *others = checked(point, DIMENSIONS)
    rows, columns, thickness, defocus, log_dose = scaled(others, (STRAIN, STRAIN, THICKNESS_A, DEFOCUS_A, LOG_DOSE))
    crystal, strain = CRYSTALS[bin_of(kind, len(CRYSTALS))], (rows, columns, 0.0)
    edges = cell(crystal, strain=strain).cell.lengths()
    return Conditions(crystal, thickness, 0.0, defocus, dose=10.0**log_dose, strain=strain,
                      position_A=(x * edges[0], y * edges[1]))  # fmt: skip


def projected(conditions: Conditions) -> np.ndarray:
    """Project the potential of one cell along the beam, and look at it around the probe.

    Returns: (32, 32) float32, V angstrom, pixels of 0.2 angstrom; the probe stands in the middle, between pixels.
    Raises: BadValue: a crystal or zone that is not known.
    """
    unit = unit_potential(conditions)
    terms = np.fft.fft2(np.asarray(unit.array, np.float64).sum(0), norm="forward")
    waves = [
        _waves(PIXEL_A * (np.arange(SIZE) - (SIZE - 1) / 2) + at, edge, points)
        for at, edge, points in zip(conditions.position_A, unit.extent, unit.gpts, strict=True)
    ]
    return np.asarray((waves[0] @ terms @ waves[1].T).real, np.float32)


def _waves(where_A: np.ndarray, edge_A: float, points: int) -> np.ndarray:
    """(places, points) what each Fourier term of a period of `edge_A` is at each place, blurred."""
    per_A = np.fft.fftfreq(points, edge_A / points)
    blurred = np.exp(-2 * (np.pi * BLUR_A * per_A) ** 2)
    return np.asarray(np.exp(2j * np.pi * np.outer(where_A, per_A)) * blurred)


def judgement(said: np.ndarray, frames: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """What a committee says of patterns, where the potentials are known.

    Args:
        said: (n, members, 32, 32) V angstrom.
        frames: `potential` (n, 32, 32) and `point` (n, 8).
    Returns: (n,) each: `spread`, the members' standard deviation; `error`, what their mean errs. Both are means over
        pixels, V angstrom. And `potential` and `point` as they are.
    """
    true = frames["potential"]
    error = np.abs(said.mean(1) - true).mean((1, 2))
    return {"spread": said.std(1).mean((1, 2)), "error": error, "potential": true, "point": frames["point"]}


def errors_of_mean(values: Mapping[str, np.ndarray], held_out: np.ndarray) -> np.ndarray:
    """What errs who knows the crystal of a held-out pattern, but nothing else, and says its mean potential.

    Args:
        values: the scores potential (n, 32, 32) and point (n, 8).
        held_out: (n,) bool; the mean is that of all others of the same crystal, or of all others if there is none.
    Returns: (held-out patterns,) means over pixels, V angstrom.
    """
    true, kinds = values["potential"], np.array([bin_of(share, len(CRYSTALS)) for share in values["point"][:, 0]])
    known = {kind: true[~held_out & (kinds == kind)] for kind in np.unique(kinds)}
    means = {kind: (same if len(same) else true[~held_out]).mean(0) for kind, same in known.items()}
    asked = zip(true[held_out], kinds[held_out], strict=True)
    return np.array([np.abs(potential - means[kind]).mean() for potential, kind in asked])
