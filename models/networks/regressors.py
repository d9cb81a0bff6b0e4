"""Cubes -> numbers, and how unsure they are: a committee of CosmoFlow's networks.

Axes: B batch, M members, C channels, S voxels along an edge, T targets.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from steersman.models.errors import at_least
from steersman.models.fitting.fit import Record
from steersman.models.networks.cosmoflow import CosmoFlow
from steersman.models.networks.members import Members, fitted
from steersman.system.errors import BadValue


class Regressors(Members):
    """Numbers from cubes: members that learn the same cubes, each from weights of its own.

    Args:
        size: S, a multiple of 32.
        channels: C.
        targets: T.
        members: M; one alone has nobody to disagree with.
        width: of a member, see `CosmoFlow`; the paper's is 32.
    Raises: BadValue: one of these numbers is below 1, or the size below 32.
    """

    layout = torch.channels_last_3d

    def __init__(self, size: int, channels: int, targets: int, members: int = 3, width: int = 8) -> None:
        at_least(1, members=members)
        config = {"size": size, "channels": channels, "targets": targets, "members": members, "width": width}
        networks = (CosmoFlow(size, channels, targets, width, dropout=0.0) for _ in range(members))
        super().__init__(networks, **config)

    @classmethod
    def fit(
        cls,
        cubes: np.ndarray,
        targets: np.ndarray,
        *,
        members: int = 3,
        width: int = 8,
        init: Regressors | None = None,
        epochs: int = 10,
        batch: int = 16,
        lr: float = 1e-3,
        seed: int = 0,
        report: Callable[[Record], object] | None = None,
        **settings: Any,
    ) -> Self:
        """Fit to cubes and their targets; on a GPU where there is one.

        Each batch is turned and mirrored as a whole, by chance: a cube has no preferred direction.

        Args:
            cubes: (n, C, S, S, S) float, 0 or more, with mean 1, such as densities; see `CosmoFlow`.
            targets: (n, T), from -1 to 1.
            members, width: of the committee.
            init: a fitted committee to go on from, left as it is; when its architecture differs the fit begins anew.
            epochs, batch, lr, and further settings: see `steersman.models.fitting.fit.fit`.
            seed: of the first weights, the shuffling and the turning.
            report: called with each epoch's record.
        Returns: a new committee in eval mode. Its `history` has per epoch `loss`, the mean square error of a member,
            and `error`, its mean absolute error; its card says under "warm_start" whether `init` was used.
        Raises: BadValue: no cubes, NaN, or targets that do not fit. TrainingDiverged: the loss is not finite.
        """
        if cubes.ndim != 5 or len(set(cubes.shape[2:])) > 1:
            raise BadValue("shape", cubes.shape, "cubes are (n, channels, size, size, size)")
        if targets.ndim != 2 or np.abs(targets).max(initial=0) > 1:
            raise BadValue("shape", targets.shape, "targets are (n, targets), from -1 to 1")
        return fitted(
            lambda: cls(cubes.shape[2], cubes.shape[1], targets.shape[1], members, width), cubes, targets, init=init,
            seed=seed, epochs=epochs, batch=batch, lr=lr, report=report, **settings,
        )  # fmt: skip

    def loss(self, cubes_BCSSS: Tensor, targets_BT: Tensor) -> dict[str, Tensor]:
        """Means over members, cubes and targets: square and absolute error."""
        found_MBT = self(turned(cubes_BCSSS) if self.training else cubes_BCSSS)
        wanted = targets_BT.expand_as(found_MBT)
        error = (found_MBT.detach() - wanted).abs().mean()
        return {"loss": functional.mse_loss(found_MBT, wanted), "error": error}

    def estimates(self, cubes: np.ndarray) -> np.ndarray:
        """(n, M, T) float32 that each member says of cubes (n, C, S, S, S)."""
        return np.asarray(self.predicted(cubes))


def turned(cubes_BCSSS: Tensor) -> Tensor:
    """Turn and mirror a batch of cubes as a whole, one of the 48 ways, by chance."""
    axes = (2 + torch.randperm(3)).tolist()
    mirrored = [axis for axis in (2, 3, 4) if torch.rand(()) < 0.5]
    return cubes_BCSSS.permute(0, 1, *axes).flip(mirrored)
