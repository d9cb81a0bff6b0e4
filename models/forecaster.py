"""Fields on the sphere -> the same fields some hours later: what every network that steps them has in common.

Axes: B batch, C channels, H latitudes from the north on a Gaussian grid, W = 2 H longitudes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from steersman.models.errors import UnusableData
from steersman.models.fit import Record, fit
from steersman.models.model import Model


class Forecaster(Model):
    """A step of fields, in their units; a subclass gives `change`.

    Args:
        channels: C of the fields.
        latitudes: H, for the weights by area.
        kept: channels whose mean over the sphere does not change with time, e.g. the height of the water.
    """

    mean: Tensor
    spread: Tensor
    increment: Tensor
    area: Tensor
    keeps: Tensor

    def __init__(self, channels: int, latitudes: int, *, kept: Sequence[int] = (), **config: Any) -> None:
        super().__init__(channels=channels, latitudes=latitudes, kept=list(kept), **config)
        for name in ("mean", "spread", "increment"):
            self.register_buffer(name, torch.ones(channels, 1, 1))
        weights = np.polynomial.legendre.leggauss(latitudes)[1]
        self.register_buffer("area", torch.tensor(weights / weights.mean(), dtype=torch.float32)[:, None])
        keeps = torch.zeros(channels, 1, 1)
        keeps[list(kept)] = 1
        self.register_buffer("keeps", keeps)

    def change(self, fields: Tensor) -> Tensor:
        """Fields (B, C, H, W) of mean 0 and spread 1 -> their change in spreads of the increments."""
        raise NotImplementedError

    def forward(self, fields: Tensor) -> Tensor:
        """Fields (B, C, H, W) in their units, a step later."""
        step = self.change((fields - self.mean) / self.spread) * self.increment
        mean = (step * self.area).mean((2, 3), keepdim=True)
        return fields + (step - self.keeps * mean)

    def loss(self, pairs: Tensor) -> dict[str, Tensor]:
        """Of pairs (B, 2, C, H, W): mean square error over the sphere, in variances of the increments."""
        wrong = (self(pairs[:, 0]) - pairs[:, 1]) / self.increment
        return {"loss": (wrong**2 * self.area).mean()}

    @torch.no_grad()
    def forecast(self, fields: Tensor, steps: int) -> Tensor:
        """Step by step from fields (B, C, H, W). Returns: (steps, B, C, H, W)."""
        found = []
        for _ in range(steps):
            fields = self(fields)
            found.append(fields)
        return torch.stack(found)

    @classmethod
    def fit(
        cls,
        runs: np.ndarray,
        *,
        epochs: int = 10,
        batch: int = 16,
        lr: float = 1e-3,
        seed: int = 0,
        init: Self | None = None,
        report: Callable[[Record, Self], object] | None = None,
        **network: Any,
    ) -> Self:
        """Fit to consecutive frames of runs (n, times, C, H, W), two times at least.

        Args:
            init: a fitted network to go on from, left as it is; used when its architecture is the same.
            report: called with each epoch's record and the network as it is then.
            network: what the constructor takes beside channels and latitudes.
        Raises: UnusableData: no pair of frames, a grid that the network does not take, or values that are not finite.
        """
        x = np.asarray(runs, dtype=np.float32)
        cls.check(x)
        torch.manual_seed(seed)
        model = cls(x.shape[2], x.shape[3], **network)
        model.card["warm_start"] = init is not None and model.fits(init)
        if init is not None and model.fits(init):
            model.load_state_dict(init.state_dict())
        else:
            model.measure(x)
        pairs = np.stack([x[:, :-1], x[:, 1:]], axis=2).reshape(-1, 2, *x.shape[2:])
        told = None if report is None else lambda record: report(record, model)
        return fit(model, torch.from_numpy(pairs), cls.loss, epochs=epochs, batch=batch, lr=lr, seed=seed, report=told)

    def measure(self, runs: np.ndarray) -> None:
        """Take mean and spread of each channel, and the spread of its increments, from runs (n, times, C, H, W)."""
        axes = (0, 1, 3, 4)
        self.mean.copy_(torch.from_numpy(runs.mean(axes))[:, None, None])
        self.spread.copy_(torch.from_numpy(runs.std(axes))[:, None, None] + 1e-12)
        self.increment.copy_(torch.from_numpy(np.diff(runs, axis=1).std(axes))[:, None, None] + 1e-12)

    @classmethod
    def check(cls, runs: np.ndarray) -> None:
        """Raise UnusableData unless these are frames of runs on a grid that the network takes."""
        fits = runs.ndim == 5 and runs.shape[1] >= 2 and runs.shape[3] % 8 == 0 and runs.shape[4] == 2 * runs.shape[3]
        if not fits or not len(runs) or not np.isfinite(runs).all():
            needed = "frames (runs, times >= 2, channels, 8k, 16k) of finite numbers are needed"
            raise UnusableData(tuple(runs.shape), needed)
