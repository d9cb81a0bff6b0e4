"""Fields on the sphere -> the same fields some hours later: what every network that steps them has in common.

Axes: B batch, C channels, H latitudes from the north on a Gaussian grid, W = 2 H longitudes.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Self, overload

import numpy as np
import torch
from torch import Tensor

from steersman.models.errors import at_least, real
from steersman.models.fitting.fit import Record, fit, seeded
from steersman.models.model import Model
from steersman.models.networks.scale import of_alike, spread
from steersman.models.sphere.fields import analysed, sphere_of, synthesized
from steersman.system.errors import BadValue

Step = Callable[[Tensor], Tensor]
STEPPED = 64  # fields that a solver steps at once
FADE = 0.5  # the shortest waves lose 40 % a step, half as long ones 3 %; a network makes good what is real of it


class Forecaster(Model):
    """A step of fields, in their units, that keeps what the flow keeps; a subclass gives `change`.

    A channel that does not change in the runs it is fitted to, mountains say, is kept as it is.

    Args:
        channels: C of the fields.
        latitudes: H, for the weights by area.
        kept: channels whose mean over the sphere does not change with time, e.g. the height of the water.
        band_limit: total wavenumber beyond which the fields have nothing, as those of a spectral solver. What a network
            adds there, and makes of it in later steps, is cut off, with a smooth end (see FADE).
        energy: weights of the squares of all channels, the kept ones about their mean, whose sum over the sphere does
            not grow: that of a flow which nothing drives. A step that would gain some is scaled back. Empty: no such
            law.
    Raises:
        BadValue: so few latitudes do not hold the band limit; kept
            channels that are not there, or another number of weights than of channels.
    """

    mean: Tensor
    spread: Tensor
    increment: Tensor
    area: Tensor
    keeps: Tensor
    weights: Tensor

    def __init__(
        self, channels: int, latitudes: int, *, kept: Sequence[int] = (), band_limit: int | None = None,
        energy: Sequence[float] = (), **config: Any,
    ) -> None:  # fmt: skip
        if not set(kept) <= set(range(channels)):
            raise BadValue("kept", tuple(kept), f"give some of the channels 0 to {channels - 1}")
        if len(energy) not in (0, channels):
            raise BadValue("energy", tuple(energy), f"give one weight for each of {channels} channels, or empty")
        laws = {"kept": list(kept), "band_limit": band_limit, "energy": list(energy)}
        super().__init__(channels=channels, latitudes=latitudes, **laws, **config)
        for name in ("mean", "spread", "increment"):
            self.register_buffer(name, torch.ones(channels, 1, 1))
        gaussian = np.polynomial.legendre.leggauss(latitudes)[1]
        self.register_buffer("area", torch.tensor(gaussian / gaussian.mean(), dtype=torch.float32)[:, None])
        keeps = torch.zeros(channels, 1, 1)
        keeps[list(kept)] = 1
        self.register_buffer("keeps", keeps)
        weights = torch.tensor(energy or [0.0] * channels, dtype=torch.float32)
        self.register_buffer("weights", weights[:, None, None], persistent=False)
        if band_limit is not None:
            sphere_of(band_limit, latitudes, self.area.device)

    def change(self, fields: Tensor) -> Tensor:
        """Fields (B, C, H, W) of mean 0 and spread 1 -> their change in spreads of the increments."""
        raise NotImplementedError

    def forward(self, fields: Tensor) -> Tensor:
        """Fields (B, C, H, W) in their units, a step later."""
        now = (fields - self.mean) / self.spread
        later = self._filtered(now + self.change(now) * (self.increment / self.spread))
        step = (later - now) * self.spread * (self.increment > 0)
        return self._bounded(fields, fields + (step - self.keeps * self._average(step)))

    def loss(self, windows: Tensor, *, step: Step | None = None) -> dict[str, Tensor]:
        """Of windows (B, 2 or more times, C, H, W): mean square error of the forecast of all but the first.

        Over the sphere, in variances of the increments. The first of a window is after a step that is corrected.
        """
        fields, *later = windows.unbind(1)
        wrong = []
        for number, true in enumerate(later):
            fields = self(step(fields) if step and number else fields)
            wrong.append(((fields - true) / _or_1(self.increment)) ** 2 * self.area)
        return {"loss": torch.stack([each.mean() for each in wrong]).mean()}

    def _average(self, fields: Tensor) -> Tensor:
        return (fields * self.area).mean((2, 3), keepdim=True)

    def _filtered(self, fields: Tensor) -> Tensor:
        limit = self.config["band_limit"]
        if limit is None:
            return fields
        sphere = sphere_of(limit, fields.shape[2], fields.device)
        faded = np.exp(-FADE * (sphere.degree * (sphere.degree + 1) / (limit * (limit + 1))) ** 2)
        factors = sphere.inside * sphere.coefficients(faded)
        return synthesized(analysed(fields, sphere) * factors.flatten()[:, None, None], sphere)

    def _bounded(self, before: Tensor, after: Tensor) -> Tensor:
        """Scaled to no more energy than before."""
        if not self.config["energy"]:
            return after
        rest = self.keeps * self._average(after)
        most, found = (
            self._average((fields - self.keeps * self._average(fields)) ** 2 * self.weights).sum(1, keepdim=True)
            for fields in (before, after)
        )
        return rest + (after - rest) * (most / found.clamp_min(1e-30)).sqrt().clamp(max=1)

    @overload
    def forecast(self, fields: np.ndarray, steps: int) -> np.ndarray: ...

    @overload
    def forecast(self, fields: Tensor, steps: int) -> Tensor: ...

    @torch.no_grad()
    def forecast(self, fields: np.ndarray | Tensor, steps: int) -> np.ndarray | Tensor:
        """Step by step from fields (B, C, H, W), float32. Returns: (steps, B, C, H, W), of their kind."""
        if isinstance(fields, np.ndarray):
            given = torch.from_numpy(np.asarray(fields, np.float32)).to(self.area.device)
            return self.forecast(given, steps).cpu().numpy()
        states = fields.new_empty(steps, *fields.shape)
        for step in range(steps):
            states[step] = fields = self(fields)
        return states

    @classmethod
    def fit(
        cls,
        runs: np.ndarray,
        *,
        epochs: int = 10,
        batch: int = 16,
        lr: float = 1e-3,
        seed: int = 0,
        unrolled: int = 1,
        step: Step | None = None,
        init: Self | None = None,
        report: Callable[[Record, Self], object] | None = None,
        **network: Any,
    ) -> Self:
        """Fit to consecutive frames of runs (n, times, C, H, W), more times than are unrolled.

        Args:
            unrolled: steps that are forecast from each frame: more cost as many times more, and teach a network to
                go on from what it forecast itself.
            step: a solver's, fields (B, C, H, W) -> fields, through which gradients go; the network corrects what it
                gives. None: the network forecasts by itself.
            init: a fitted network to go on from, left as it is; used when its architecture is the same, and mean and
                spread of the data about the same.
            report: called with each epoch's record and the network as it is then.
            network: what the constructor takes beside channels and latitudes.
        Raises: BadValue: too few times, a grid that the network does not take, or values that are not finite;
            or nothing is unrolled.
        """
        at_least(1, unrolled=unrolled)
        x = np.asarray(real(runs), dtype=np.float32)
        cls.check(x, unrolled)
        with seeded(seed):
            model = cls(x.shape[2], x.shape[3], **network)
        begins = x.shape[1] - unrolled
        windows = np.stack([x[:, at : begins + at] for at in range(unrolled + 1)], axis=2)
        samples = windows.reshape(-1, *windows.shape[2:])
        if step:
            with torch.no_grad():
                for part in np.array_split(samples, -(-len(samples) // STEPPED)):
                    part[:, 0] = step(torch.from_numpy(part[:, 0])).numpy()
        model.measure(x, samples)
        last = of_alike(model, init, "spread")
        same = isinstance(last, cls) and torch.equal(last.increment.cpu() > 0, model.increment > 0)
        model.warm_start(last if same else None)  # else what changes now would be kept as it is
        loss = functools.partial(cls.loss, step=step)
        told = None if report is None else lambda record: report(record, model)
        return fit(model, samples, loss, epochs=epochs, batch=batch, lr=lr, seed=seed, report=told)

    def measure(self, runs: np.ndarray, windows: np.ndarray) -> None:
        """Take mean and spread of each channel from runs (n, times, C, H, W), and the spread of its increments from
        windows (m, times, C, H, W).

        Increments of spread 0 are those of a channel that does not change, as of mountains: it is kept as it is.
        """
        for channel in range(runs.shape[2]):  # of all at once the differences would take as much memory as the runs
            fields = runs[:, :, channel]
            self.mean[channel] = float(fields.mean(dtype=np.float64))
            self.spread[channel] = float(spread(fields, (0, 1, 2, 3))) or 1.0
            change = windows[:, 1, channel] - windows[:, 0, channel]
            self.increment[channel] = float(spread(change, (0, 1, 2), np.abs(fields).max()))

    @classmethod
    def check(cls, runs: np.ndarray, unrolled: int) -> None:
        """Raise BadValue unless these are frames of runs on a grid that the network takes."""
        fits = (
            runs.ndim == 5
            and runs.shape[1] > unrolled
            and runs.shape[3] % 8 == 0
            and runs.shape[4] == 2 * runs.shape[3]
        )
        if not fits or not len(runs) or not np.isfinite(runs).all():
            needed = f"frames (runs, times >= {unrolled + 1}, channels, 8k, 16k) of finite numbers are needed"
            raise BadValue("shape", tuple(runs.shape), needed)


def _or_1(spreads: Tensor) -> Tensor:
    """1 where nothing changes."""
    return spreads + (spreads == 0)
