"""The networks that are measured, each with its loss, its data and the loop that anyone would write for it."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from steersman.models import CVAE, Model, ResNet50, device
from steersman.models.fitting.fit import Loss, fit, seeded
from steersman.models.networks.cvae import elbo

LR = 1e-3


@dataclass(frozen=True)
class Case:
    """A network on its device, its loss, and data for one epoch.

    Attributes:
        rounds: epochs that are timed, an even number.
        streamed: samples of an epoch that is read from a store.
    """

    model: Model
    loss: Loss
    data: Tensor
    batch: int
    rounds: int
    streamed: int


def cases() -> dict[str, Case]:
    """Build all; the large images only where there is a GPU."""
    with seeded(0):
        images = torch.randint(0, 256, (16, 1, 120, 85), dtype=torch.uint8)
        found = {
            "cvae_10": Case(CVAE(10), elbo, chains(4096, 10), 128, rounds=62, streamed=16_384),
            "cvae_28": Case(CVAE(28), elbo, chains(1024, 28), 128, rounds=62, streamed=8192),
            "cvae_deepex_28": Case(CVAE.deepex(28), elbo, chains(128, 28), 64, rounds=8, streamed=256),
            "resnet50_atomai": Case(ResNet50(1, 27), classified, images, 8, rounds=12, streamed=32),
        }
        if device.best().type != "cpu":
            large = torch.randint(0, 256, (2048, 3, 224, 224), dtype=torch.uint8)
            found["resnet50_imagenet"] = Case(ResNet50(), classified, large, 256, rounds=6, streamed=2048)
    for case in found.values():
        case.model.to(device.best())
    return found


def chains(count: int, size: int, seed: int = 0) -> Tensor:
    """Contact maps (count, size, size) uint8 of chains that are helical in one stretch."""
    random = np.random.default_rng(seed)
    first, last = np.sort(random.integers(0, size + 1, (2, count, 1)), axis=0)
    inside = (np.arange(size) >= first) & (np.arange(size) < last)
    apart = np.abs(np.subtract.outer(np.arange(size), np.arange(size)))
    maps = (apart <= 2) | ((apart <= 4) & inside[:, :, None] & inside[:, None, :])
    return torch.from_numpy(maps.astype(np.uint8))


def classified(model: ResNet50, images_BCHW: Tensor) -> dict[str, Tensor]:
    """Cross-entropy of classes that the images' first pixels name: the work is what matters here."""
    classes_B = images_BCHW[:, 0, 0, 0].long() % model.config["classes"]
    return {"loss": functional.cross_entropy(model(images_BCHW.float() / 255), classes_B)}


def ours(case: Case, precision: str, compiled: str = "no") -> None:
    """An epoch of fit()."""
    fit(
        case.model, case.data, case.loss, epochs=1, batch=case.batch, lr=LR, precision=precision, compiled=compiled
    )  # fmt: skip


def plain(case: Case, precision: str) -> None:
    """The loop as anyone writes it; with the same clipping of gradients. On a GPU tf32 is allowed, as in ours."""
    model, here = case.model.train(), case.model.device
    if here.type != "cpu":
        torch.set_float32_matmul_precision("high")
    optimizer = torch.optim.Adam(model.parameters(), LR, fused=True)
    for picked in torch.split(torch.randperm(len(case.data)), case.batch):
        optimizer.zero_grad()
        with torch.autocast(here.type, torch.bfloat16) if precision == "bf16" else nullcontext():
            loss = case.loss(model, case.data[picked].to(here, non_blocking=True))["loss"]
        torch.autograd.backward(loss)
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
    if here.type != "cpu":
        torch.get_device_module(here).synchronize()
