"""Images -> classes, and where they disagree: a committee of classifiers that begin with different weights.

A class is that of an image or, with the networks for it, of every pixel.

Axes: B batch, M members, C channels, H and W pixels, K classes; ... is nothing, or H and W.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Self

import numpy as np
import torch
from torch import Tensor, nn

from steersman.models.errors import at_least
from steersman.models.fitting.fit import Record
from steersman.models.fitting.reservoir import Reservoir
from steersman.models.fitting.schedule import CONSTANT, Schedule
from steersman.models.networks.deeplab import DeepLab, weighted_loss
from steersman.models.networks.members import Members, fitted
from steersman.models.networks.resnet import ResNet50
from steersman.models.networks.tiramisu import Tiramisu
from steersman.system.errors import BadValue, UnknownName

MOMENTUM = 0.3  # of what norms remember; torch's 0.1 is far behind after the few steps that little data give


class Committee(Members):
    """Classes of images or of pixels: members that learn the same, each from weights of its own.

    Args:
        channels: C of the images.
        classes: K.
        members: M; one alone has nobody to disagree with.
        network: of a member. For classes of images: "small", a residual network of 0.14 million parameters for images
            of some 100 pixels across, or "resnet50", of 23.6 million. For classes of pixels: "deeplab" or "tiramisu".
        width: of every layer of these two, over that of the papers.
    Raises: BadValue: one of these numbers is too small. UnknownName: another network.
    """

    def __init__(
        self, channels: int, classes: int, members: int = 3, network: str = "small", width: float = 1.0
    ) -> None:
        at_least(1, channels=channels, classes=classes, members=members)
        kinds: dict[str, Callable[[int, int], nn.Module]] = {
            "small": small,
            "resnet50": ResNet50,
            "deeplab": functools.partial(DeepLab, width=width),
            "tiramisu": functools.partial(Tiramisu, width=width),
        }
        if network not in kinds:
            raise UnknownName("network", network, kinds)
        config = {"channels": channels, "classes": classes, "members": members, "network": network, "width": width}
        super().__init__((kinds[network](channels, classes) for _ in range(members)), **config)
        for module in self.modules():
            if isinstance(module, nn.BatchNorm2d):
                module.momentum = MOMENTUM

    @classmethod
    def fit(
        cls,
        images: np.ndarray,
        labels: np.ndarray,
        *,
        classes: int,
        members: int = 3,
        network: str = "small",
        width: float = 1.0,
        weights: Sequence[float] | None = None,
        init: Committee | None = None,
        epochs: int = 10,
        batch: int = 32,
        lr: float = 1e-3,
        seed: int = 0,
        optimizer: str = "adam",
        schedule: Schedule = CONSTANT,
        precision: str = "fp32",
        strategy: str | None = None,
        reservoir: Reservoir | None = None,
        report: Callable[[Record], object] | None = None,
    ) -> Self:
        """Fit to images and their classes; on a GPU where there is one.

        Args:
            images: (n, C, H, W) float, of mean 0 and spread 1, more or less: they are taken as they are.
            labels: (n,) int, 0 to classes - 1; of pixels (n, H, W).
            members, network, width: of the committee.
            weights: (classes,) of the classes in the loss; None: 1 each.
            init: a fitted committee to go on from, left as it is; when its architecture differs the fit begins anew.
            epochs, batch, lr, optimizer, schedule, precision, strategy, reservoir: see
                `steersman.models.fitting.fit.fit`.
            seed: of the first weights and the shuffling.
            report: called with each epoch's record.
        Returns: a new committee in eval mode. Its `history` has per epoch `loss`, the cross-entropy of a member in
            nats, and `wrong`, the share of images or pixels that a member names wrongly while it learns; its card says
            under "warm_start" whether `init` was used, and the `weights`.
        Raises: BadValue: no images, NaN, or labels that do not fit. TrainingDiverged: the loss is not finite.
        """
        if images.ndim != 4:
            raise BadValue("shape", images.shape, "images are (n, channels, rows, columns)")
        if labels.ndim > 1 and labels.shape[1:] != images.shape[2:]:
            raise BadValue("shape", labels.shape, f"labels of pixels are (n, {images.shape[2]}, {images.shape[3]})")
        if not ((labels >= 0) & (labels < classes) & (labels == np.floor(labels))).all():
            raise BadValue("shape", labels.shape, f"labels are whole numbers, 0 to {classes - 1}")
        even = [1.0] * classes
        return fitted(
            lambda: cls(images.shape[1], classes, members, network, width)._weighing(weights or even), images,
            labels.reshape(len(labels), -1), init=init, seed=seed, epochs=epochs, batch=batch, lr=lr,
            optimizer=optimizer, schedule=schedule, precision=precision, strategy=strategy, reservoir=reservoir,
            report=report,
        )  # fmt: skip

    def _weighing(self, weights: Sequence[float]) -> Self:
        self.card["weights"] = [float(each) for each in weights]
        return self

    def loss(self, images_BCHW: Tensor, labels_BT: Tensor) -> dict[str, Tensor]:
        """Means over members and images: weighted cross-entropy, nats, and the share that is wrong."""
        logits_MBK = self(images_BCHW)
        labels_B = labels_BT.long().reshape(len(labels_BT), *logits_MBK.shape[3:])
        wanted = labels_B.expand(len(self.members), *labels_B.shape).flatten(0, 1)
        wrong = (logits_MBK.detach().argmax(2) != labels_B).float().mean()
        weights_K = torch.tensor(self.card["weights"], dtype=torch.float32, device=logits_MBK.device)
        return {"loss": weighted_loss(logits_MBK.flatten(0, 1), wanted, weights_K), "wrong": wrong}

    def probabilities(self, images: np.ndarray) -> np.ndarray:
        """(n, M, K, ...) float32 that each member gives to each class of images (n, C, H, W), or of their pixels."""
        return np.asarray(self.predicted(images).softmax(2))

    def judgement(self, images: np.ndarray, labels: np.ndarray) -> dict[str, np.ndarray]:
        """What it is worth on images (n, C, H, W) whose classes (n,) are known.

        Returns: (n,) each: `disagreement`, nats; `error`, the cross-entropy of the mean, nats; `wrong`, whether
            the mean gives most to another class.
        """
        probabilities, labels = self.probabilities(images), labels.astype(np.int64)
        mean = probabilities.mean(1)
        error = -np.log(np.maximum(mean[np.arange(len(labels)), labels], 1e-12))
        return {"disagreement": disagreement(probabilities), "error": error, "wrong": mean.argmax(1) != labels}


def disagreement(probabilities: np.ndarray) -> np.ndarray:
    """How much of a committee's doubt is that of its members about each other, nats, (n, ...) >= 0.

    The entropy of the mean less the mean entropy: 0 where all members say the same, also when all of them are in doubt,
    as they are when an image is too noisy for anybody; at most log M.

    Args:
        probabilities: (n, M, K, ...).
    Source: Houlsby et al. (2011), Bayesian active learning for classification and preference learning, eq. 2.
    """
    mean = _entropy(probabilities.mean(1), 1) - _entropy(probabilities, 2).mean(1)
    return np.asarray(np.maximum(mean, 0.0))


def small(channels: int, classes: int) -> nn.Sequential:
    """A residual network of five convolutions for images of some 100 pixels across; it knows where things are."""
    return nn.Sequential(
        *(nn.Conv2d(channels, 24, 5, 4, padding=2, bias=False), nn.BatchNorm2d(24), nn.ReLU()),
        ResidualBlock(24, 48),
        ResidualBlock(48, 64),
        nn.AdaptiveAvgPool2d((5, 4)),
        nn.Flatten(),
        nn.Linear(64 * 20, classes),
    )


class ResidualBlock(nn.Module):
    """Two 3x3 convolutions, the first of stride 2, beside a short cut."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            *(nn.Conv2d(inputs, outputs, 3, 2, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU()),
            *(nn.Conv2d(outputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs)),
        )
        self.short_cut = nn.Sequential(nn.Conv2d(inputs, outputs, 1, 2, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x_BCHW: Tensor) -> Tensor:
        """Halve height and width."""
        return torch.relu(self.body(x_BCHW) + self.short_cut(x_BCHW))


def _entropy(probabilities: np.ndarray, axis: int) -> np.ndarray:
    """Of distributions along an axis, nats."""
    p = probabilities.astype(np.float64)
    return np.asarray(-(p * np.log(np.maximum(p, 1e-30))).sum(axis))
