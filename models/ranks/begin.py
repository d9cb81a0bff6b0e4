"""A strategy -> the ranks that share a training so."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from importlib import import_module

from steersman.models.model import Model
from steersman.models.ranks.single import Single
from steersman.models.ranks.strategy import KINDS, Strategy

# `try` calls the train function on a few frames and without ranks, and says what a run's ranks will need.
_asked: ContextVar[list[tuple[int, int]] | None] = ContextVar("asked", default=None)


@contextmanager
def asked() -> Iterator[list[tuple[int, int]]]:
    """Give the samples, and the samples per batch, of each fit() inside."""
    fits: list[tuple[int, int]] = []
    token = _asked.set(fits)
    try:
        yield fits
    finally:
        _asked.reset(token)


def begin(model: Model, samples: int, batch: int, seed: int, strategy: Strategy) -> Single:
    """Prepare a model for a training; every rank calls it with the same arguments."""
    if (fits := _asked.get()) is not None:
        fits.append((samples, batch))
    file, _, name = KINDS[strategy.name].home.partition(":")
    kind: type[Single] = getattr(import_module(f"steersman.models.ranks.{file}"), name)
    return kind(model, samples, batch, seed, strategy)
