"""What drives and damps a flow with a climate, over one step: relaxation taken exactly, and noise of vorticity."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch

from steersman.apps.shallow_water.cases import DAY, Climate
from steersman.models.sphere.harmonics import SphericalHarmonics


class Forcing:
    """Relaxation to a state, and random vorticity in a band of total wavenumbers, white in time.

    Args:
        rest: (order, degree - order, columns) complex: what the flow relaxes to, of one member.
    """

    def __init__(self, sphere: SphericalHarmonics, climate: Climate, rest: torch.Tensor, step_s: float) -> None:
        days = np.where(sphere.order == 0, climate.mean_days, climate.eddy_days) + np.zeros(sphere.degree.shape)
        rates = np.stack([1 / (DAY * days)] * rest.shape[2], 2)
        rates[:, :, 1] += 1 / (3600 * climate.divergence_hours)
        kept = torch.as_tensor(np.exp(-step_s * rates), dtype=sphere.dtype, device=sphere.device)[..., None]
        self._kept, self._pull = kept, rest[..., None] * (1 - kept)
        first, last = climate.degrees
        noise = sphere.noise(first, last)
        inside = np.nonzero(noise[0])
        self._order, self._place = (torch.as_tensor(each, device=sphere.device) for each in inside)
        self._spread = climate.stirring * math.sqrt(step_s / DAY) * np.stack([part[inside] for part in noise], 1)

    def __call__(self, state: torch.Tensor, generators: Sequence[np.random.Generator]) -> torch.Tensor:
        """The state of all members after what happens to it in a step; each member's noise is of its own generator."""
        members = torch.unflatten(state, 2, (-1, len(generators)))
        members = torch.addcmul(self._pull, self._kept, members)
        noise = np.stack([each.standard_normal(self._spread.shape) for each in generators], 1) * self._spread[:, None]
        drawn = torch.view_as_complex(torch.as_tensor(noise)).to(members)
        members[self._order, self._place, 0] += drawn
        return members.flatten(2)
