"""What the tests of models share: one thread, and contact maps with a few known coordinates."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from steersman.models.ranks.launch import launch

Chains = Callable[..., np.ndarray]
ROOT = Path(__file__).parents[2]
WORDS = (
    "ddp", "zero", "ddp(lag=1)", "local_sgd", "hogwild", "async(max_staleness=0)", "async(max_staleness=3)",
    "async(max_staleness=3) in fp16",
)  # fmt: skip
BATCH, SAMPLES = 8, 99  # 6 steps of two ranks, and one in which the first has a sample more


@contextmanager
def tests_found() -> Iterator[None]:
    """Let processes that are started import what lies beside the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
        yield


@pytest.fixture(scope="module")
def found_by_ranks() -> Iterator[None]:
    """Let processes that a test starts import what lies beside the tests."""
    with tests_found():
        yield


@pytest.fixture(scope="session")
def two(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What two ranks made of each strategy, see mean_model.train_each; one start of ranks for all."""
    target, arguments = "tests.models.mean_model:train_each", {"words": WORDS, "batch": BATCH, "samples": SAMPLES}
    with tests_found():
        folder = tmp_path_factory.mktemp("ranks")
        return launch(target, arguments, ranks=2, strategy="ddp", folder=folder, timeout_s=60).card


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
