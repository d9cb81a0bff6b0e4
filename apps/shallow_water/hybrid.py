"""A coarse solver through which gradients go: what a network that corrects its steps is trained with."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from steersman.apps.shallow_water.plain_scheme import PlainScheme
from steersman.apps.shallow_water.solver import ShallowWater, made_of, rows_for_networks, solver_of
from steersman.system.errors import BadValue


class Coarse:
    """Height, u and v on the smallest grid that networks take -> the same some hours later.

        solver = Coarse(21)
        model = models.Corrector.fit(solver.seen(runs), step=solver, kept=(0,))

    Args:
        truncation: of the solver, below that of the runs that a network learns from.
        case, diffusion_hours: see `run_members`.
        hours: of a step, and of a report of a run that is corrected.
    Attributes:
        settings: what a Corrector is told of its solver, so that a run with another one is refused.
    Raises: BadInput, UnknownName: as `run`.
    """

    def __init__(
        self, truncation: int, *, case: str = "jet", hours: float = 6.0, diffusion_hours: float | None = 12.0
    ) -> None:
        self._made: dict[str, Any] = {
            "case": case,
            "truncation": truncation,
            "report_hours": hours,
            "diffusion_hours": diffusion_hours,
        }
        self._rows = rows_for_networks(truncation)
        self.settings = made_of(self._on(self._rows), case, hours)

    def __call__(self, fields: torch.Tensor) -> torch.Tensor:
        """Fields (B, 3, latitude, longitude) float32, m and m/s, a step later."""
        model = self._on(self._rows, str(fields.device))
        state = model.of_together(fields)
        for _ in range(round(self._made["report_hours"] * 3600 / model.step_s)):
            state = model.step(state)
        return model.together(state)

    def seen(self, runs: np.ndarray) -> np.ndarray:
        """What of runs (n, times, 3, latitude, longitude) of a finer solver this one can hold, on its own grid."""
        own, fine = self._on(self._rows), self._on(runs.shape[3])
        return np.stack([own.together(fine.of_together(torch.from_numpy(run))).numpy() for run in runs])

    def _on(self, rows: int, device: str = "cpu") -> ShallowWater:
        model, beginning = solver_of(**self._made, rows=rows, device=device, scheme=PlainScheme)
        if not isinstance(model, ShallowWater) or beginning.climate:
            raise BadValue("case", self._made["case"], "give one that nothing drives, and whose wind is not prescribed")
        return model
