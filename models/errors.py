"""What can go wrong with a model, one class per cause.

ModelError
├── UnusableData        nothing, NaN, or another size than the model was built for
├── UnfitGrid           a grid on the sphere that its truncation does not fit
├── UnfitLaw            what a forecast is to keep, of channels that are not there
├── TrainingDiverged    the loss became NaN or infinite
├── NotDense            a model that cannot be written out as forces of a simulation
├── UnreadableModel     a directory that holds no model, or a damaged one
├── UnknownChoice       a strategy, optimizer or precision that is not there
├── TooSmall            a number of epochs, samples, dimensions or the like that nothing can be made of
├── OutOfMemory         a batch that does not fit
├── TooManyRanks        more ranks than full batches
├── RankLost            what a rank says when another died or never arrived
├── StagingFailed       frames that could not be brought to every node
├── RanksDiffer         ranks that do not train the same thing
└── RanksFailed         what the process that started the ranks says, with each one's own error
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from steersman.system.errors import BadInput, EngineError


class ModelError(EngineError):
    """Anything that a model raises instead of a result."""


class UnusableData(ModelError, ValueError):
    """Data that no model, or not this one, can use."""

    shape: tuple[int, ...]
    reason: str

    def __str__(self) -> str:
        return f"data of shape {self.shape}: {self.reason}"


class UnfitGrid(ModelError, BadInput):
    """A Gaussian grid that its truncation does not fit."""

    rows: int
    fewest: int
    truncation: int

    def __str__(self) -> str:
        needed = f"an even number of rows, at least {self.fewest}"
        return f"a grid of {self.rows} rows does not hold T{self.truncation}: give {needed}, or a smaller truncation"


class UnfitLaw(ModelError, BadInput):
    """What a forecast is to keep does not fit the channels of its fields."""

    law: str
    given: tuple[float, ...]
    needed: str

    def __str__(self) -> str:
        return f"{self.law} is {self.given}; it must be {self.needed}"


class NotDense(ModelError, BadInput):
    """A model that cannot be written out as forces of a simulation."""

    name: str

    def __str__(self) -> str:
        return (
            f"no simulation can be biased along the coordinate of a {self.name}: it has no `dense_layers()` to give "
            "to OpenMM; models.TICA, models.DeepTICA and models.PCA have"
        )


class TrainingDiverged(ModelError, ArithmeticError):
    """The loss became NaN or infinite; `epoch` counts from 0."""

    epoch: int
    loss: float
    lr: float

    def __str__(self) -> str:
        return f"the loss became {self.loss} in epoch {self.epoch}; lower lr ({self.lr:g}), or look for bad frames"


class UnreadableModel(ModelError, ValueError):
    """A directory that holds no model, or not the one that was saved."""

    directory: str
    reason: str

    def __str__(self) -> str:
        return f"{self.directory}: {self.reason}"


class UnknownChoice(ModelError, BadInput):
    """A word that none of the possibilities has."""

    what: str
    word: str
    known: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.what} {self.word!r}: choose from {', '.join(self.known)}"


class TooSmall(ModelError, BadInput):
    """A number below the least that makes sense, or NaN."""

    what: str
    value: float
    least: float

    def __str__(self) -> str:
        return f"{self.what} = {self.value}: it must be at least {self.least}"


class OutOfMemory(ModelError):
    """A training step needs more memory than there is, or than was allowed."""

    batch: int
    reason: str

    def __str__(self) -> str:
        return (
            f"out of memory in a batch of {self.batch} ({self.reason}); use a smaller batch, see largest_batch, or a "
            "smaller network"
        )


class TooManyRanks(ModelError, BadInput):
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


class RankLost(ModelError, RuntimeError):
    """Another rank died, hung or never arrived."""

    rank: int
    ranks: int
    reason: str

    def __str__(self) -> str:
        return f"rank {self.rank} of {self.ranks} lost the others ({self.reason}); look for the first error of another"


class StagingFailed(ModelError, OSError):
    """Files could not be copied to every node; `reason` has a part for each node that failed."""

    source: str
    target: str
    reason: str

    def __str__(self) -> str:
        return f"{self.source}: not staged to {self.target} ({self.reason}); train on the window itself, or look there"


class RanksDiffer(ModelError, RuntimeError):
    """Ranks that were given different things, or ended with different weights."""

    rank: int
    what: str

    def __str__(self) -> str:
        return f"rank {self.rank} has another {self.what} than the others; every rank must make the same calls"


class RanksFailed(ModelError, RuntimeError):
    """A training on several ranks failed; `reasons` has a line for each rank that failed."""

    ranks: int
    reasons: tuple[str, ...]

    def __str__(self) -> str:
        return f"training on {self.ranks} ranks failed: {'; '.join(self.reasons)}"


def at_least(least: float, **numbers: float) -> None:
    """Raises TooSmall: one of these is less, or NaN."""
    for name, value in numbers.items():
        if not value >= least:
            raise TooSmall(name, value, least)


def edges_of(multiple: int, shape: Sequence[int]) -> None:
    """Raises UnusableData: images (..., H, W) are not once, twice, ... this many pixels along each edge."""
    if any(edge % multiple for edge in shape[-2:]):
        raise UnusableData(tuple(shape), f"edges of images are to be multiples of {multiple} pixels for this network")


def real(data: np.ndarray) -> np.ndarray:
    """The same. Raises UnusableData: complex numbers, of which half would be lost."""
    if np.iscomplexobj(data):
        raise UnusableData(np.shape(data), "complex numbers: give real and imaginary part, as data.view(float)")
    return data
