"""Density -> the crops that a network sees, and their variance and power spectrum."""

from __future__ import annotations

import numpy as np

BANDS = 8  # of the power spectrum
CROPS = 8  # of a universe, each half as long


def crops(density: np.ndarray) -> np.ndarray:
    """Cut each cube into its eight halves in all directions.

    Args:
        density: (n, times, mesh, mesh, mesh), mesh even.
    Returns: (8 n, times, mesh / 2, mesh / 2, mesh / 2) of the same dtype, those of a cube one after the other.
    """
    n, times, mesh = density.shape[:3]
    split = density.reshape(n, times, *(2, mesh // 2) * 3).transpose(0, 2, 4, 6, 1, 3, 5, 7)
    return np.ascontiguousarray(split).reshape(CROPS * n, times, *(mesh // 2,) * 3)


def stored(density: np.ndarray) -> dict[str, np.ndarray]:
    """What is kept of a universe's density (times, mesh, mesh, mesh): itself in float16, and the crops' summary."""
    return {"density": density.astype(np.float16), "summary": summary(crops(density[None]))}


def summary(cubes: np.ndarray) -> np.ndarray:
    """Variance and power spectrum of cubes.

    Args:
        cubes: (n, times, size, size, size), density over its mean.
    Returns: (n, times * 9) float32: of each time the logarithms of the variance and of the power in 8 bands from the
        cube's longest wave to the shortest, equally wide in the logarithm of the wavenumber.
    """
    size, values = cubes.shape[-1], cubes.astype(np.float32)
    power = np.abs(np.fft.fftn(values, axes=(2, 3, 4))) ** 2 / size**3
    band = _bands(size)
    statistics = [np.log(values.var((2, 3, 4)))]
    statistics += [np.log(power[:, :, band == number].mean(2)) for number in range(BANDS)]
    return np.stack(statistics, axis=2).reshape(len(cubes), -1).astype(np.float32)


def _bands(size: int) -> np.ndarray:
    """(size, size, size) int: the band of each mode, -1 of the mean and of what lies beyond the shortest wave."""
    along = np.fft.fftfreq(size) * size
    modes = np.sqrt(sum(np.meshgrid(along**2, along**2, along**2, indexing="ij")))
    band = np.digitize(modes, np.geomspace(0.999, size / 2 + 0.001, BANDS + 1)) - 1
    return np.where(band < BANDS, band, -1)
