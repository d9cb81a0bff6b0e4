"""What can go wrong with a model.

EngineError
├── TrainingDiverged    the loss became NaN or infinite
├── OutOfMemory         a batch that does not fit
├── TooManyRanks        more ranks than full batches
├── RankLost            what a rank says when another died or never arrived
├── StagingFailed       frames that could not be brought to every node
└── RanksFailed         what the process that started the ranks says, with each one's own error
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from steersman.system.errors import BadInput, BadValue, EngineError


class TrainingDiverged(EngineError, ArithmeticError):
    """The loss became NaN or infinite; `epoch` counts from 0."""

    epoch: int
    loss: float
    lr: float

    def __str__(self) -> str:
        return f"the loss became {self.loss} in epoch {self.epoch}; lower lr ({self.lr:g}), or look for bad frames"


class OutOfMemory(EngineError):
    """A training step needs more memory than there is, or than was allowed."""

    batch: int
    reason: str

    def __str__(self) -> str:
        return (
            f"out of memory in a batch of {self.batch} ({self.reason}); use a smaller batch, see largest_batch, or a "
            "smaller network"
        )


class TooManyRanks(BadInput):
    """One of several ranks would have no full batch.

    Attributes:
        full: how many full batches there are.
    """

    ranks: int
    samples: int
    batch: int

    @property
    def full(self) -> int:
        return self.samples // self.batch

    def __str__(self) -> str:
        return (
            f"{self.ranks} ranks for {self.full} full batches ({self.samples} samples in batches of {self.batch}): "
            "use fewer ranks, smaller batches or more data"
        )


class RankLost(EngineError, RuntimeError):
    """Another rank died, hung or never arrived."""

    rank: int
    ranks: int
    reason: str

    def __str__(self) -> str:
        return f"rank {self.rank} of {self.ranks} lost the others ({self.reason}); look for the first error of another"


class StagingFailed(EngineError, OSError):
    """Files could not be copied to every node; `reason` has a part for each node that failed."""

    source: str
    target: str
    reason: str

    def __str__(self) -> str:
        return f"{self.source}: not staged to {self.target} ({self.reason}); train on the window itself, or look there"


class RanksFailed(EngineError, RuntimeError):
    """A training on several ranks failed; `reasons` has a line for each rank that failed."""

    ranks: int
    reasons: tuple[str, ...]

    def __str__(self) -> str:
        return f"training on {self.ranks} ranks failed: {'; '.join(self.reasons)}"


def ranks_differ(rank: int, what: str) -> EngineError:
    """Ranks that were given different things, or ended with different weights."""
    return EngineError(f"rank {rank} has another {what} than the others; every rank must make the same calls")


def at_least(least: float, **numbers: float) -> None:
    """Raises BadValue: one of these is less, or NaN."""
    for name, value in numbers.items():
        if not value >= least:
            raise BadValue(name, value, f"give {least} or more")


def edges_of(multiple: int, shape: Sequence[int]) -> None:
    """Raises BadValue: images (..., H, W) are not once, twice, ... this many pixels along each edge."""
    if any(edge % multiple for edge in shape[-2:]):
        raise BadValue(
            "shape", tuple(shape), f"edges of images are to be multiples of {multiple} pixels for this network"
        )


def real(data: np.ndarray) -> np.ndarray:
    """The same. Raises BadValue: complex numbers, of which half would be lost."""
    if np.iscomplexobj(data):
        raise BadValue("shape", np.shape(data), "complex numbers: give real and imaginary part, as data.view(float)")
    return data
