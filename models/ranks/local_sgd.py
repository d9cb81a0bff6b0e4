"""Ranks that step alone, and average their weights now and then."""

from __future__ import annotations

from steersman.models.model import Model
from steersman.models.ranks.shared import OwnSteps, share_of
from steersman.models.ranks.single import parts
from steersman.models.ranks.strategy import Strategy


class LocalSGD(OwnSteps):
    """Weights are averaged by one allreduce `syncs_per_epoch` times an epoch.

    Moments of the optimizer stay each rank's own. With more synchronisations than steps there is one after each step.
    """

    def __init__(self, model: Model, samples: int, batch: int, seed: int, strategy: Strategy) -> None:
        super().__init__(model, samples, batch, seed, strategy)
        self._syncs = min(strategy.number, fewest_steps(samples, batch, self.size))  # each must take part in all

    def combine_weights(self, step: int, steps: int) -> None:
        if step * self._syncs // steps > (step - 1) * self._syncs // steps:
            self.add_up(self.block)
            self.block.div_(self.size)


def fewest_steps(samples: int, batch: int, ranks: int) -> int:
    """Steps of an epoch of the rank that takes the fewest."""
    return min(len(parts(share_of(samples, rank, ranks), batch)) for rank in range(ranks))
