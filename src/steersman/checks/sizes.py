"""Frames that were tried -> in words how much they will be: a frame, the budget on the disk, a training in memory."""

from __future__ import annotations

import shutil
from pathlib import Path

import psutil

from steersman.stages.out import Out
from steersman.stages.params import Params
from steersman.stages.workflow import Workflow
from steersman.steering.stop import Budget

UNITS = ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))
WORTH = 2**30  # bytes from which a total is worth a word
MUCH = 0.5  # of the memory


def in_words(out: Out, workflow: Workflow, params: Params) -> str:
    """As they are before they are compressed, which noise never is."""
    each = sum(out.stored[name].nbytes for name in out.stored) / out.frames
    parts = [f"a frame takes {in_bytes(each)}"]
    rule = workflow.stop_rule(params)
    limits = (one.limits.get("frames") for one in getattr(rule, "rules", (rule,)) if isinstance(one, Budget))
    if (most := next(filter(None, limits), 0.0)) and each * most >= WORTH:
        free = shutil.disk_usage(Path()).free
        words = f"the budget of {most:,.0f} frames up to {in_bytes(each * most)}"
        parts.append(words + (f", and {in_bytes(free)} are free here" if each * most > free else ""))
    window = min(workflow.training.window, most or workflow.training.window) if workflow.training else 0
    memory = psutil.virtual_memory().total
    if each * window > MUCH * memory:
        read = f"a training that reads all variables of its window of {window:,.0f} frames {in_bytes(each * window)}"
        parts.append(f"{read}, and this machine has {in_bytes(memory)} of memory")
    return "; " + ", ".join(parts)


def in_bytes(number: float) -> str:
    """A number of bytes in the unit that suits it."""
    unit, name = next(((unit, name) for unit, name in UNITS if number >= unit), (1, "bytes"))
    return f"{number / unit:,.3g} {name}" if unit > 1 else f"{number:.0f} bytes"
