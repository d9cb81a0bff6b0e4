"""Fields after a coarse solver's step -> what a finer solver would have made of them."""

from __future__ import annotations

from typing import Any, Protocol, Self

import numpy as np
from torch import Tensor

from steersman.models.networks.unet import SphericalUNet


class Solver(Protocol):
    """Fields (B, C, H, W) -> fields a step later, through which gradients go; settings, by which it is known."""

    settings: dict[str, Any]

    def __call__(self, fields: Tensor) -> Tensor: ...


class Corrector(SphericalUNet):
    """A network that makes good what a coarse solver does wrong in a step.

        solver = sw.Coarse(21)
        model = models.Corrector.fit(solver.seen(runs), step=solver, kept=(0,))
        for frame in sw.run(start, seed=1, days=6, truncation=21, corrector=model): ...

    Args:
        solver: the settings of what it corrects; another one is refused.
        width: see SphericalUNet; narrow, for it is to cost less than the solver's step.
        laws: what the flow keeps, see Forecaster. A spectral solver cuts off by itself what it cannot hold.
    Source: Um, Brand, Fei, Holl and Thuerey (2020), Solver-in-the-loop, arXiv 2007.00016; Kochkov et al. (2021), PNAS
        118, e2101784118.
    """

    def __init__(self, channels: int, latitudes: int, *, solver: dict[str, Any], width: int = 16, **laws: Any) -> None:
        super().__init__(channels, latitudes, width=width, solver=solver, **laws)

    @classmethod
    def fit(cls, runs: np.ndarray, *, step: Solver, **fitting: Any) -> Self:  # type: ignore[override]
        """Fit to runs of a finer solver that `step` makes steps of, see Forecaster.fit."""
        return super().fit(runs, step=step, solver=step.settings, **fitting)
