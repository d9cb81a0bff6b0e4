"""A strategy's name -> the ranks that share a training so."""

from __future__ import annotations

from steersman.models.model import Model
from steersman.models.ranks.ddp import DDP, Zero
from steersman.models.ranks.hogwild import Hogwild
from steersman.models.ranks.local_sgd import LocalSGD
from steersman.models.ranks.parameter_server import Async
from steersman.models.ranks.single import Single
from steersman.models.ranks.strategy import Strategy

KINDS = {"single": Single, "ddp": DDP, "zero": Zero, "local_sgd": LocalSGD, "hogwild": Hogwild, "async": Async}


def begin(model: Model, samples: int, batch: int, seed: int, strategy: Strategy) -> Single:
    """Prepare a model for a training; every rank calls it with the same arguments."""
    return KINDS[strategy.name](model, samples, batch, seed, strategy)
