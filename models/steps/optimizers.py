"""Words and rates -> optimizers and the rate of each step."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter
from torch.optim import Optimizer

from steersman.system.errors import UnknownName

MOMENTUM = 0.9
TRUST = 1e-3  # the length of a step over the length of the weights it changes: You et al.'s
LARC_TRUST = 0.02  # where it is a limit and no factor of the rate


class LARS(Optimizer):
    """SGD with momentum, where each tensor has a rate in proportion to its weights' norm over its gradient's.

    The rate of a tensor is lr x trust |w| / (|g| + decay |w|). Where a norm is zero, as of a bias that was never
    changed, it is lr, as in SGD.

    Args:
        lr: factor of every rate; with `clip` the largest of them.
        momentum: of the steps, 0..1.
        decay: of the weights, as an L2 penalty.
        trust: step length over weight length, at lr 1.
        clip: LARC instead of LARS: the rate of a tensor is min(trust |w| / (|g| + decay |w|), lr).
    Source: You, Gitman and Ginsburg (2017), arXiv 1708.03888, and You et al. (2017), arXiv 1709.05011; LARC as in Kurth
        et al. (2018), arXiv 1810.01993.
    """

    def __init__(
        self,
        params: Iterable[Parameter],
        lr: float,
        *,
        momentum: float = MOMENTUM,
        decay: float = 0.0,
        trust: float = TRUST,
        clip: bool = False,
    ) -> None:
        super().__init__(params, {"lr": lr, "momentum": momentum, "decay": decay, "trust": trust, "clip": clip})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """Change the weights by one step; no closure is called."""
        for group in self.param_groups:
            for weight in group["params"]:
                if weight.grad is not None:
                    self._change(weight, weight.grad, group)

    def _change(self, weight: Tensor, gradient: Tensor, group: dict[str, Any]) -> None:
        rate = tensor_rate(weight, gradient, group["lr"], group["decay"], group["trust"], group["clip"])
        step = (gradient + group["decay"] * weight) * rate
        state = self.state[weight]
        if "momentum" not in state:
            state["momentum"] = torch.zeros_like(weight)
        weight -= state["momentum"].mul_(group["momentum"]).add_(step)


def tensor_rate(weight: Tensor, gradient: Tensor, lr: float, decay: float, trust: float, clip: bool) -> Tensor:
    """Give the rate of one tensor, a scalar on its device; never NaN for finite weights and gradients."""
    size, slope = weight.norm(), gradient.norm()
    local = trust * size / (slope + decay * size)
    rate = local.clamp(max=lr) if clip else lr * local
    return torch.where((size > 0) & (slope > 0), rate, torch.full_like(rate, lr))


def _adam(params: Iterable[Parameter], lr: float) -> Optimizer:
    return torch.optim.Adam(params, lr, fused=True)


def _sgd(params: Iterable[Parameter], lr: float) -> Optimizer:
    made = torch.optim.SGD(params, lr, momentum=MOMENTUM, fused=True)
    for group in made.param_groups:
        for each in group["params"]:  # else what lies in memory is the momentum after a first step that overflows
            made.state[each]["momentum_buffer"] = torch.zeros_like(each)
    return made


def _larc(params: Iterable[Parameter], lr: float) -> Optimizer:
    return LARS(params, lr, trust=LARC_TRUST, clip=True)


OPTIMIZERS: dict[str, Callable[[Iterable[Parameter], float], Optimizer]] = {
    "adam": _adam, "sgd": _sgd, "lars": LARS, "larc": _larc,
}  # fmt: skip


def optimizer(name: str, params: Iterable[Parameter], lr: float) -> Optimizer:
    """Build "adam", "sgd" (momentum 0.9), "lars" or "larc".

    Raises: UnknownName: another name.
    """
    if name not in OPTIMIZERS:
        raise UnknownName("optimizer", name, OPTIMIZERS)
    return OPTIMIZERS[name](params, lr)
