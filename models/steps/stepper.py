"""Gradients -> weights: the optimizer, its rate at every moment, and the numbers in which gradients come."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from steersman.models.model import Model
from steersman.models.steps.precision import Precision

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
        return sum(value.nbytes for value in self.moments().values())

    def moments(self) -> dict[str, Tensor]:
        """Give what the optimizer remembers, by "number of the parameter/name"; of `zero` only what is kept here."""
        return {
            f"{number}/{name}": value
            for number, parameter in enumerate(self._parameters)
            for name, value in self._kept.state.get(parameter, {}).items()
            if isinstance(value, Tensor)
        }

    def restore(self, moments: Mapping[str, Tensor]) -> None:
        """Take over what `moments` gave, maybe of all ranks: what is of no use here is left."""
        own = {id(parameter) for group in self._kept.param_groups for parameter in group["params"]}
        for key, value in moments.items():
            number, _, name = key.partition("/")
            parameter = self._parameters[int(number)]
            if id(parameter) in own:
                self._kept.state[parameter][name] = _laid_out(value, parameter)

    @property
    def _kept(self) -> Optimizer:
        kept: Optimizer = getattr(self.optimizer, "optim", self.optimizer)  # ZeroRedundancyOptimizer's own part
        return kept


def _laid_out(value: Tensor, parameter: Tensor) -> Tensor:
    """Order a moment's numbers as its parameter's are: fused optimizers walk through both at once."""
    if value.shape != parameter.shape:
        return value.to(parameter.device)
    return torch.empty_like(parameter, dtype=value.dtype).copy_(value)
