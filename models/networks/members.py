"""Networks that learn the same samples, each from weights of its own: what committees have in common.

Axes: B batch, M members.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from steersman.models import device
from steersman.models.errors import real
from steersman.models.fitting.fit import fit, seeded
from steersman.models.model import Model
from steersman.system.errors import BadValue

BATCH = 16  # samples that are predicted at once

MembersT = TypeVar("MembersT", bound="Members")


class Members(Model):
    """A committee; a subclass says in `loss` what its members learn, and in `layout` how their weights lie.

    Args:
        networks: the members.
        config: as of `Model`.
    Source: Lakshminarayanan, Pritzel and Blundell (2017), Simple and scalable predictive uncertainty estimation using
        deep ensembles.
    """

    layout = torch.channels_last  # docs/training.md

    def __init__(self, networks: Iterable[nn.Module], **config: Any) -> None:
        super().__init__(**config)
        self.members = nn.ModuleList(networks)
        self.to(torch.float32, memory_format=self.layout)  # type: ignore[call-overload]

    def forward(self, samples: Tensor) -> Tensor:
        """Give what each member says, (M, B, ...), of samples (B, ...)."""
        return torch.stack([member(samples.contiguous(memory_format=self.layout)) for member in self.members])

    def loss(self, samples: Tensor, targets: Tensor) -> dict[str, Tensor]:
        """Means over members and samples (B, ...) with targets (B, T) float; "loss" is the one to lower."""
        raise NotImplementedError

    @torch.no_grad()
    def predicted(self, samples: np.ndarray) -> Tensor:
        """What each member says, (n, M, ...) float32, of samples (n, ...)."""
        real(samples)
        parts = (torch.from_numpy(samples[i : i + BATCH].astype(np.float32)) for i in range(0, len(samples), BATCH))
        return torch.cat([self(part.to(self.device)).transpose(0, 1).cpu() for part in parts])


def fitted(
    build: Callable[[], MembersT],
    samples: np.ndarray,
    targets: np.ndarray,
    *,
    init: Model | None,
    seed: int,
    **settings: Any,
) -> MembersT:
    """Fit a committee that `build` makes; on a GPU where there is one.

    Args:
        samples: (n, ...) float, at least one.
        targets: (n, T) numbers.
        init: a fitted committee to go on from, left as it is; when its architecture differs the fit begins anew.
        seed: of the first weights and the shuffling.
        settings: of `steersman.models.fitting.fit.fit`.
    Returns: it, in eval mode; its card says under "warm_start" whether `init` was used.
    Raises: BadValue: no samples, NaN, or not as many targets.
    """
    if len(samples) != len(targets) or not len(samples):
        raise BadValue("shape", samples.shape, f"there is one sample, at least, for each of {len(targets)} targets")
    real(samples), real(targets)
    if not (np.isfinite(samples).all() and np.isfinite(targets).all()):
        raise BadValue("shape", samples.shape, "samples and targets are finite numbers")
    with seeded(seed):
        model = build()
    model.warm_start(init)
    model.to(device.best())
    data = tuple(torch.from_numpy(part.astype(np.float32)) for part in (samples, targets))
    return fit(model, data, lambda committee, *batch: committee.loss(*batch), seed=seed, **settings)
