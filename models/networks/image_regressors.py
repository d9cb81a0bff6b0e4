"""Images -> other images, and how unsure they are: a committee of fully convolutional networks.

Axes: B batch, M members, C channels, H and W pixels, S pixels along an edge of what is found, a multiple of 8.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from steersman.models.errors import at_least
from steersman.models.fitting.fit import Record
from steersman.models.networks.committee import MOMENTUM, ResidualBlock
from steersman.models.networks.members import Members, fitted
from steersman.system.errors import BadValue


class ImageRegressors(Members):
    """Images from images: members that learn the same, each from weights of its own.

    Args:
        size: S, a multiple of 8.
        channels: C.
        members: M; one alone has nobody to disagree with.
        width: channels of the first convolution of a member.
    Raises: BadValue: one of these numbers is too small, or the size no multiple of 8.
    """

    def __init__(self, size: int, channels: int, members: int = 3, width: int = 24) -> None:
        at_least(1, channels=channels, members=members, width=width)
        at_least(8, size=size)
        if size % 8:
            raise BadValue("shape", (size, size), "targets have 8, 16, 24, ... pixels along an edge")
        config = {"size": size, "channels": channels, "members": members, "width": width}
        super().__init__((network(size, channels, width) for _ in range(members)), **config)
        for module in self.modules():
            if isinstance(module, nn.BatchNorm2d):
                module.momentum = MOMENTUM

    @classmethod
    def fit(
        cls,
        images: np.ndarray,
        targets: np.ndarray,
        *,
        members: int = 3,
        width: int = 24,
        init: ImageRegressors | None = None,
        epochs: int = 10,
        batch: int = 16,
        lr: float = 1e-3,
        seed: int = 0,
        report: Callable[[Record], object] | None = None,
        **settings: Any,
    ) -> Self:
        """Fit to images and their targets; on a GPU where there is one.

        Each batch is mirrored as a whole, by chance, images and targets alike: the world behind them has no preferred
        direction along their axes.

        Args:
            images: (n, C, H, W) float, near 1 in size, 64 pixels or more along each edge.
            targets: (n, S, S) float, near 1 in size.
            members, width: of the committee.
            init: a fitted committee to go on from, left as it is; when its architecture differs the fit begins anew.
            epochs, batch, lr, and further settings: see `steersman.models.fitting.fit.fit`.
            seed: of the first weights, the shuffling and the mirroring.
            report: called with each epoch's record.
        Returns: a new committee in eval mode. Its `history` has per epoch `loss`, the mean absolute error of a member;
            its card says under "warm_start" whether `init` was used.
        Raises: BadValue: no images, NaN, or targets that do not fit. TrainingDiverged: the loss is not finite.
        """
        if images.ndim != 4:
            raise BadValue("shape", images.shape, "images are (n, channels, rows, columns)")
        if targets.ndim != 3 or targets.shape[1] != targets.shape[2]:
            raise BadValue("shape", targets.shape, "targets are (n, size, size)")
        at_least(2, images=len(images), batch=batch)  # of a single one a batch normalization has no spread
        return fitted(
            lambda: cls(targets.shape[1], images.shape[1], members, width), images, targets.reshape(len(targets), -1),
            init=init, seed=seed, epochs=epochs, batch=batch, lr=lr, report=report, **settings,
        )  # fmt: skip

    def loss(self, images_BCHW: Tensor, targets_BT: Tensor) -> dict[str, Tensor]:
        """Give the mean over members, images and pixels of the absolute error."""
        mirrored = [axis for axis in (-2, -1) if self.training and torch.rand(()) < 0.5]
        found_MBSS = self(images_BCHW.flip(mirrored))
        wanted_BSS = targets_BT.reshape(-1, *found_MBSS.shape[2:]).flip(mirrored)
        return {"loss": functional.l1_loss(found_MBSS, wanted_BSS.expand_as(found_MBSS))}

    def estimates(self, images: np.ndarray) -> np.ndarray:
        """(n, M, S, S) float32 that each member says of images (n, C, H, W)."""
        return np.asarray(self.predicted(images))


def network(size: int, channels: int, width: int) -> nn.Sequential:
    """Convolutions down to one pixel that sees all of the image, and up from it; there is no dense layer.

    In the middle nothing has a place: what is found may lie in another space than the image, as a potential does.
    """
    first, second, third, middle = width, 2 * width, 3 * width, 10 * width
    return nn.Sequential(
        *(nn.Conv2d(channels, first, 5, 4, padding=2, bias=False), nn.BatchNorm2d(first), nn.ReLU()),
        *(ResidualBlock(first, second), ResidualBlock(second, third), nn.AdaptiveAvgPool2d(6)),
        *(nn.Conv2d(third, middle, 6, bias=False), nn.BatchNorm2d(middle), nn.ReLU()),
        *(nn.ConvTranspose2d(middle, third, size // 8, bias=False), nn.BatchNorm2d(third), nn.ReLU()),
        *(*_doubled(third, second), *_doubled(second, first), *_doubled(first, first)),
        *(nn.Conv2d(first, 1, 3, padding=1), nn.Flatten(1, 2)),
    )


def _doubled(inputs: int, outputs: int) -> tuple[nn.Module, ...]:
    """Twice the height and width."""
    up = nn.ConvTranspose2d(inputs, outputs, 4, 2, padding=1, bias=False)
    return up, nn.BatchNorm2d(outputs), nn.ReLU()
