"""A word -> how several ranks train one model. Free of torch: a workflow file names it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from steersman.models.errors import UnknownChoice

OPTIONS = {  # of each strategy: its number, and which are allowed
    "single": ("", range(0)),
    "ddp": ("lag", range(2)),
    "zero": ("", range(0)),
    "local_sgd": ("syncs_per_epoch", range(1, 2**31)),
    "hogwild": ("", range(0)),
    "async": ("max_staleness", range(2**31)),
}
STRATEGIES = tuple(name + (f", {name}({option}=N)" if option else "") for name, (option, _) in OPTIONS.items())


@dataclass(frozen=True)
class Strategy:
    """How ranks share a training.

    Attributes:
        name: `single`: one process; `ddp`: gradients are averaged at every step, `batch` samples from each rank;
            `zero`: the same, and each rank keeps the optimizer's moments of a part of the weights only; `local_sgd`:
            each rank takes steps of its own on its own share, weights are averaged now and then; `hogwild`: likewise,
            all on the same weights in shared memory, without locks; `async`: likewise, gradients go to a parameter
            server.
        syncs_per_epoch: of local_sgd; at least 1.
        lag: of ddp; 1 takes each step with the gradients of the step before, whose exchange had time until then.
        max_staleness: of async; how many steps at most the weights may have gone on from those that a gradient is of.
    Source: ddp: Li et al. (2020), arXiv 2006.15704; lag: Kurth et al. (2018), arXiv 1810.01993; zero: Rajbhandari et
        al. (2020), arXiv 1910.02054, stage 1; local_sgd: Lin et al. (2018), arXiv 1808.07217, and DeepEx; hogwild: Niu
        et al. (2011), arXiv 1106.5730; async: Ho et al. (2013), a stale synchronous parallel parameter server.
    """

    name: str = "single"
    syncs_per_epoch: int = 1
    lag: int = 0
    max_staleness: int = 4

    @classmethod
    def parse(cls, word: str) -> Strategy:
        """Read a name, or a name and its number: "ddp", "local_sgd(syncs_per_epoch=4)" or "local_sgd(4)".

        Raises: UnknownChoice: anything else.
        """
        found = re.fullmatch(r"(\w+)(?:\((?:(\w+)=)?(\d+)\))?", word)
        if found is not None and found[1] in OPTIONS:
            option, allowed = OPTIONS[found[1]]
            if found[3] is None:
                return cls(found[1])
            if int(found[3]) in allowed and found[2] in (None, option):
                return cls(found[1], **{option: int(found[3])})
        raise UnknownChoice("strategy", word, STRATEGIES)


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
