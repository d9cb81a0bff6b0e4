"""One number for a frame, so that columns of frames can be looked up in each other."""

from __future__ import annotations

from typing import Any

import numpy as np

WALKER = np.int64(2**40)  # of this type, for columns of walkers may be narrower than a key


def frame_key(walker: Any, row: Any) -> Any:
    """One number for a frame, or for arrays of them: in order of walkers, then rows."""
    return walker * WALKER + row


def places(keys: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """(m,) int: the position in `keys`, (n,), of each wanted one; -1 where it is not among them."""
    if not len(keys):
        return np.full(len(wanted), -1)
    order = np.argsort(keys, kind="stable")
    at = order[np.minimum(np.searchsorted(keys, wanted, sorter=order), len(order) - 1)]
    return np.where(keys[at] == wanted, at, -1)
