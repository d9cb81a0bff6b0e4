"""Shallow water on a GPU: wall time of a simulated day, with few members and many, kernel by kernel and as a graph."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

import torch

from steersman.apps.shallow_water import ShallowWater
from steersman.apps.shallow_water.cases import DAY
from steersman.benchmarks.three_figures import rounded

TRUNCATIONS, MEMBERS = (42, 85, 170), (1, 8, 64, 256)
STEPS, TURNS = 20, 5

Maker = Callable[[int], tuple[ShallowWater, torch.Tensor]]


def table(make: Maker, truncations: Sequence[int] = TRUNCATIONS, members: Sequence[int] = MEMBERS) -> list[Any]:
    """A row for each truncation and number of members.

    Args:
        make: a model of a truncation, and the state of one member.
    Returns: rows with `ms_per_day`, of one member; `launched_ms_per_day`: kernel by kernel, which is the same where a
        graph is not thought to pay.
    """
    return [row(*make(truncation), count) for truncation in truncations for count in members]


def row(model: ShallowWater, state: torch.Tensor, members: int) -> dict[str, Any]:
    """Both ways in turns, after a turn that does not count: the median."""
    many = state.repeat_interleave(members, dim=2)
    ways = {"ms_per_day": model.step, "launched_ms_per_day": model.scheme.launched}
    turns = [{name: seconds(step, many) for name, step in ways.items()} for _ in range(TURNS + 1)][1:]
    steps = DAY / model.step_s / members
    found = {name: rounded(1e3 * steps * median(turn[name] for turn in turns)) for name in ways}
    return {"truncation": model.sphere.truncation, "members": members, **found}


def seconds(step: Callable[[torch.Tensor], torch.Tensor], state: torch.Tensor) -> float:
    """Wall seconds of a step, until all that was asked of the device is done."""
    device = torch.get_device_module(state.device)
    device.synchronize()
    begun = time.perf_counter()
    for _ in range(STEPS):
        state = step(state)
    device.synchronize()
    return (time.perf_counter() - begun) / STEPS
