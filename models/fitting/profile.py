"""Marks in a training loop -> where an epoch's time went, under DeepEx's names."""

from __future__ import annotations

from time import perf_counter
from typing import Any

import torch

COMPUTING = ("IpUpdateTime", "FwdTime", "BwdTime", "WtUpdateTime")


class Profile:
    """Times of one epoch, in seconds, from the moment it is made.

    IpUpdateTime: batches picked and moved to the device; FwdTime, BwdTime: loss and gradients; WtUpdateTime: clipping
    and the optimizer's step; TotalCompTime: these four; SyncTime: exchange with other ranks, waiting for them included.
    On a GPU the marks are its events, so that they do not stop it.
    Source: the labels are those of DeepEx (Yoginath et al.).
    """

    def __init__(self, device: torch.device) -> None:
        self._gpus = None if device.type == "cpu" else torch.get_device_module(device)
        self._began = perf_counter()
        self._last = self._mark()
        self._laps: list[tuple[str, Any, Any]] = []

    def lap(self, label: str) -> None:
        """Count the time since the last mark under a label."""
        now = self._mark()
        self._laps.append((label, self._last, now))
        self._last = now

    def seconds(self) -> dict[str, float]:
        """End the epoch: `seconds` in all, and each label's."""
        if self._gpus is not None:
            self._gpus.synchronize()
        spent = dict.fromkeys((*COMPUTING, "TotalCompTime", "SyncTime"), 0.0)
        for label, begin, end in self._laps:
            spent[label] += _between(begin, end)
        spent["TotalCompTime"] = sum(spent[label] for label in COMPUTING)
        return {"seconds": perf_counter() - self._began, **spent}

    def _mark(self) -> Any:
        """A time in seconds, or an event of a GPU's stream."""
        if self._gpus is None:
            return perf_counter()
        event = self._gpus.Event(enable_timing=True)
        event.record()
        return event


def _between(begin: Any, end: Any) -> float:
    return float(end - begin if isinstance(begin, float) else begin.elapsed_time(end) / 1e3)
