"""Seed of a run -> the random numbers of its n-th start, or of a stage: they depend on seed and n alone, so a resumed
run agrees."""

from __future__ import annotations

import numpy as np

_STARTS, _DECISIONS, _LABELS, _POINTS, _CALLS = 0, 1, 6, 7, 8
_STAGES = {"prepare": 2, "train": 3, "score": 4, "label": 5, "held_out": 9}


def start_seed(seed: int, number: int) -> int:
    """Give the 63-bit seed of the n-th start."""
    return int(_rng(seed, _STARTS, number).integers(1, 2**63 - 1))


def stage_seed(seed: int, stage: str, version: int = 0) -> int:
    """Give the 63-bit seed of what prepare, or train or score of a version of the model, or what is drawn to be held
    out, draw from the process."""
    return int(_rng(seed, _STAGES[stage], version).integers(1, 2**63 - 1))


def call_seed(seed: int, key: str) -> int:
    """Give the 63-bit seed of what a call of a task, by the SHA-256 that is its key, draws from the process."""
    return int(_rng(seed, _CALLS, int(key, 16)).integers(1, 2**63 - 1))


def decision_rng(seed: int, number: int) -> np.random.Generator:
    """Give the random numbers that the choice of the n-th start depends on."""
    return _rng(seed, _DECISIONS, number)


def label_rng(seed: int, number: int) -> np.random.Generator:
    """Give the random numbers that the choice of the n-th label, and of those asked for with it, depends on."""
    return _rng(seed, _LABELS, number)


def point_rng(seed: int) -> np.random.Generator:
    """Give the random numbers of a start's point; its simulation draws others from the same seed."""
    return _rng(seed, _POINTS, 0)


def _rng(seed: int, stream: int, number: int) -> np.random.Generator:
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(stream, number)))
