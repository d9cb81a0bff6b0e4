"""Fields -> a class of every pixel, by rule: background, cyclone, river.

Axes: H latitudes from the north, W longitudes, both of a Gaussian grid.
"""

from __future__ import annotations

import functools

import numpy as np
from scipy.ndimage import label, minimum_filter

from steersman.apps.shallow_water.cases import RADIUS
from steersman.apps.shallow_water.solver import latitudes, longitudes

CLASSES = ("background", "cyclone", "river")
CYCLONE, RIVER = 1, 2
BELT_DEG = 20.0, 75.0  # where cyclones are looked for, in both hemispheres
REACH_DEG = 5.0  # of a cyclone about its centre
SPIN, DEPTH_M = 4e-5, 40.0  # 1/s; metres below what lies around the reach
FLUX = 110.0  # g/kg m/s towards the pole
LONGER_M, NARROWER_M = 2.0e6, 1.4e6


def classes(height_HW: np.ndarray, vorticity_HW: np.ndarray, flux_HW: np.ndarray, strength: float = 1.0) -> np.ndarray:
    """Name the class of every pixel; where a river crosses a cyclone, the cyclone's.

    Args:
        height_HW: of the free surface, m.
        vorticity_HW: 1/s.
        flux_HW: of humidity to the north, g/kg m/s.
        strength: factor of all three thresholds; below 1 for fields that are too smooth to reach them.
    Returns: (H, W) uint8, places in CLASSES.
    """
    pole = np.sign(latitudes(len(height_HW)))[:, None]
    labels = np.zeros(height_HW.shape, np.uint8)
    labels[rivers(flux_HW * pole, strength)] = RIVER
    labels[cyclones(height_HW, vorticity_HW * pole, strength)] = CYCLONE
    return labels


def cyclones(height_HW: np.ndarray, spin_HW: np.ndarray, strength: float = 1.0) -> np.ndarray:
    """Mark what spins within 5 degrees of a minimum of height that is deep and spins enough: (H, W) bool.

    Args:
        spin_HW: vorticity, 1/s, positive where it is cyclonic.
    """
    places, latitude = _places(height_HW.shape), np.abs(latitudes(len(height_HW)))[:, None]
    belt = (BELT_DEG[0] < latitude) & (latitude < BELT_DEG[1])
    lowest = minimum_filter(height_HW, size=3, mode=("nearest", "wrap")) == height_HW
    inside = np.zeros(height_HW.shape, bool)
    for centre in zip(*np.nonzero(lowest & belt & (spin_HW > strength * SPIN)), strict=True):
        away = np.degrees(np.arccos(np.clip(places @ places[centre], -1, 1)))
        around = (away > REACH_DEG) & (away <= 2 * REACH_DEG)
        if height_HW[around].mean() - height_HW[centre] > strength * DEPTH_M:
            inside |= (away <= REACH_DEG) & (spin_HW > strength * SPIN / 2)
    return inside


def rivers(poleward_HW: np.ndarray, strength: float = 1.0) -> np.ndarray:
    """Mark connected pixels of a strong flux to the pole that reach far and are narrow: (H, W) bool.

    The length of such a blob is the distance between the two of its pixels that lie farthest apart; its width is its
    area over its length.
    """
    places, area = _places(poleward_HW.shape), _areas(poleward_HW.shape)
    blobs = _connected(poleward_HW > strength * FLUX)
    inside = np.zeros(poleward_HW.shape, bool)
    for number in np.unique(blobs[blobs > 0]):
        blob = blobs == number
        length = RADIUS * np.arccos(np.clip(places[blob] @ places[blob].T, -1, 1)).max()
        if length > LONGER_M and area[blob].sum() < NARROWER_M * length:
            inside |= blob
    return inside


def _connected(marked_HW: np.ndarray) -> np.ndarray:
    """Numbers of the blobs of marked pixels, 0 elsewhere; also of those that reach around in longitude."""
    blobs, _ = label(marked_HW, structure=np.ones((3, 3)))
    for row in range(len(blobs)):
        for other in range(max(row - 1, 0), min(row + 2, len(blobs))):
            west, east = blobs[other, 0], blobs[row, -1]
            if west and east:
                blobs[blobs == east] = west
    return np.asarray(blobs)


@functools.lru_cache(maxsize=4)
def _places(shape: tuple[int, int]) -> np.ndarray:
    """Unit vectors of the pixels, (H, W, 3)."""
    lat, lon = np.radians(latitudes(shape[0]))[:, None], np.radians(longitudes(shape[1]))
    z = np.sin(lat) + 0 * lon
    return np.stack([np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), z], -1)


@functools.lru_cache(maxsize=4)
def _areas(shape: tuple[int, int]) -> np.ndarray:
    """Of the pixels, (H, W), m2."""
    weights = np.polynomial.legendre.leggauss(shape[0])[1]
    return np.asarray((2 * np.pi * RADIUS**2 / shape[1]) * weights[:, None] + np.zeros(shape))
