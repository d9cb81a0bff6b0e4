"""Measured seconds -> seconds on more ranks: T(p) = A / p + S(p), a model, no measurement.

A is the computing of an epoch on one rank. S(p) = syncs (latency log2 p + bandwidth (p - 1) / p) is its exchange:
messages of an allreduce one after another, and the share of the bytes that a rank must send.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import log2
from typing import Any

import numpy as np

PAPER = {1_500: 0.75, 10_000: 0.35}  # efficiency of DeepEx (Yoginath et al.) by GPUs of Summit
PREDICTED = (2, 4, 8, 64, 1_500, 10_000, 15_000)


@dataclass(frozen=True)
class CostModel:
    """Seconds of an epoch by the number of ranks.

    Attributes:
        compute_s: A, seconds.
        latency_s, bandwidth_s: of one synchronisation, see above.
        syncs: synchronisations an epoch.
    """

    compute_s: float
    latency_s: float
    bandwidth_s: float
    syncs: int = 1

    @classmethod
    def fitted(cls, compute_s: float, allreduce_s: Mapping[int, float], syncs: int = 1) -> CostModel:
        """Fit to one allreduce's seconds by ranks, by least squares; a term that would be negative is left out."""
        ranks = np.array(sorted(allreduce_s))
        terms, seconds = _terms(ranks), np.array([allreduce_s[p] for p in ranks])
        latency, bandwidth = np.linalg.lstsq(terms, seconds)[0]
        if latency < 0 or bandwidth < 0:
            alone = [max(0.0, float(term @ seconds / (term @ term))) for term in terms.T]
            misfit = [float(np.sum((seconds - each * term) ** 2)) for each, term in zip(alone, terms.T, strict=True)]
            latency, bandwidth = (alone[0], 0.0) if misfit[0] < misfit[1] else (0.0, alone[1])
        return cls(compute_s, float(latency), float(bandwidth), syncs)

    def seconds(self, ranks: int) -> float:
        """T(p), seconds."""
        latency, bandwidth = _terms(np.array([ranks]))[0] * [self.latency_s, self.bandwidth_s]
        return self.compute_s / ranks + self.syncs * float(latency + bandwidth)

    def efficiency(self, ranks: int) -> float:
        """T(1) / (p T(p)), 0..1."""
        return self.seconds(1) / (ranks * self.seconds(ranks))


def summary(model: CostModel, allreduce_s: Mapping[int, float]) -> dict[str, Any]:
    """Give the model, what it was fitted to, and its prediction beside the paper's figures."""
    return {
        "label": "model, not measured: T(p) = A/p + S(p)",
        "compute_s": round(model.compute_s, 4),
        "latency_s": round(model.latency_s, 6),
        "bandwidth_s": round(model.bandwidth_s, 6),
        "allreduce_s": {str(p): round(seconds, 6) for p, seconds in allreduce_s.items()},
        "efficiency": {str(p): round(model.efficiency(p), 5) for p in PREDICTED},
        "paper_efficiency": {str(p): share for p, share in PAPER.items()},
        "from_the_paper_s_first_figure": {
            name: {str(p): round(from_first(p, grows), 3) for p in (10_000, 15_000)}
            for name, grows in (("S constant", False), ("S grows as log2 p", True))
        },
    }


def from_first(ranks: int, grows: bool) -> float:
    """Predict the paper's efficiency on more GPUs from its first figure, with S constant or growing as log2 p."""
    first = min(PAPER)
    exchange = (1 / PAPER[first] - 1) / first  # S / A
    return 1 / (1 + ranks * exchange * (log2(ranks) / log2(first) if grows else 1))


def _terms(ranks: np.ndarray) -> np.ndarray:
    """(ranks, 2): log2 p and (p - 1) / p."""
    return np.stack([np.log2(ranks), (ranks - 1) / ranks], axis=1)
