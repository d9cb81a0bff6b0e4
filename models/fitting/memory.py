"""A network, its loss, data -> the largest batch that a memory cap allows; what is said of one that is too large."""

from __future__ import annotations

import copy
import ctypes
import gc
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from steersman.models import device
from steersman.models.errors import OutOfMemory
from steersman.models.model import Model
from steersman.models.steps import optimizers
from steersman.models.steps.precision import Precision

CLOSE = 16  # the batch that is found may be a sixteenth too small
STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


@contextmanager
def watched(batch: int) -> Iterator[None]:
    """Raise OutOfMemory in place of torch's errors when there is no memory."""
    try:
        yield
    except (torch.OutOfMemoryError, MemoryError) as error:
        raise OutOfMemory(batch, str(error).splitlines()[0] if str(error) else "no memory") from error
    except RuntimeError as error:
        if "allocate memory" not in str(error):
            raise
        raise OutOfMemory(batch, str(error).splitlines()[0]) from error


def largest_batch(
    model: Model,
    data: Tensor,
    loss: Callable[[Any, Tensor], dict[str, Tensor]],
    *,
    memory_bytes: int,
    optimizer: str = "adam",
    precision: str = "fp32",
) -> int:
    """Find the largest batch whose training step stays within a memory cap, by taking steps on a copy of the network.

    The batch at most doubles from one step to the next, and goes no further than a straight line through the last two
    peaks says, so that the cap is not exceeded by more than its curvature.

    Args:
        data: (n, ...), samples to take steps on; no larger batch than n is tried.
        memory_bytes: on a CPU the most that this process may have resident, all that it holds already included; on a
            GPU the most that torch may have allocated on it.
        optimizer, precision: as of `fit`.
    Returns: samples per step, at most a sixteenth below the largest.
    Raises: OutOfMemory: not even one sample fits.
    """

    def peak(batch: int) -> float:
        try:
            with watched(batch), device.forked():
                return peak_of_a_step(copy.deepcopy(model), data[:batch], loss, optimizer, precision)
        except OutOfMemory:
            return float("inf")

    fits, least = 0, 0.0
    batch, too_large = 1, len(data) + 1
    while fits < batch < too_large:
        taken = peak(batch)
        if taken > memory_bytes:
            too_large, batch = batch, (fits + batch) // 2
        else:
            slope = (taken - least) / (batch - fits) if fits else 0.0
            room = int((memory_bytes - taken) / slope) if slope > 0 else batch
            fits, least = batch, taken
            batch = min(2 * batch, batch + room, too_large - 1)
        if fits and abs(batch - fits) * CLOSE < fits:
            break
    if fits == 0:
        raise OutOfMemory(1, f"a step on one sample needs more than {memory_bytes:,} bytes")
    return fits


def peak_of_a_step(
    model: Model, batch: Tensor, loss: Callable[[Any, Tensor], dict[str, Tensor]], optimizer: str, precision: str
) -> float:
    """Take a step that changes nothing (rate 0). Returns: bytes in use at its peak."""
    numbers, parameters = Precision(precision, model.device), list(model.parameters())
    steps = optimizers.optimizer(optimizer, parameters, 0.0)
    reset_peak(model.device)
    with numbers.set():
        with numbers.casting():
            terms = loss(model.train(), batch.to(model.device))
        numbers.backward(terms["loss"])
        numbers.step(steps, parameters, clip=1.0)
    return peak_bytes(model.device)


def reset_peak(device: torch.device) -> None:
    """Let the peak be what is in use now. Where the system cannot do that (not Linux), peaks only rise."""
    gc.collect()
    if device.type != "cpu":
        torch.get_device_module(device).reset_peak_memory_stats()
    elif CLEAR.exists():
        _give_back_freed()
        CLEAR.write_text("5")


def _give_back_freed() -> None:
    """Let the C library return to the system what was freed; else it depends on what came before what a step takes."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def peak_bytes(device: torch.device) -> float:
    """Give the most that was in use since the last reset: resident in this process, or allocated on its GPU."""
    if device.type != "cpu":
        return float(torch.get_device_module(device).max_memory_allocated())
    if CLEAR.exists():
        lines = dict(line.split(":", 1) for line in STATUS.read_text().splitlines())
        return float(lines["VmHWM"].split()[0]) * 1024
    return float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
