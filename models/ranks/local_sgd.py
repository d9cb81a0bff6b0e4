"""Ranks that step alone, and average their weights now and then."""

from __future__ import annotations

from steersman.models.model import Model
from steersman.models.ranks.shared import OwnSteps
from steersman.models.ranks.strategy import Strategy


class LocalSGD(OwnSteps):
    """Weights are averaged by one allreduce `syncs_per_epoch` times an epoch.

    Moments of the optimizer stay each rank's own. With more synchronisations than steps there is one after each step.
    """

    def __init__(self, model: Model, samples: int, batch: int, seed: int, strategy: Strategy) -> None:
        super().__init__(model, samples, batch, seed, strategy)
        self._syncs = strategy.number

    def combine_weights(self, step: int, steps: int) -> None:
        fewest = -(-(self.samples // self.size) // self.batch)  # of all ranks: each must take part in all
        syncs = min(self._syncs, fewest)
        if step * syncs // steps > (step - 1) * syncs // steps:
            self.add_up(self.block)
            self.block.div_(self.size)
