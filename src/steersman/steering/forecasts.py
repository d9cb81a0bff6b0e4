"""Forecast probabilities, and what happened -> how reliable they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from steersman.steering.audits import clopper_pearson

EDGES = (0.0, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)


class Reliability(NamedTuple):
    """Of forecasts whose probability lies in a bin, `first` to `last`: the mean of the probabilities, the frequency
    of the event, and its interval of 95 %, `low` to `high`; of `number` forecasts, if all counted alike."""

    first: float
    last: float
    forecast: float
    frequency: float
    low: float
    high: float
    number: float


def reliability(
    probability: np.ndarray, happened: np.ndarray, weights: np.ndarray | None = None, edges: Sequence[float] = EDGES
) -> list[Reliability]:
    """Compare forecast probabilities with how often the event happened, in bins that have a forecast.

    Args:
        probability, happened: (n,) from 0 to 1, and bool. The interval takes them for independent.
        weights: (n,) >= 0; None: all count alike.
        edges: of the bins, ascending from 0 to 1.
    Raises: ValueError: arrays of several lengths, or probabilities that are none.
    Source: Broecker and Smith (2007), Increasing the reliability of reliability diagrams.
    """
    q = np.asarray(probability, float)
    yes, weight = np.asarray(happened, bool), np.ones(q.shape) if weights is None else np.asarray(weights, float)
    if q.ndim != 1 or not q.shape == yes.shape == weight.shape or not ((q >= 0) & (q <= 1)).all():
        raise ValueError(
            f"reliability: {q.shape} probabilities from 0 to 1, {yes.shape} events, {weight.shape} weights"
        )
    place, bins = np.clip(np.digitize(q, edges) - 1, 0, len(edges) - 2), []
    for at in np.unique(place[weight > 0]).tolist():
        mine = place == at
        total = weight[mine].sum()
        count = float(total**2 / (weight[mine] ** 2).sum())
        frequency = min(float(weight[mine] @ yes[mine] / total), 1.0)  # the two sums may differ by a rounding
        low, high = clopper_pearson(frequency * count, count)
        forecast = float(weight[mine] @ q[mine] / total)
        bins.append(Reliability(edges[at], edges[at + 1], forecast, frequency, float(low), float(high), count))
    return bins
