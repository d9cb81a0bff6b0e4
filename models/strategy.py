"""A word -> how several ranks train one model. Free of torch: a workflow file names it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from steersman.models.errors import UnknownChoice

STRATEGIES = ("single", "ddp", "local_sgd", "local_sgd(syncs_per_epoch=N)")


@dataclass(frozen=True)
class Strategy:
    """How ranks share a training.

    Attributes:
        name: `single`: one process; `ddp`: gradients are averaged at every step, `batch` samples from each rank;
            `local_sgd`: each rank takes steps of its own on its own share, weights are averaged now and then.
        syncs_per_epoch: of local_sgd; at least 1.
    Source: ddp: Li et al. (2020), arXiv 2006.15704; local_sgd: Lin et al. (2018), arXiv 1808.07217, and DeepEx.
    """

    name: str = "single"
    syncs_per_epoch: int = 1

    @classmethod
    def parse(cls, word: str) -> Strategy:
        """Read "single", "ddp", "local_sgd" or "local_sgd(syncs_per_epoch=4)".

        Raises: UnknownChoice: anything else.
        """
        found = re.fullmatch(r"(single|ddp|local_sgd)|local_sgd\((?:syncs_per_epoch=)?([1-9]\d*)\)", word)
        if found is None:
            raise UnknownChoice("strategy", word, STRATEGIES)
        return cls(found[1]) if found[1] else cls("local_sgd", int(found[2]))


# A campaign's train function calls fit() without naming a strategy: @wf.train(strategy=...) does, around the call.
_chosen: ContextVar[Strategy] = ContextVar("strategy", default=Strategy())  # noqa: B039 (frozen)


@contextmanager
def used(word: str) -> Iterator[None]:
    """Let every fit() inside that names no strategy use this one."""
    token = _chosen.set(Strategy.parse(word))
    try:
        yield
    finally:
        _chosen.reset(token)


def chosen(word: str | None) -> Strategy:
    """Give the strategy that was named, or the one that `used` says."""
    return _chosen.get() if word is None else Strategy.parse(word)
