"""Samples as they arrive -> which of them each step learns: every new one, and none more than so often."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from steersman.models.errors import at_least
from steersman.models.ranks.single import Single
from steersman.models.steps.stepper import Stepper
from steersman.system.errors import BadValue

SHARED_BY = "single", "ddp"  # strategies in which all ranks draw together, and each has the optimizer whole


@dataclass(frozen=True)
class Reservoir:
    """How a fit draws from samples that go on arriving, where the fit before it stopped.

    A sample comes with `uses`. An epoch takes each that was never used, once, and fills up its steps at random from all
    uses that are left: so each batch mixes new and old, what is new is drawn more often, and what is used up no more.

    Args:
        ids: (n,) int64, one for each sample, by which later fits know it again; of frames `frames.ids`.
        uses: how often a sample is drawn at most, over all fits that go on from one another, >= 1.
        steps: of an epoch, >= 1; fewer when less is left.
    Raises: BadValue: an id comes twice, no uses, or no steps.
    Source: after the buffer of Meyer et al. (2023), Training deep surrogate models with large scale online learning,
        arXiv 2306.16133; the bound is ours.
    """

    ids: np.ndarray
    uses: int
    steps: int

    def __post_init__(self) -> None:
        at_least(1, uses=self.uses, steps=self.steps)
        if len(np.unique(self.ids)) != len(self.ids):
            raise BadValue("shape", self.ids.shape, "each sample of a reservoir has an id of its own")


class Draws:
    """What is left of a reservoir, and what its optimizer remembers.

    The draws follow from the seed and the state alone: a training that is saved, loaded and gone on with is the same.

    Args:
        samples: of the data; as many as there are ids.
        seed: of the draws.
        optimizer: its name; of another one nothing is taken over.
        state: where the last fit stopped, see `state`; empty before the first.
    Attributes:
        used: (n,) int64, how often each sample was drawn.
        drawn, different: draws so far, and samples among them, also of those that are no longer there.
    Raises: BadValue: not as many ids as samples.
    """

    def __init__(
        self, reservoir: Reservoir, samples: int, seed: int, optimizer: str, state: Mapping[str, Tensor]
    ) -> None:
        if len(reservoir.ids) != samples:
            raise BadValue("shape", (samples,), f"its reservoir has {len(reservoir.ids)} ids, and needs one a sample")
        self._reservoir, self._seed, self._moments = reservoir, seed, f"moments/{optimizer}/"
        self._before = dict(state)
        self.used, self.drawn, self.different = np.zeros(samples, np.int64), 0, 0
        if state:
            _, here, before = np.intersect1d(reservoir.ids, state["ids"], assume_unique=True, return_indices=True)
            self.used[here] = state["used"].numpy()[before]
            self.drawn, self.different = state["counts"].tolist()

    @property
    def left(self) -> np.ndarray:
        """(n,) int64, how often each sample may still be drawn."""
        return np.maximum(self._reservoir.uses - self.used, 0)

    def begin(self, ranks: Single, stepper: Stepper) -> None:
        """Let ranks take their batches from here, and the optimizer go on."""
        own = {name: value for name, value in self._before.items() if name.startswith(self._moments)}
        stepper.restore({name.removeprefix(self._moments): value.clone() for name, value in own.items()})
        ranks.agree("reservoir", self.used.tobytes())
        ranks.order_of = lambda *_: self.epoch(ranks.batch * ranks.size)

    def epoch(self, batch: int) -> Tensor:
        """Draw an epoch's samples, `batch` for each step: (steps x batch,) int64, fewer when less is left."""
        rng, left = np.random.default_rng((self._seed % 2**63, self.drawn)), self.left
        count = min(self._reservoir.steps * batch, int(left.sum()))
        new = rng.permutation(np.flatnonzero(self.used == 0))[:count]
        left[new] -= 1
        again = rng.multivariate_hypergeometric(left, count - len(new), method="marginals")
        drawn = rng.permutation(np.concatenate([new, np.repeat(np.arange(len(again)), again)]))
        self.used += np.bincount(drawn, minlength=len(self.used))
        self.drawn, self.different = self.drawn + count, self.different + len(new)
        return torch.from_numpy(drawn)

    def state(self, stepper: Stepper | None = None) -> dict[str, Tensor]:
        """Give what the next fit goes on from.

        Returns: `ids` and `used` (n,) int64, of samples that are there; `counts` (2,) int64, drawn and different; and
            the moments of the stepper's optimizer.
        """
        ids, moments = np.asarray(self._reservoir.ids, np.int64), stepper.moments() if stepper else {}
        return {
            "ids": torch.from_numpy(ids),
            "used": torch.from_numpy(self.used.copy()),
            "counts": torch.tensor([self.drawn, self.different]),
            **{self._moments + name: value for name, value in moments.items()},
        }
