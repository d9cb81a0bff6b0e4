"""A word -> how several ranks train one model. Free of torch: a workflow file names it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import NamedTuple

from steersman.system.errors import UnknownName


class Kind(NamedTuple):
    """A file of this folder and its class, which `begin` imports; the strategy's number, if it has one."""

    home: str
    number: str = ""
    default: int = 0
    allowed: range = range(0)


KINDS = {
    "single": Kind("single:Single"),
    "ddp": Kind("ddp:DDP", "lag", 0, range(2)),
    "zero": Kind("ddp:Zero"),
    "local_sgd": Kind("local_sgd:LocalSGD", "syncs_per_epoch", 1, range(1, 2**31)),
    "hogwild": Kind("hogwild:Hogwild"),
    "async": Kind("parameter_server:Async", "max_staleness", 4, range(2**31)),
}
STRATEGIES = tuple(name + (f", {name}({kind.number}=N)" if kind.number else "") for name, kind in KINDS.items())


@dataclass(frozen=True)
class Strategy:
    """How ranks share a training.

    Attributes:
        name: `single`: one process; `ddp`: gradients are averaged at every step, `batch` samples from each rank;
            `zero`: the same, and each rank keeps the optimizer's moments of a part of the weights only; `local_sgd`:
            each rank takes steps of its own on its own share, weights are averaged now and then; `hogwild`: likewise,
            all on the same weights in shared memory, without locks; `async`: likewise, gradients go to a parameter
            server.
        number: `syncs_per_epoch` of local_sgd, at least 1; `lag` of ddp: 1 takes each step with the gradients of the
            step before, whose exchange had time until then; `max_staleness` of async: how many steps at most the
            weights may have gone on from those that a gradient is of. 0 of the others.
    Source: ddp: Li et al. (2020), arXiv 2006.15704; lag: Kurth et al. (2018), arXiv 1810.01993; zero: Rajbhandari et
        al. (2020), arXiv 1910.02054, stage 1; local_sgd: Lin et al. (2018), arXiv 1808.07217, and DeepEx; hogwild: Niu
        et al. (2011), arXiv 1106.5730; async: Ho et al. (2013), a stale synchronous parallel parameter server.
    """

    name: str = "single"
    number: int = 0

    @classmethod
    def parse(cls, word: str) -> Strategy:
        """Read a name, or a name and its number: "ddp", "local_sgd(syncs_per_epoch=4)" or "local_sgd(4)".

        Raises: UnknownName: anything else.
        """
        match = re.fullmatch(r"(\w+)(?:\((?:(\w+)=)?(\d+)\))?", word)
        if match is not None and match[1] in KINDS:
            kind = KINDS[match[1]]
            if match[3] is None:
                return cls(match[1], kind.default)
            if int(match[3]) in kind.allowed and match[2] in (None, kind.number):
                return cls(match[1], int(match[3]))
        raise UnknownName("strategy", word, STRATEGIES)


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
