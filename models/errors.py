"""What can go wrong with a model, one class per cause.

ModelError
├── UnusableData        nothing, NaN, or another size than the model was built for
├── TrainingDiverged    the loss became NaN or infinite
└── UnreadableModel     a directory that holds no model, or a damaged one

The arguments of each are its parameters, so that every one of them survives pickle.
"""

from __future__ import annotations


class ModelError(Exception):
    """Anything that a model tells instead of a result."""


class UnusableData(ModelError, ValueError):
    """Data that no model, or not this one, can use."""

    def __init__(self, shape: tuple[int, ...], reason: str) -> None:
        super().__init__(shape, reason)
        self.shape, self.reason = shape, reason

    def __str__(self) -> str:
        return f"data of shape {self.shape}: {self.reason}"


class TrainingDiverged(ModelError, ArithmeticError):
    """The loss became NaN or infinite; `epoch` counts from 0."""

    def __init__(self, epoch: int, loss: float, lr: float) -> None:
        super().__init__(epoch, loss, lr)
        self.epoch, self.loss, self.lr = epoch, loss, lr

    def __str__(self) -> str:
        return f"the loss became {self.loss} in epoch {self.epoch}; lower lr ({self.lr:g}), or look for bad frames"


class UnreadableModel(ModelError, ValueError):
    """A directory that holds no model, or not the one that was saved."""

    def __init__(self, directory: str, reason: str) -> None:
        super().__init__(directory, reason)
        self.directory, self.reason = directory, reason

    def __str__(self) -> str:
        return f"{self.directory}: {self.reason}"
