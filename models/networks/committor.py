"""Frames and two states -> the probability to come to the one before the other: the best coordinate of a transition.

Axes: B batch, F inputs, H hidden units.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from steersman.models import device
from steersman.models.errors import at_least
from steersman.models.fitting.fit import fit, seeded
from steersman.models.model import Model
from steersman.models.networks.dense import Layers, dense, relative, through
from steersman.models.networks.tica import lagged, rows
from steersman.system.errors import BadValue

NOISE = 0.05  # of the inputs' common spread, added in training
ENOUGH = 100  # pairs that lead into the end: of fewer, a few that weigh most make the probability a step
GENTLE = 0.01  # weight of the squared log odds while a way is unknown: they rise everywhere, and are no step
NOTHING = 1e-12  # of the mean square step of the probability: what its logarithm bears


class Committor(Model):
    """The probability to come to one state before another: a network of tanh layers, whose output is its log odds.

    Args:
        size: numbers of a row, F.
        hidden: units of each hidden layer, H.
    Source: Roux (2022), Transition rate theory, spectral analysis, and reactive paths, for the loss; Kang, Trizio and
        Parrinello (2024), Computing the committor with the committor, for the log odds as a coordinate.
    """

    mean: Tensor
    scale: Tensor

    def __init__(self, size: int, hidden: Sequence[int] = (32, 32)) -> None:
        super().__init__(size=size, hidden=list(hidden))
        at_least(1, size=size, hidden=min(hidden, default=0))
        self.register_buffer("mean", torch.zeros(size, dtype=torch.float64))
        self.register_buffer("scale", torch.ones((), dtype=torch.float64))
        self.linear = nn.ModuleList(nn.Linear(a, b) for a, b in zip([size, *hidden], [*hidden, 1], strict=True))

    def forward(self, x_BF: Tensor) -> Tensor:
        """(B, 1) log odds."""
        return self.of_relative(((x_BF - self.mean) / self.scale).float())

    def of_relative(self, x_BF: Tensor) -> Tensor:
        """(B, 1) log odds of inputs less their mean, over their scale."""
        *inner, last = self.linear
        for layer in inner:
            x_BF = torch.tanh(layer(x_BF))
        odds: Tensor = last(x_BF)
        return odds

    @classmethod
    def fit(
        cls,
        data: np.ndarray,
        pairs: np.ndarray,
        *,
        begin: np.ndarray,
        end: np.ndarray,
        hidden: Sequence[int] = (32, 32),
        weights: np.ndarray | None = None,
        epochs: int = 60,
        batch: int = 2000,
        lr: float = 5e-3,
        seed: int = 0,
    ) -> Self:
        """Fit to data (n, ...), each row flattened, all of one scale.

        The committor is the function, 0 in one state and 1 in the other, that changes least within a lag, in the mean
        square of equilibrium. Of a simulation that does not come back from `end`, as those of a weighted ensemble with
        a target, its level sets are right and its values are a rising function of the probability. While fewer than 100
        pairs lead into `end` it only tells the two states apart, and rises all the way from one to the other. It never
        goes on from another one: one that was fitted to few pairs may be a step, which no later fit comes back from.

        Args:
            pairs: (m, 2) int, rows that are one lag apart, see `Window.lagged`; short beside the transition.
            weights: (n,) float, of members, or of frames whose simulation was biased; None: all count alike. A pair has
                that of its later frame, which is right also where a member was split between them.
            begin, end: (n,) bool, which frames are in either state; some are to be in each, also of a simulation of
                their own, in no pair.
        Returns: its card holds `entered`, the number of pairs that lead into `end`.
        Raises: BadValue: no frame in a state, one in both, or values that are not finite, or never change.
        """
        x, states = rows(data), np.stack([np.asarray(begin, bool), np.asarray(end, bool)], axis=1)
        if not states.any(axis=0).all() or states.all(axis=1).any():
            raise BadValue("frames in begin, end", states.sum(axis=0).tolist(), "some in each, and none in both")
        first, second = np.asarray(pairs, np.int64).reshape(-1, 2).T
        weight = np.ones(len(first)) if weights is None else np.asarray(weights, float)[second]
        entered = int((states[second, 1] & ~states[first, 1] & (weight > 0)).sum())
        known = np.flatnonzero(states.any(axis=1))  # for the states' own term they need not be in a pair
        first, second = np.append(first, known), np.append(second, known)
        weight = np.append(weight, np.zeros(len(known))) * len(first) / max(weight.sum(), NOTHING)
        lagged(x, np.stack([first, second], axis=1), None)  # refuses what never changes
        with seeded(seed):
            model = cls(x.shape[1], hidden)
        model.mean.copy_(torch.from_numpy(x.mean(axis=0)))
        model.scale.fill_(float(np.sqrt(x.var(axis=0).mean())))
        parts = *(relative(model.mean, model.scale, x[at]) for at in (first, second)), states[first], states[second]
        tensors = [torch.from_numpy(np.asarray(part, np.float32)) for part in (*parts, weight[:, None])]
        model.to(device.best())
        loss = _changes if entered >= ENOUGH else _apart
        fit(model, tuple(tensors), loss, epochs=epochs, batch=min(batch, len(first)), lr=lr, seed=seed)
        model.to("cpu")
        model.card["entered"] = entered
        return model.eval()

    def dense_layers(self) -> Layers:
        """As of `Model`."""
        return dense(self.mean, self.scale, *self.linear)

    def encode(self, data: np.ndarray) -> np.ndarray:
        """Log odds of data (n, ...). Returns: (n, 1) float64. Raises: BadValue: rows of another size, or NaN."""
        return through(self.dense_layers(), rows(data, self.config["size"]))

    def chance(self, data: np.ndarray) -> np.ndarray:
        """(n,) float64: the probability to come to `end` before `begin`. Raises: as of `encode`."""
        return np.asarray(1 / (1 + np.exp(-self.encode(data)[:, 0])))


def _changes(model: Committor, x: Tensor, y: Tensor, of_x: Tensor, of_y: Tensor, weight: Tensor) -> dict[str, Tensor]:
    """The logarithm of the mean square step of the probability within a lag, 0 and 1 in the states by their names; and
    how far from these the network is there."""
    now, chance = (torch.sigmoid(_noisy(model, each)) for each in (x, y))
    change = _within(chance, of_y) - _within(now, of_x)
    step = (weight[:, 0] * change**2).mean()
    apart = _mean(of_y[:, 0], chance**2) + _mean(of_y[:, 1], (1 - chance) ** 2)
    return {"loss": torch.log(step + NOTHING) + apart}


def _apart(model: Committor, x: Tensor, y: Tensor, of_x: Tensor, of_y: Tensor, weight: Tensor) -> dict[str, Tensor]:
    """The cross entropy of telling the states apart, by log odds that are not large anywhere."""
    odds = _noisy(model, y)
    apart = _mean(of_y[:, 0], softplus(odds)) + _mean(of_y[:, 1], softplus(-odds))
    return {"loss": apart + GENTLE * (odds**2).mean()}


def _within(chance: Tensor, state: Tensor) -> Tensor:
    """(B,) the probability, which is 0 or 1 in the states."""
    return chance * (1 - state.sum(dim=1)) + state[:, 1]


def _noisy(model: Committor, x: Tensor) -> Tensor:
    """(B,) log odds."""
    return model.of_relative(x + (NOISE if model.training else 0.0) * torch.randn_like(x))[:, 0]


def _mean(state: Tensor, value: Tensor) -> Tensor:
    """Of the rows in a state, each (B,); 0 of none."""
    return (state * value).sum() / state.sum().clamp_min(1.0)
