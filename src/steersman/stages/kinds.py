"""Kinds of stages, and what is kept of a simulate, train or score stage: its function, and how it is run."""

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


@dataclass(frozen=True)
class Kind:
    """What `@wf.<kind>` decorates.

    Args:
        kept: attribute of the workflow with the stage, or with all of this kind by their names.
        arguments: what the function is called with; None: whatever its caller gives.
        may_differ: it comes after the loop, or shows it: a run that has its frames may get another one.
    """

    kept: str
    arguments: tuple[str, ...] | None
    may_differ: bool = False


KINDS = {
    "prepare": Kind("prepare_function", ("params",)),
    "task": Kind("tasks", None, may_differ=True),
    "before": Kind("before_plan", ("params",)),
    "after": Kind("after_plan", ("params", "run"), may_differ=True),
    "held_out": Kind("held_out_function", ("params",)),
    "simulate": Kind("simulation", ("params", "start", "out")),
    "train": Kind("training", ("params", "frames", "last")),
    "score": Kind("scoring", ("params", "model", "frames")),
    "metric": Kind("metrics", ("scores",)),
    "yardstick": Kind("yardsticks", ("params", "frames"), may_differ=True),
    "figure": Kind("figures", ("params", "results"), may_differ=True),
    "panel": Kind("panels", ("params", "results"), may_differ=True),
}
