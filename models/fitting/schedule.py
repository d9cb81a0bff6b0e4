"""A moment of a training -> its batch and its rate."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Schedule:
    """Linear scaling with warm-up, a batch that grows while the training goes on, a rate that falls to its end.

    Attributes:
        lr_scale: how many times larger the batch of all ranks is than the one for which the training's rate is right.
        warmup_epochs: until the rate has risen to `lr_scale` times itself; 0 begins with it.
        double_every: epochs after which batch and rate double; 0 never.
        largest_batch: the batch doubles only while it stays within this; 0: always.
        decay_epochs: the rate falls along half a cosine, and is 0 after so many epochs; 0: it does not fall.
    Source: Goyal et al. (2017), arXiv 1706.02677, section 2.2; growing: Lee et al. (2019), Improving scalability of
        parallel CNN training by adjusting mini-batch size at run-time, IEEE Big Data; falling: Loshchilov and Hutter
        (2017), arXiv 1608.03983.
    """

    lr_scale: float = 1.0
    warmup_epochs: float = 0.0
    double_every: int = 0
    largest_batch: int = 0
    decay_epochs: float = 0.0

    def batch_at(self, epoch: float, batch: int) -> int:
        """Give the samples per step of each rank.

        Args:
            epoch: passes over the data, with fractions.
            batch: samples per step at the beginning.
        """
        growth = 1
        for _ in range(int(epoch // self.double_every) if self.double_every else 0):
            if self.largest_batch and 2 * growth * batch > self.largest_batch:
                break
            growth *= 2
        return batch * growth

    def factor_at(self, epoch: float, batch: int) -> float:
        """Give the rate over the training's own: it rises linearly during the warm-up, grows with the batch, falls."""
        risen = min(1.0, epoch / self.warmup_epochs) if self.warmup_epochs > 0 else 1.0
        left = (1 + math.cos(math.pi * min(1.0, epoch / self.decay_epochs))) / 2 if self.decay_epochs > 0 else 1.0
        return (1 + (self.lr_scale - 1) * risen) * (self.batch_at(epoch, batch) // batch) * left


CONSTANT = Schedule()
