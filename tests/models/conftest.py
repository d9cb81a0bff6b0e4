"""What the tests of models share: one thread, and contact maps with a few known coordinates."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest
import torch

Chains = Callable[..., np.ndarray]


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """Bits repeat on one thread, and two cores are shared."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="session")
def chains() -> Chains:
    """Draw contact maps of chains that are helical in one stretch."""

    def drawn(count: int, size: int, seed: int = 0) -> np.ndarray:
        """Give (count, size, size) bool: a band up to i+4 within a random stretch, up to i+2 elsewhere."""
        random = np.random.default_rng(seed)
        ends = np.sort(random.integers(0, size + 1, (count, 2)), axis=1)
        inside = (np.arange(size) >= ends[:, :1]) & (np.arange(size) < ends[:, 1:])
        apart = np.abs(np.subtract.outer(np.arange(size), np.arange(size)))
        return (apart <= 2) | ((apart <= 4) & inside[:, :, None] & inside[:, None, :])

    return drawn
