"""Time-lagged independent components: the directions that change slowest, which are those worth a bias."""

from __future__ import annotations

from math import prod
from typing import Any, Self

import numpy as np
import torch

from steersman.models.errors import at_least, real
from steersman.models.model import Model
from steersman.system.errors import BadValue

NOTHING = 1e-9  # of the largest variance: a coordinate that says what another one says
SMALLEST = 1e-2  # directions of less variance than this share of the largest are noise, and left out


class TICA(Model):
    """What changes slowest: `latent` directions of vectors of `size` numbers, each of mean 0 and variance 1.

    Source: Perez-Hernandez et al. (2013), Identification of slow molecular order parameters for Markov model
        construction.
    """

    mean: torch.Tensor
    components: torch.Tensor

    def __init__(self, size: int, latent: int) -> None:
        super().__init__(size=size, latent=latent)
        at_least(1, size=size, latent=latent)
        self.register_buffer("mean", torch.zeros(size, dtype=torch.float64))
        self.register_buffer("components", torch.zeros(latent, size, dtype=torch.float64))

    @classmethod
    def fit(
        cls,
        data: np.ndarray,
        pairs: np.ndarray,
        *,
        latent: int = 2,
        weights: np.ndarray | None = None,
        least: float = -1.0,
    ) -> Self:
        """Fit to data (n, ...), each row flattened, all of one scale.

        Args:
            pairs: (m, 2) int, rows of the data that are one lag apart, see `Window.lagged`.
            latent: at most as many as there are directions that are no noise.
            weights: (n,) float, of frames whose simulation was biased; None: all count alike.
            least: components of a smaller autocorrelation are left out, but the first one.
        Returns: its card holds the `autocorrelation` of each component at the lag, also of those that `least` left out,
            and under `left_out` how many directions were taken for noise: those of less than 1 % of the largest
            variance.
        Raises: BadValue: no pairs, values that are not finite, or that never change.
        """
        x = rows(data)
        before, after, weight = lagged(x, pairs, weights)
        mean, now, later = covariances(before, after, weight)
        directions, values = slowest(now, later, latent)
        slow = max(int((values >= least).sum()), 1)
        model = cls(x.shape[1], slow)
        model.mean.copy_(torch.from_numpy(mean))
        model.components.copy_(torch.from_numpy(directions[:slow]))
        model.card["autocorrelation"] = [round(float(value), 4) for value in values]
        model.card["left_out"] = x.shape[1] - len(slowest(now, later, x.shape[1])[1])
        return model.eval()

    def dense_layers(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """As of `Model`."""
        components = self.components.numpy()
        return [(components, -components @ self.mean.numpy())]

    def encode(self, data: np.ndarray) -> np.ndarray:
        """Project data (n, ...). Returns: (n, latent) float64. Raises: BadValue: rows of another size, or NaN."""
        return np.asarray((rows(data, self.config["size"]) - self.mean.numpy()) @ self.components.numpy().T)


def rows(data: np.ndarray, size: int | None = None) -> np.ndarray:
    """Flatten (n, ...) to (n, numbers) float64.

    Raises: BadValue: rows of another size, or values that are complex, or not finite.
    """
    shape = np.shape(data)
    x = np.asarray(real(data), np.float64).reshape(shape[0], prod(shape[1:]))
    if size is not None and x.shape[1] != size:
        raise BadValue("shape", shape, f"the model was built for rows of {size} numbers")
    if not np.isfinite(x).all():
        raise BadValue("shape", shape, "the values are to be finite")
    return x


def lagged(x: np.ndarray, pairs: np.ndarray, weights: np.ndarray | None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows that are one lag apart, (m, F) each, and the weight of each pair, (m,), which sum to 1.

    Raises: BadValue: there are none, or all are the same.
    """
    if not len(pairs):
        raise BadValue("shape", x.shape, "no two frames of a segment are one lag apart: take a shorter lag")
    first, second = np.asarray(pairs).T
    if not np.ptp(x[first], axis=0).any():
        raise BadValue("shape", x.shape, "the values never change")
    weight = np.ones(len(first)) if weights is None else np.asarray(weights, float)[first]
    return x[first], x[second], weight / weight.sum()


def covariances(before: np.ndarray, after: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean (F,), covariance and time-lagged covariance (F, F), both made symmetric: as if time had no direction."""
    mean = 0.5 * (weight @ before + weight @ after)
    x, y = before - mean, after - mean
    wx, wy = x * weight[:, None], y * weight[:, None]
    cross = wx.T @ y
    return mean, 0.5 * (wx.T @ x + wy.T @ y), 0.5 * (cross + cross.T)


def slowness(z: np.ndarray, pairs: np.ndarray) -> float:
    """Sum of the squared autocorrelations of coordinates (n, d): how slow what they tell is, whatever their scales.

    On frames that a model was not fitted to it says whether that is true of others, too: d at most.

    Args:
        pairs: (m, 2) int, rows that are one lag apart, see `Window.lagged`.
    Raises: BadValue: no pairs, values that are not finite, or that never change.
    Source: McGibbon and Pande (2015), Variational cross-validation of slow dynamical modes in molecular kinetics.
    """
    _, now, later = covariances(*lagged(rows(z), pairs, None))
    return float((slowest(now, later, len(now), smallest=NOTHING)[1] ** 2).sum())


def autocorrelation(z: np.ndarray, pairs: np.ndarray) -> np.ndarray:
    """(d,) of each of the coordinates (n, d), at the lag of the pairs.

    Args and raises: as of `slowness`.
    """
    _, now, later = covariances(*lagged(rows(z), pairs, None))
    return np.asarray(np.diag(later) / np.maximum(np.diag(now), np.finfo(float).tiny))


def forgotten(model: Any, data: np.ndarray, pairs: np.ndarray) -> float:
    """What the fastest coordinate of a model loses within the lag of the pairs: 1 less its autocorrelation, 0 to 2.

    Of those that the fit left out as too fast, by the frames of the fit. A gate of `@wf.train(most=)`: on held-out
    frames it is large while what turns has not turned often.

    Args and raises: as of `slowness`; data of the model.
    """
    fitted = model.card.get("autocorrelation", [])
    return float(1 - min([*autocorrelation(model.encode(data), pairs), *fitted]))


def slowest(
    now: np.ndarray, later: np.ndarray, latent: int, smallest: float = SMALLEST
) -> tuple[np.ndarray, np.ndarray]:
    """Directions (latent, F) of unit variance, of the largest autocorrelations, and those, (latent,).

    Args:
        smallest: directions of less variance than this share of the largest are left out."""
    variance, axes = np.linalg.eigh(now)
    kept = variance > smallest * variance[-1]
    whiten = axes[:, kept] / np.sqrt(variance[kept])
    values, turns = np.linalg.eigh(whiten.T @ later @ whiten)
    directions = (whiten @ turns[:, ::-1][:, :latent]).T
    signs = np.sign(directions[np.arange(len(directions)), np.abs(directions).argmax(axis=1)])
    return directions * signs[:, None], values[::-1][:latent]
