"""Memory of large arrays that are gone -> the system."""

from __future__ import annotations

import ctypes

M_MMAP_THRESHOLD = -3  # malloc.h
LARGE_BYTES = 2**18


def give_large_arrays_back() -> None:
    """Let the memory of an array go back to the system when the array goes.

    A driver looks at all frames again and again, in arrays that grow; glibc would keep what they leave: once a large
    block was freed, it takes blocks of up to 32 MB from its heap. Another C library is left as it is.
    """
    if mallopt := getattr(ctypes.CDLL(None), "mallopt", None):
        mallopt(M_MMAP_THRESHOLD, LARGE_BYTES)
