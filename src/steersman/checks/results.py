"""Figures and panels of a workflow file, made of a few frames."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from steersman.steering import Scores
from steersman.store import Window


@dataclass(frozen=True)
class TriedResults:
    """What they are made of, as of a run that has ended."""

    scores: Scores
    model: Any
    held_out: Window

    def frame(self, index: int) -> dict[str, np.ndarray]:
        return {name: self.held_out[name][index] for name in self.held_out}


def shown(made: Any, check: Callable[[Any], tuple[Any, str]]) -> str:
    """What came of a figure or a panel. Raises: as its check, `drawn` or `shown` of `stages.panel`."""
    if made is None:
        return "nothing to show yet"
    view, caption = check(made)
    if isinstance(view, np.ndarray):
        return f"an array of {view.shape}"
    view.savefig(io.BytesIO(), format="svg")
    return caption or "a figure"


def scores(rows: int, values: Mapping[str, np.ndarray], model: int) -> Scores:
    """Of the frames of one ended segment; in a weighted ensemble it is the only member of round 1."""
    row, zeros, ones = np.arange(rows, dtype=np.int32), np.zeros(rows, np.int32), np.ones(rows, np.int32)
    return Scores(
        zeros, row, zeros, zeros, row == rows - 1, values, model, weight=ones.astype(float), round=ones,
        held_out=row % 2 == 0,
    )  # fmt: skip
