"""A point of the unit cube -> what a network sees of a flow, and the class of every pixel by the rule.

The rule looks at the flow itself. A network looks at an observation: no waves shorter than a truncation of 21, and with
errors.

Axes: C channels, H latitudes from the north, W longitudes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from steersman.apps.shallow_water.cases import DAY, GRAVITY, MEAN_DEPTH
from steersman.apps.shallow_water.solver import latitudes, longitudes
from steersman.apps.storms import rule
from steersman.apps.storms.flow import STEP_S, Conditions, MoistFlow
from steersman.store import Variable
from steersman.system.errors import UnknownName

SEEN = 21  # truncation of an observation
ERRORS = 8e-6, 3e-6, GRAVITY * 20.0, GRAVITY * MEAN_DEPTH * 1.0  # 1/s, 1/s, of 20 m, of 1 g/kg
# of each channel: what is taken off it, and what it is divided by, to give numbers near -1 to 1
CHANNELS = {
    "height": (MEAN_DEPTH, 400.0), "u": (0.0, 40.0), "v": (0.0, 20.0), "vorticity": (0.0, 4e-5),
    "divergence": (0.0, 1e-5), "humidity": (6.0, 6.0), "flux": (0.0, 100.0),
}  # fmt: skip
CHOICES = {"all": tuple(CHANNELS), "indirect": ("u", "v", "divergence", "humidity")}

VARIABLES = {
    "observed": Variable(("channel", "lat", "lon"), "1", f"observed {', '.join(CHANNELS)}"),
    "mask": Variable(("lat", "lon"), "1", "class by the rule on the flow: background, cyclone, river"),
    "ruled": Variable(("lat", "lon"), "1", "class by the rule on what was observed"),
    "point": Variable(("parameter",), "1", "speeds and latitudes of the jets, source, days, from 0 to 1"),
    "lat": Variable((), "degrees_north", "latitude", latitudes),
    "lon": Variable((), "degrees_east", "longitude", longitudes),
}


def run(point: Sequence[float] | np.ndarray, seed: int) -> dict[str, np.ndarray]:
    """Simulate a flow and look at it once.

    Args:
        point: (6,) from 0 to 1, see `Conditions`.
        seed: of the heights that set the jets rolling, and of the errors.
    Returns: `observed` (7, 64, 128) float32 in the order of CHANNELS, SI units and g/kg; `mask` (64, 128) uint8, places
        in rule.CLASSES; `ruled`, the same by the rule on what was observed; `point`.
    Raises: BadValue: see `Conditions.of`.
    """
    conditions = Conditions.of(point)
    flow = MoistFlow(conditions)
    state = flow.begin(seed)
    for _ in range(round(conditions.days * DAY / STEP_S)):
        state = flow.step(state)
    observed = channels(flow, blurred(flow, state, np.random.default_rng((seed, 1))))
    fields = {"mask": ruled(channels(flow, state)), "ruled": ruled(observed)}
    return fields | {"observed": observed, "point": np.asarray(point, np.float64)}


def channels(flow: MoistFlow, state: torch.Tensor) -> np.ndarray:
    """(7, H, W) float32: the fields of a state in the order of CHANNELS."""
    shown = flow.water.shown(state)
    divergence = flow.sphere.synthesis(state[:, :, 1:2])
    fields = shown | {"divergence": divergence, "humidity": shown["tracer"], "flux": shown["tracer"] * shown["v"]}
    return torch.cat([fields[name] for name in CHANNELS]).to(torch.float32).numpy()


def blurred(flow: MoistFlow, state: torch.Tensor, rng: np.random.Generator) -> torch.Tensor:
    """The state without its shorter waves, and with errors of the same size at all longer ones."""
    sphere = flow.sphere
    spread = sphere.noise(1, SEEN)
    real, imaginary = rng.normal(size=(*spread.shape, 4)) * spread[..., None]
    errors = torch.as_tensor((real + 1j * imaginary) * ERRORS, dtype=state.dtype)
    return state * sphere.coefficients(sphere.degree <= SEEN) + errors


def ruled(fields_CHW: np.ndarray, strength: float = 1.0) -> np.ndarray:
    """Apply the rule to fields in the order of CHANNELS: (H, W) uint8."""
    named = dict(zip(CHANNELS, fields_CHW, strict=True))
    return rule.classes(named["height"], named["vorticity"], named["flux"], strength)


def seen(observed_nCHW: np.ndarray, choice: str = "all") -> np.ndarray:
    """Observations -> what a network takes: (n, channels, H, W) float32 near -1 to 1.

    Args:
        choice: "all" channels, or "indirect": without height, vorticity and flux, of which the rule is made.
    Raises: UnknownName: neither of them.
    """
    if choice not in CHOICES:
        raise UnknownName("channels", choice, CHOICES)
    places = [list(CHANNELS).index(name) for name in CHOICES[choice]]
    offset, scale = np.array([CHANNELS[name] for name in CHOICES[choice]], np.float32).T[..., None, None]
    return np.asarray((observed_nCHW[:, places] - offset) / scale, np.float32)
