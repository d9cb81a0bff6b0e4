"""A point of the unit cube -> a moist flow: two jets of shallow water that roll up, and the humidity they stir.

Humidity is the solver's tracer, which goes with the water and is kept. The sea adds to it, rain takes from it; the flow
does not feel either. A cold column is thin, so it holds less: humidity is limited by the height of the surface.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from steersman.apps.points import checked, scaled
from steersman.apps.shallow_water.cases import DAY, GRAVITY, MEAN_DEPTH, Case, jet
from steersman.apps.shallow_water.solver import ShallowWater
from steersman.models.sphere.harmonics import SphericalHarmonics

TRUNCATION, STEP_S, DIFFUSION_HOURS = 42, 1800.0, 6.0
BUMP_M = 40.0  # spread of the smooth random heights that set the jets rolling
SPEED, LATITUDE, SOURCE_DAYS, DAYS = (55.0, 90.0), (38.0, 50.0), (1.0, 8.0), (4.0, 9.0)
MOIST, MOIST_DEG = 18.0, 30.0  # g/kg over the sea at the equator; degrees in which that falls to 1/e
WARM_M, FALL_M = 10_150.0, 400.0  # height at which a column holds MOIST; metres in which that falls to 1/e
RAIN_S = 3 * 3600.0  # in which what is too much rains out
DIMENSIONS = 6


@dataclass(frozen=True)
class Conditions:
    """What flow, and when it is looked at.

    Args:
        speeds: of the northern and the southern jet, m/s.
        latitudes: of their middles, degrees towards their poles.
        source_days: in which the sea makes the air above it as moist as it can.
        days: after which the flow is looked at.
    """

    speeds: tuple[float, float]
    latitudes: tuple[float, float]
    source_days: float
    days: float

    @classmethod
    def of(cls, point: Sequence[float] | np.ndarray) -> Conditions:
        """Take conditions from a point (6,) from 0 to 1.

        Its numbers are speed and latitude of the northern jet, of the southern jet, days of the source, days.

        Raises: BadValue: another number of parameters, or one outside 0 to 1.
        """
        ranges = (SPEED, LATITUDE, SPEED, LATITUDE, SOURCE_DAYS, DAYS)
        a, b, c, d, source, days = scaled(checked(point, DIMENSIONS), ranges)
        return cls((a, c), (b, d), source, days)


class MoistFlow:
    """Shallow water with humidity, of which the sea is the source and rain the sink.

    A state is that of `ShallowWater` with a tracer in g/kg.

    Args:
        conditions: all but their days.
        dtype: of the state.
    """

    def __init__(self, conditions: Conditions, dtype: torch.dtype = torch.float32) -> None:
        self.sphere = _sphere(dtype)
        lon, lat = np.meshgrid(self.sphere.longitudes, self.sphere.latitudes)
        self._sea = torch.as_tensor(MOIST * np.exp(-((np.degrees(lat) / MOIST_DEG) ** 2)), dtype=dtype)
        self._source = STEP_S / (DAY * conditions.source_days)
        self.case = two_jets(lat, lon, conditions)
        self.water = ShallowWater(self.sphere, self.case, step_s=STEP_S, diffusion_hours=DIFFUSION_HOURS)

    def begin(self, seed: int) -> torch.Tensor:
        """The state on day 0: two balanced jets, and smooth random heights."""
        return self.water.spectral(self.case) + self.water.bump(np.random.default_rng(seed), BUMP_M)

    def step(self, state: torch.Tensor) -> torch.Tensor:
        """The state 1800 s later."""
        moved = self.water.step(state)
        gained, lost = self.exchanged(moved)
        moved[:, :, 3:] += self.sphere.analysis(gained - lost) * self.sphere.inside
        return moved

    def exchanged(self, state: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """What the sea gives in a step and what rains, (1, H, W) each, as geopotential times humidity."""
        geopotential, amount = self.sphere.synthesis(state[:, :, 2:4])[:, None]
        humidity = amount / geopotential
        most = MOIST * torch.exp((geopotential / GRAVITY - WARM_M) / FALL_M)
        gained = self._source * (self._sea - humidity).clamp(min=0)
        lost = STEP_S / RAIN_S * (humidity - most).clamp(min=0)
        return geopotential * gained, geopotential * lost


def two_jets(lat: np.ndarray, lon: np.ndarray, conditions: Conditions) -> Case:
    """A balanced jet in each hemisphere, of the family of Galewsky et al., over air as moist as the sea below."""
    north, south = (
        jet(side * lat, lon, np.array([(speed - 80) / 8, (place - 45) / 4, 0, 0, 0, 0, 0, 0]), bump=0.0)
        for side, speed, place in zip((1, -1), conditions.speeds, conditions.latitudes, strict=True)
    )
    moist = MOIST * np.exp(-((np.degrees(lat) / MOIST_DEG) ** 2))
    depth = north.depth + south.depth - MEAN_DEPTH
    return Case(north.u + south.u, north.v, depth, north.orography, north.coriolis, tracer=moist)


@functools.lru_cache(maxsize=2)
def _sphere(dtype: torch.dtype) -> SphericalHarmonics:
    torch.set_num_threads(1)
    return SphericalHarmonics(TRUNCATION, dtype=dtype)
