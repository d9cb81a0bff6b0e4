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
        model = models.Corrector.fit(solver.seen(runs), step=solver, solver=solver.settings, kept=(0,))

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
        self._model = self._on(rows_for_networks(truncation))
        self._steps = round(hours * 3600 / self._model.step_s)
        self.settings = made_of(self._model, case, hours)

    def __call__(self, fields: torch.Tensor) -> torch.Tensor:
        """Fields (B, 3, latitude, longitude) float32, m and m/s, a step later."""
        state = self._model.of_together(fields)
        for _ in range(self._steps):
            state = self._model.step(state)
        return self._model.together(state)

    def seen(self, runs: np.ndarray) -> np.ndarray:
        """What of runs (n, times, 3, latitude, longitude) of a finer solver this one can hold, on its own grid."""
        fine = self._on(runs.shape[3])
        held = [self._model.together(fine.of_together(torch.from_numpy(run))).numpy() for run in runs]
        return np.stack(held)

    def _on(self, rows: int) -> ShallowWater:
        model, _ = solver_of(**self._made, rows=rows, scheme=PlainScheme)
        if not isinstance(model, ShallowWater):
            raise BadValue("case", self._made["case"], "give one whose wind is not prescribed")
        return model
