"""Marks in a training loop -> where an epoch's time went, under DeepEx's names."""

from __future__ import annotations

from time import perf_counter

import torch

COMPUTING = ("IpUpdateTime", "FwdTime", "BwdTime", "WtUpdateTime")


class Profile:
    """Times of one epoch, in seconds, from the moment it is made.

    IpUpdateTime: batches picked and moved to the device; FwdTime, BwdTime: loss and gradients; WtUpdateTime: clipping
    and the optimizer's step; TotalCompTime: these four; SyncTime: exchange with other ranks, waiting for them included.
    On a GPU the marks are CUDA events, so that they do not stop it.
    Source: the labels are those of DeepEx (Yoginath et al.).
    """

    def __init__(self, device: torch.device) -> None:
        self._on_gpu = device.type == "cuda"
        self._began = perf_counter()
        self._last = self._mark()
        self._laps: list[tuple[str, float | torch.cuda.Event, float | torch.cuda.Event]] = []

    def lap(self, label: str) -> None:
        """Count the time since the last mark under a label."""
        now = self._mark()
        self._laps.append((label, self._last, now))
        self._last = now

    def seconds(self) -> dict[str, float]:
        """End the epoch: `seconds` in all, and each label's."""
        if self._on_gpu:
            torch.cuda.synchronize()
        spent = dict.fromkeys((*COMPUTING, "TotalCompTime", "SyncTime"), 0.0)
        for label, begin, end in self._laps:
            spent[label] += _between(begin, end)
        spent["TotalCompTime"] = sum(spent[label] for label in COMPUTING)
        return {"seconds": perf_counter() - self._began, **spent}

    def _mark(self) -> float | torch.cuda.Event:
        if not self._on_gpu:
            return perf_counter()
        event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        event.record()
        return event


def _between(begin: float | torch.cuda.Event, end: float | torch.cuda.Event) -> float:
    if isinstance(begin, float) and isinstance(end, float):
        return end - begin
    return float(begin.elapsed_time(end)) / 1e3  # type: ignore[union-attr, arg-type]
