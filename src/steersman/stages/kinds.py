"""What a decorator keeps of a simulate, train or score stage: its function, and how it is run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from steersman.store import Variable

HANG_S = 600.0  # a frame, or a batch of scores, takes less
TRAINING_HANG_S = 24 * 3600.0  # a training takes less


@dataclass(frozen=True)
class Simulate:
    function: Callable[..., None]
    gpus: int = 0
    retries: int = 2
    variables: Mapping[str, Variable] = field(default_factory=dict)
    hang_s: float = HANG_S
    exact: bool | None = None


Gate = str | Callable[[Any, Any], float]


@dataclass(frozen=True)
class Train:
    function: Callable[..., Any]
    when: Any
    gpus: int = 0
    window: int = 100_000
    gate: Gate = "error"
    hang_s: float = TRAINING_HANG_S
    ranks: int = 1
    strategy: str = "single"


@dataclass(frozen=True)
class Score:
    function: Callable[..., Mapping[str, Any]]
    batch: int = 16_384
    hang_s: float = HANG_S
    early: bool = False
