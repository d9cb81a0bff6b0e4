"""A strategy -> the ranks that share a training so."""

from __future__ import annotations

from importlib import import_module

from steersman.models.model import Model
from steersman.models.ranks.single import Single
from steersman.models.ranks.strategy import KINDS, Strategy


def begin(model: Model, samples: int, batch: int, seed: int, strategy: Strategy) -> Single:
    """Prepare a model for a training; every rank calls it with the same arguments."""
    file, _, name = KINDS[strategy.name].home.partition(":")
    kind: type[Single] = getattr(import_module(f"steersman.models.ranks.{file}"), name)
    return kind(model, samples, batch, seed, strategy)
