"""Gradients -> weights: the optimizer, its rate at every moment, and the numbers in which gradients come."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn
from torch.optim import Optimizer

from steersman.models.model import Model
from steersman.models.precision import Precision

CLIP = 5.0  # gradient norm: the first steps of a warm start on new data are the only ones that meet it

Build = Callable[[str, list[nn.Parameter], float], Optimizer]


class Stepper:
    """Changes a model's weights by its gradients.

    Args:
        build: (name, parameters, rate) -> optimizer.
        rate: of a moment, in epochs with fractions.
    """

    def __init__(
        self, model: Model, build: Build, optimizer: str, precision: str, rate: Callable[[float], float]
    ) -> None:
        self.precision = Precision(precision, model.device)
        self._parameters, self._rate = list(model.parameters()), rate
        self.optimizer = build(optimizer, self._parameters, rate(0.0))

    def step(self, epoch: float) -> None:
        """Change the weights; `epoch` counts with fractions."""
        for group in self.optimizer.param_groups:
            group["lr"] = self._rate(epoch)
        self.precision.step(self.optimizer, self._parameters, CLIP)

    @property
    def optimizer_bytes(self) -> int:
        """Memory of the moments that this process keeps."""
        kept = getattr(self.optimizer, "optim", self.optimizer)  # ZeroRedundancyOptimizer's own part
        values = [value for state in kept.state.values() for value in state.values()]
        return sum(value.nbytes for value in values if isinstance(value, Tensor))
