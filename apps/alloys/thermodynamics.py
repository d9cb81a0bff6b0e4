"""Energies of configurations and their weights -> heat capacity, order, and where an alloy orders.

Axes: ... replicates, m audits, T temperatures.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from steersman.steering.audits import Corrected, audited, corrected
from steersman.steering.errors import AuditsRefused

K_EV = 8.617333262e-5  # Boltzmann's constant, eV/K
TEMPERATURES_K = np.arange(100.0, 1001.0, 2.0)
FEWEST_EFFECTIVE = 20.0  # audits that count at the transition

Values = Mapping[str, Any]


def moments(
    weights: np.ndarray, energies: np.ndarray, temperatures_K: np.ndarray, of: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Heat capacity C/k, and the mean of a quantity, (..., T) each.

    Args:
        weights: (..., m) of configurations, in the ensemble of all.
        energies: (m,) eV.
        of: (m,) the quantity; None: the energy.
    """
    e = energies - energies.min()
    beta = 1 / (K_EV * temperatures_K)
    factor = np.exp(-np.outer(e, beta))
    z = weights @ factor
    mean, square = (weights @ (e[:, None] ** power * factor) / z for power in (1, 2))
    quantity = weights @ ((energies if of is None else of)[:, None] * factor) / z
    return (square - mean**2) * beta**2, quantity


def peak(heat_capacity: np.ndarray, temperatures_K: np.ndarray = TEMPERATURES_K) -> np.ndarray:
    """(...,) K: where the heat capacity (..., T) is highest, between the even temperatures by a parabola."""
    at = np.clip(heat_capacity.argmax(-1), 1, len(temperatures_K) - 2)
    low, high, right = (np.take_along_axis(heat_capacity, (at + k)[..., None], -1)[..., 0] for k in (-1, 0, 1))
    bend = low - 2 * high + right
    shift = np.where(bend < 0, (low - right) / np.where(bend < 0, 2 * bend, 1.0), 0.0)
    return np.asarray(temperatures_K[at] + np.clip(shift, -1, 1) * (temperatures_K[1] - temperatures_K[0]))


def transition(values: Values) -> Corrected:
    """Temperature at which the heat capacity is highest, K, with its interval, from audits.

    Args:
        values: scores as `judged` gives them.
    Raises: AuditsRefused: as `corrected`; at this temperature fewer than 20 audits count, or there is no peak between
        100 and 1,000 K.
    """
    used = audited(values)
    energies = np.asarray(values["truth"], float)[used]

    def answer(weights: np.ndarray) -> np.ndarray:
        at = peak(moments(weights, energies, TEMPERATURES_K)[0])
        counts = weights * np.exp(-(energies - energies.min()) / (K_EV * at[..., None]))
        return np.stack([at, counts.sum(-1) ** 2 / (counts**2).sum(-1)], -1)

    highest = corrected(values, answer)
    at, effective = highest.value
    if effective < FEWEST_EFFECTIVE:
        few = f"at {at:.0f} K the weights are those of {effective:.1f} audits"
        raise AuditsRefused(few, f"{FEWEST_EFFECTIVE:g} or more, or a better surrogate")
    if not TEMPERATURES_K[1] < at < TEMPERATURES_K[-2]:
        raise AuditsRefused(f"the heat capacity is highest at {at:.0f} K, the end of the range", "a peak within it")
    return Corrected(at, highest.low[0], highest.high[0], highest.audits)


def width_K(values: Values) -> float:
    """Width of the interval of `transition`; as long as that is refused, of all temperatures that it looks at."""
    try:
        highest = transition(values)
    except AuditsRefused:
        return float(TEMPERATURES_K[-1] - TEMPERATURES_K[0])
    return float(highest.high - highest.low)
