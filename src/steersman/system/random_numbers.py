"""Random numbers of a process as a whole, which users' functions and libraries draw: they begin with a seed."""

from __future__ import annotations

import pickle
import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import numpy as np


@contextmanager
def drawing(seed: int) -> Iterator[None]:
    """Let those of Python, numpy and torch begin with a seed; put the caller's back. Torch is not imported for this.

    So a run in rounds repeats itself, also where a stage draws from them, as the weights of a new layer of torch do.
    """
    before, own, torch = np.random.get_state(), random.getstate(), sys.modules.get("torch")  # noqa: NPY002
    with torch.random.fork_rng(devices=[]) if torch else nullcontext():
        if torch:
            torch.manual_seed(seed)
        random.seed(seed)
        np.random.seed(seed % 2**32)  # noqa: NPY002
        try:
            yield
        finally:
            np.random.set_state(before)  # noqa: NPY002
            random.setstate(own)


def states() -> bytes:
    """Where they stand: others once any was drawn, or torch was imported."""
    torch = sys.modules.get("torch")
    return pickle.dumps((random.getstate(), np.random.get_state(), torch and torch.get_rng_state().numpy()))  # noqa: NPY002
