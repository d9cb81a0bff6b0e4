"""A word -> in which numbers a network computes; weights and optimizer stay float32."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from steersman.system.errors import UnknownName

TYPES = {"fp32": torch.float32, "tf32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


class Precision:
    """How products are computed.

    fp32; tf32: on a GPU products of float32 numbers keep 10 bits of their fractions, a CPU knows no such thing, there
    it is fp32 and `used` says so; bf16; fp16 with a loss that is scaled so that small gradients do not vanish, slow on
    a CPU.

    Attributes:
        used: the word for what is really computed here.
    Raises: UnknownName: another word.
    """

    def __init__(self, word: str, device: torch.device) -> None:
        if word not in TYPES:
            raise UnknownName("precision", word, TYPES)
        self._device, self._type = device.type, TYPES[word]
        self.used = "fp32" if word == "tf32" and device.type == "cpu" else word
        self._scaler = torch.amp.GradScaler(device.type, enabled=word == "fp16")

    @contextmanager
    def set(self) -> Iterator[None]:
        """Let a GPU's units for tf32 be used inside, or, since torch lets convolutions use them unasked, not."""
        if self._device == "cpu":
            yield
            return
        before, cudnn = torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32
        torch.set_float32_matmul_precision("high" if self.used == "tf32" else "highest")
        torch.backends.cudnn.allow_tf32 = self.used == "tf32"
        try:
            yield
        finally:
            torch.set_float32_matmul_precision(before)
            torch.backends.cudnn.allow_tf32 = cudnn

    def casting(self) -> AbstractContextManager[None]:
        """Let convolutions and matrix products inside compute in this type; sums and losses in float32."""
        if self._type == torch.float32:
            return nullcontext()  # an autocast that does nothing takes 0.2 ms
        return torch.autocast(self._device, self._type)

    def backward(self, loss: Tensor) -> None:
        """Compute gradients."""
        torch.autograd.backward(self._scaler.scale(loss))

    def scale(self) -> dict[str, Any]:
        """Give the loss scaling of fp16, as plain values; empty otherwise."""
        return dict(self._scaler.state_dict())

    def set_scale(self, scale: Mapping[str, Any]) -> None:
        """Take over what `scale` gave."""
        if scale:
            self._scaler.load_state_dict(dict(scale))

    def unscaled(self, optimizer: Optimizer) -> bool:
        """Take the scaling out of gradients with which somebody else steps; False: fp16, and they had overflowed."""
        before = self._scaler.get_scale()
        self._scaler.unscale_(optimizer)
        self._scaler.update()
        return bool(self._scaler.get_scale() >= before)

    def step(self, optimizer: Optimizer, parameters: list[torch.nn.Parameter], clip: float) -> None:
        """Clip the gradients' norm, step; with fp16 a step is left out, and the scale halved, where they overflowed."""
        self._scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(parameters, clip)
        self._scaler.step(optimizer)
        self._scaler.update()
