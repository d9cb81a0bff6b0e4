"""A state and the time left -> what will come of it: mean and spread of one number.

A ridge regression for each time left comes first, in closed form. A small network learns what is left of it, and is
used where it makes first members that were held out more likely: so depth is used where it pays.

Axes: n rows, L times left, K numbers that the regression sees, V variables, H latitudes, W longitudes, B batch.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from steersman.models import device
from steersman.models.errors import at_least
from steersman.models.fitting.fit import fit, seeded
from steersman.models.fitting.schedule import Schedule
from steersman.models.model import Model
from steersman.models.networks.outcomes import (
    CALIBRATION,
    KNOTS,
    SMALLEST,
    UNKNOWN,
    Outcomes,
    calibrated,
    finite,
    hats_of,
    regressed,
)
from steersman.models.networks.scale import ROUNDING, of_alike
from steersman.system.errors import BadValue

if TYPE_CHECKING:
    from steersman.store.lineages import Fate

ROWS, COLUMNS = 24, 48  # of the grid to which larger fields are averaged
BELTS, WAVES = 12, 6  # latitudes and zonal wavenumbers that the regression sees
DRAWN, EPOCHS = 600_000, (4, 20)  # rows in all epochs of the network, within these bounds
DROPPED, UNSEEN = 0.1, 0.3  # of the network's hidden units, and of the numbers of a field that it gets, in training
READ = 4  # channels that the network keeps of each longitude
TOGETHER = 1024  # rows at once


class Outlook(Model):
    """What will come of a state, as mean and spread of a number, by the time left: ridge, and what bends it.

    Args:
        shape: of a row: (d,) numbers of a vector, or (V, H, W) of fields on the sphere or of an image, whose columns
            are taken for a ring of longitudes.
        times: times left that have a regression each, L; between two of them the forecast is interpolated.
        width: of the network.
    Raises: BadValue: another number of axes, or one of these numbers below 1.
    Source: Miloshevich, Cozian, Abry, Borgnat and Bouchet (2023), Probabilistic forecasts of extreme heatwaves using
        convolutional neural networks in a regime of lack of data.
    """

    mean: Tensor
    scale: Tensor
    times: Tensor
    plane: Tensor
    share: Tensor
    calibration: Tensor
    smallest: Tensor
    curve: Tensor

    def __init__(self, shape: Sequence[int], times: int = 1, width: int = 32) -> None:
        if len(shape) not in (1, 3):
            raise BadValue("shape", tuple(shape), "rows are vectors (d,), or fields (variables, latitudes, longitudes)")
        at_least(1, size=min(shape), times=times, width=width)
        super().__init__(shape=list(shape), times=times, width=width)
        small = tuple(shape) if len(shape) == 1 else (shape[0], min(shape[1], ROWS), min(shape[2], COLUMNS))
        seen = features(torch.zeros(1, *small)).shape[1]
        zeros: dict[str, tuple[int, ...]] = {"mean": small, "times": (times,), "plane": (times, seen)}
        zeros |= {"share": (times,), "calibration": (times, CALIBRATION), "smallest": (), "curve": (2, KNOTS)}
        for name, size in zeros.items():
            self.register_buffer(name, torch.zeros(size, dtype=torch.float64))
        self.register_buffer("scale", torch.ones(small[0], *(1 for _ in small[1:]), dtype=torch.float64))
        self.trunk = _rings(*small, width) if len(small) == 3 else nn.Linear(small[0], width)
        self.modulation = nn.Linear(times, 2 * width)
        self.head = nn.Sequential(nn.GELU(), nn.Dropout(DROPPED), nn.Linear(width, width), nn.GELU())
        self.last = nn.Linear(width, 1)
        nn.init.zeros_(self.last.weight)  # an untrained network adds nothing
        nn.init.zeros_(self.last.bias)
        for part in self.children():
            part.float()

    def forward(self, small: Tensor, hats: Tensor) -> Tensor:
        """(B,) what the network adds to relative inputs (B, ...) at times left (B, L), see `hats`: in spreads."""
        gain, shift = self.modulation(hats).chunk(2, 1)
        added: Tensor = self.last(self.head(self.trunk(small) * (1 + gain) + shift))
        return added[:, 0]

    @classmethod
    def fit(
        cls,
        inputs: np.ndarray,
        outcome: np.ndarray,
        *,
        lead: np.ndarray,
        weights: np.ndarray | None = None,
        groups: np.ndarray | None = None,
        width: int = 32,
        ranks: bool = False,
        init: Model | None = None,
        epochs: int | None = None,
        batch: int = 64,
        lr: float = 2e-3,
        seed: int = 0,
        **settings: Any,
    ) -> Self:
        """Fit to rows and what came of them.

        Args:
            inputs: (n, d) vectors, or (n, V, H, W) fields on the sphere, or images.
            outcome: (n,) the number that came of each row.
            lead: (n,) the time that was left until then, in any unit.
            weights: (n,) >= 0, of members; None: all count alike.
            groups: (n,) the first member that each row descends from: a quarter of them is held out at a time, each
                with all its rows. None: no row depends on another.
            width: of the network.
            ranks: forecast the normal score of the outcome, which a normal distribution would have in its place, by
                weights: see `ranked`. So a gap between two wells, or a long tail, is no wider than it is rare.
            init: a fitted one whose network is gone on from, in a third of the epochs, and which is left as it is;
                where its shapes or the scale of its inputs are others, the fit begins anew.
            epochs: of the network; None: 20, and of more than 30,000 rows fewer, at least 4.
            batch, lr, seed, and further settings: of the network, see `steersman.models.fitting.fit.fit`.
        Returns: its card says what was "taken": "network", "ridge", or, of fewer rows or first members than there is to
            learn from, "mean"; of no rows, "nothing": a mean of 0 and a spread of 1. Of held-out rows it has their
            number, `log_likelihood` (nats a row) of ridge and network, and R2 of both at each time left.
        Raises: BadValue: shapes that do not fit, or values that are not finite. TrainingDiverged.
        """
        rows = Outcomes.of(np.shape(inputs), outcome, lead, weights, groups, seed)
        with seeded(seed):
            model = cls(np.shape(inputs)[1:], rows.hats.shape[1], width)
        if not len(rows.outcome):
            model.card |= {"rows": 0, "held_out": 0, "warm_start": False}
            model._take("nothing", np.zeros(model.plane.shape), UNKNOWN)
            return model
        small = model._begin(finite("inputs", inputs), init)
        model.curve.copy_(torch.from_numpy(rows.curve())) if ranks else model.curve.zero_()
        rows = replace(rows, outcome=model.ranked(rows.outcome))
        model.times.copy_(torch.from_numpy(rows.times))
        model.share.zero_()
        model.smallest.fill_(SMALLEST * rows.deviation or np.finfo(float).tiny)
        model.card |= {"rows": len(rows.outcome), "held_out": int(rows.held.sum())}
        if not rows.enough:
            model._take("mean", np.zeros(model.plane.shape), rows.constant())
            return model
        seen = features(small).double().numpy()
        plane, ridge = regressed(seen, rows)
        base = rows.sizes(rows.outcome - ridge)
        if rows.held.sum() and (~rows.held).sum() >= batch:
            epochs = epochs or int(np.clip(DRAWN // len(small), *EPOCHS))
            epochs = -(-epochs // 3) if model.card["warm_start"] else epochs
            model._learn(small, (rows.outcome - ridge) / (rows.hats @ base), rows, epochs, batch, lr, seed, **settings)
        model._judge(small, plane, ridge, base, rows)
        return model

    @classmethod
    def fit_fate(cls, inputs: np.ndarray, fate: Fate, **settings: Any) -> Self:
        """Fit to what came of frames, as `frames.fate` has it.

        Args:
            inputs: (frames, ...) of all frames of that window; settings: of `fit`.
        """
        rows, weights, groups = inputs[fate.rows], fate.weight, fate.root
        return cls.fit(rows, fate.outcome, lead=fate.lead, weights=weights, groups=groups, **settings)

    def error(self, inputs: np.ndarray, fate: Fate) -> float:
        """Share of the variance of the outcomes, `ranked`, that the mean leaves, by weights: for a gate, since each fit
        ranks in its own way. 0 where nothing came of a frame yet.

        Args: as of `fit_fate`.
        """
        if not len(fate.rows):
            return 0.0
        mean, _ = self.forecast(inputs[fate.rows], fate.lead)
        outcome = self.ranked(fate.outcome)
        centre = np.average(outcome, weights=fate.weight)
        left, whole = (np.average((outcome - each) ** 2, weights=fate.weight) for each in (mean, centre))
        return float(left / whole) if whole else float(left > 0)

    def _begin(self, inputs: np.ndarray, init: Model | None) -> Tensor:
        """Take mean and scale of the inputs, and the network of `init`. Returns: the inputs relative to them."""
        shape = tuple(self.mean.shape)
        mean = sum(part.sum(0) for part in _smaller(inputs, shape)) / len(inputs)
        squares = sum(((part - mean) ** 2).sum(0) for part in _smaller(inputs, shape)) / len(inputs)
        over = tuple(range(1, len(shape)))
        size = np.sqrt(squares.mean(over, keepdims=True))
        rounding = ROUNDING * (2.0**-23 if inputs.dtype == np.float32 else 2.0**-52)
        changes = size > rounding * np.abs(mean).max(over, keepdims=True)
        self.mean.copy_(torch.from_numpy(mean))
        self.scale.copy_(torch.from_numpy(np.where(changes, size, 1.0)))
        self.warm_start(of_alike(self, init, "scale"))
        return self._relative(inputs)

    def _relative(self, inputs: np.ndarray) -> Tensor:
        """(n, ...) float32: a smaller grid, less the mean, over the scale."""
        mean, scale = self.mean.cpu(), self.scale.cpu()
        parts = [((torch.from_numpy(part) - mean) / scale).float() for part in _smaller(inputs, tuple(mean.shape))]
        return torch.cat([torch.zeros(0, *mean.shape), *parts])

    def _learn(
        self, small: Tensor, target: np.ndarray, rows: Outcomes, epochs: int, batch: int, lr: float, seed: int,
        **settings: Any,
    ) -> None:  # fmt: skip
        """Let the network learn what is left of the regression, of rows that are not held out."""
        numbers = (rows.hats, target, rows.weights)
        tensors = tuple(each[~rows.held] for each in (small, *(torch.from_numpy(n).float() for n in numbers)))
        settings = {"schedule": Schedule(decay_epochs=epochs), **settings}
        self.to(device.best())
        fit(self, tensors, _loss, epochs=epochs, batch=batch, lr=lr, seed=seed, **settings)
        self.to("cpu").eval()

    def _judge(self, small: Tensor, plane: np.ndarray, ridge: np.ndarray, base: np.ndarray, rows: Outcomes) -> None:
        """Take the network where held-out first members are more likely by it, by more than two standard errors."""
        added, held = self._added(small, rows.hats), rows.only(rows.held)
        share = held.shares(added[rows.held], (rows.outcome - ridge)[rows.held] / (held.hats @ base)) * base
        both = ridge + rows.hats @ share * added
        predictions = {"ridge": ridge[rows.held], "network": both[rows.held]}
        calibrations = {name: held.calibrated(x, base) for name, x in predictions.items()}
        density = {name: held.log_likelihood(x, calibrations[name]) for name, x in predictions.items()}
        gains = np.bincount(held.groups, held.weights * (density["network"] - density["ridge"]))
        taken = "network" if gains.sum() > 2 * math.sqrt((gains**2).sum()) else "ridge"
        if taken == "network":
            self.share.copy_(torch.from_numpy(share))
        self.card["log_likelihood"] = {n: held.mean(each) for n, each in density.items()}
        times = enumerate(rows.times.tolist())
        self.card["R2"] = {f"{time:g}": {name: held.r2(x, at) for name, x in predictions.items()} for at, time in times}
        self._take(taken, plane, calibrations["network"] if taken == "network" else rows.calibrated(ridge, base))

    def _take(self, what: str, plane: np.ndarray, calibration: np.ndarray) -> None:
        self.card["taken"] = what
        self.plane.copy_(torch.from_numpy(plane))
        self.calibration.copy_(torch.from_numpy(calibration))
        self.eval()

    @torch.no_grad()
    def _added(self, small: Tensor, hats: np.ndarray) -> np.ndarray:
        parts = zip(*(torch.split(each, TOGETHER) for each in (small, torch.from_numpy(hats).float())), strict=True)
        return torch.cat([self(*(each.to(self.device) for each in part)).cpu() for part in parts]).double().numpy()

    def ranked(self, outcome: np.ndarray | float) -> np.ndarray:
        """Outcomes as `forecast` speaks of them: their normal scores by a model that was fitted to ranks.

        Beyond those that were fitted it goes on with the mean slope.
        """
        x, z = self.curve.cpu().numpy()
        if not z.any():
            return np.asarray(outcome, float)
        beyond = outcome - np.clip(outcome, x[0], x[-1])
        return np.asarray(np.interp(outcome, x, z) + beyond * (z[-1] - z[0]) / (x[-1] - x[0]))

    def forecast(self, inputs: np.ndarray, lead: np.ndarray | float) -> tuple[np.ndarray, np.ndarray]:
        """Mean and spread of what will come of rows, `ranked`, (n,) float64 each, as of a normal distribution.

        Args:
            inputs: (n, ...) as those that were fitted.
            lead: (n,) or one for all: the time left. Beyond those that were fitted the nearest one counts.
        Raises: BadValue: rows of another shape, or values that are not finite.
        """
        hats = self._hats(inputs, lead)
        if not len(inputs):  # no Fourier transform takes none
            return np.empty(0), np.empty(0)
        small = self._relative(finite("inputs", inputs))
        plane, share, calibration = (each.cpu().numpy() for each in (self.plane, self.share, self.calibration))
        said = ((features(small).double().numpy() @ plane.T) * hats).sum(1)
        if share.any():
            said = said + hats @ share * self._added(small, hats)
        mean, spread = calibrated(said, hats @ calibration)
        return mean, np.maximum(spread, float(self.smallest))

    def gradient(self, inputs: np.ndarray, lead: np.ndarray | float) -> np.ndarray:
        """(n, ...) by how much the mean of `forecast` rises with each number of the rows: what it looks at.

        Args, Raises: as of `forecast`.
        """
        hats = torch.from_numpy(self._hats(inputs, lead))
        x = torch.from_numpy(finite("inputs", inputs).astype(float)).requires_grad_()
        mean, scale, plane, share, calibration = (
            each.cpu() for each in (self.mean, self.scale, self.plane, self.share, self.calibration)
        )
        small = (_pooled(x, tuple(mean.shape)) - mean) / scale
        said = ((features(small) @ plane.T) * hats).sum(1) + hats @ share * self(small.float(), hats.float())
        return torch.autograd.grad((said * (hats @ calibration)[:, 1]).sum(), x)[0].numpy()

    def _hats(self, inputs: np.ndarray, lead: np.ndarray | float) -> np.ndarray:
        """(n, L), see `hats_of`. Raises: BadValue: see `forecast`."""
        shape = tuple(self.config["shape"])
        if np.shape(inputs)[1:] != shape:
            raise BadValue("shape", np.shape(inputs), f"the model was built for rows of {shape}")
        return hats_of(finite("lead", np.broadcast_to(lead, len(inputs))), self.times.cpu().numpy())


def features(small: Tensor) -> Tensor:
    """(n, K) what the regression sees of relative inputs (n, ...): a vector, or the long waves of fields; and 1."""
    if small.ndim == 4:
        belts = functional.adaptive_avg_pool2d(small, (min(small.shape[2], BELTS), small.shape[3]))
        waves = torch.fft.rfft(belts, dim=3, norm="forward")[..., : WAVES + 1]
        small = torch.cat((waves.real, waves.imag[..., 1:]), 3)
    return torch.cat((small.flatten(1), small.new_ones(len(small), 1)), 1)


def _loss(model: Outlook, small: Tensor, hats: Tensor, target: Tensor, weight: Tensor) -> dict[str, Tensor]:
    return {"loss": (weight * (model(small, hats) - target) ** 2).mean()}


def _rings(variables: int, rows: int, columns: int, width: int) -> nn.Sequential:
    """Latitudes are channels, convolutions go around in longitude, and few channels are read out where they are."""

    def ring(inputs: int) -> nn.Conv1d:
        return nn.Conv1d(inputs, width, 2 * around + 1, padding=around, padding_mode="circular")

    around, halved = min(2, (columns - 1) // 2), -(-columns // 2)
    return nn.Sequential(
        nn.Dropout(UNSEEN), nn.Flatten(1, 2), ring(variables * rows), nn.AdaptiveAvgPool1d(halved), nn.GELU(),
        ring(width), nn.GELU(), nn.Conv1d(width, READ, 1), nn.Flatten(1), nn.Dropout(DROPPED),
        nn.Linear(READ * halved, width),
    )  # fmt: skip


def _smaller(inputs: np.ndarray, shape: Sequence[int]) -> Iterator[np.ndarray]:
    """Float64 (some rows, *shape): fields averaged to a smaller grid."""
    for first in range(0, len(inputs), TOGETHER):
        yield _pooled(torch.from_numpy(np.asarray(inputs[first : first + TOGETHER], float)), shape).numpy()


def _pooled(part: Tensor, shape: Sequence[int]) -> Tensor:
    return part if part.shape[1:] == tuple(shape) else functional.adaptive_avg_pool2d(part, (shape[1], shape[2]))
