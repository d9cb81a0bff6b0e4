"""Vectors -> numbers, and how unsure they are: a committee of small networks.

Axes: n samples, B batch, M members, F numbers of a vector, T targets.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from steersman.models.errors import at_least, real
from steersman.models.fitting.fit import Record
from steersman.models.networks.members import Members, fitted
from steersman.models.networks.scale import spread
from steersman.system.errors import BadValue


class Vectors(Members):
    """Numbers from vectors: members that learn the same, each from weights of its own: a plane, and what bends it.

    Args:
        inputs: F.
        targets: T.
        members: M; one alone has nobody to disagree with.
        width: of both hidden layers; 0: members are planes, which go on straight beyond what they have learned.
    Raises: BadValue: the width is below 0, or another of these numbers below 1.
    """

    layout = torch.contiguous_format
    inputs_mean: Tensor
    inputs_spread: Tensor
    targets_mean: Tensor
    targets_spread: Tensor

    def __init__(self, inputs: int, targets: int = 1, members: int = 3, width: int = 16) -> None:
        at_least(1, inputs=inputs, targets=targets, members=members)
        at_least(0, width=width)
        config = {"inputs": inputs, "targets": targets, "members": members, "width": width}
        super().__init__((Member(inputs, targets, width) for _ in range(members)), **config)
        for name, size in (("inputs", inputs), ("targets", targets)):  # float64: energies are large numbers
            self.register_buffer(f"{name}_mean", torch.zeros(size, dtype=torch.float64))
            self.register_buffer(f"{name}_spread", torch.ones(size, dtype=torch.float64))

    @classmethod
    def fit(
        cls,
        vectors: np.ndarray,
        targets: np.ndarray,
        *,
        members: int = 3,
        width: int = 16,
        init: Vectors | None = None,
        epochs: int = 200,
        batch: int = 16,
        lr: float = 3e-3,
        seed: int = 0,
        report: Callable[[Record], object] | None = None,
        **settings: Any,
    ) -> Self:
        """Fit to vectors and their targets; on a GPU where there is one.

        Args:
            vectors: (n, F) numbers, of any size: they are taken relative to their mean and spread.
            targets: (n, T) numbers, the same.
            members, width: of the committee.
            init: a fitted committee to go on from, left as it is, with its means and spreads; when its architecture
                differs the fit begins anew.
            epochs, batch, lr, and further settings: see `steersman.models.fitting.fit.fit`.
            seed: of the first weights and the shuffling.
            report: called with each epoch's record.
        Returns: a new committee in eval mode. Its `history` has per epoch `loss`, the mean square error of a member
            over the variance of the targets; its card says under "warm_start" whether `init` was used.
        Raises: BadValue: no vectors, NaN, or targets that do not fit. TrainingDiverged: the loss is not finite.
        """
        if vectors.ndim != 2 or targets.ndim != 2:
            raise BadValue(
                "shape", vectors.shape, f"vectors are (n, numbers), and targets, {targets.shape}, (n, targets)"
            )
        sizes = vectors.shape[1], targets.shape[1], members, width
        new = cls(*sizes)
        scales = init if init is not None and init.fits(new) else new._scaled(vectors, targets)
        return fitted(
            lambda: cls(*sizes)._scaled(vectors, targets), scales.relative("inputs", vectors),
            scales.relative("targets", targets), init=init, seed=seed, epochs=epochs, batch=batch, lr=lr,
            report=report, **settings,
        )  # fmt: skip

    def _scaled(self, vectors: np.ndarray, targets: np.ndarray) -> Self:
        for name, samples in (("inputs", real(vectors)), ("targets", real(targets))) if len(vectors) else ():
            spreads = spread(samples)
            getattr(self, f"{name}_mean").copy_(torch.from_numpy(samples.mean(0, dtype=np.float64)))
            getattr(self, f"{name}_spread").copy_(torch.from_numpy(np.where(spreads > 0, spreads, 1.0)))
        return self

    def relative(self, name: str, samples: np.ndarray) -> np.ndarray:
        """(n, ...) float64: "inputs" or "targets", less their mean, over their spread."""
        mean, spread = (np.asarray(getattr(self, f"{name}_{what}").cpu()) for what in ("mean", "spread"))
        return np.asarray((samples - mean) / spread)

    def loss(self, vectors_BF: Tensor, targets_BT: Tensor) -> dict[str, Tensor]:
        """Give the mean over members, vectors and targets of the square error, of relative numbers."""
        found_MBT = super().forward(vectors_BF)
        return {"loss": functional.mse_loss(found_MBT, targets_BT.expand_as(found_MBT))}

    def forward(self, vectors: Tensor) -> Tensor:
        """(M, n, T) float64 that each member says of vectors (n, F), on the device of the model."""
        relative = ((vectors - self.inputs_mean) / self.inputs_spread).to(next(self.parameters()).dtype)
        return super().forward(relative).double() * self.targets_spread + self.targets_mean

    @torch.no_grad()
    def estimates(self, vectors: np.ndarray) -> np.ndarray:
        """(n, M, T) float64 that each member says of vectors (n, F)."""
        numbers = torch.from_numpy(np.ascontiguousarray(real(vectors), np.float64))
        said: Tensor = self(numbers.to(self.device))
        return said.transpose(0, 1).cpu().numpy()


class Member(nn.Module):
    """A plane, and a network of two hidden layers on top, if they have a width."""

    def __init__(self, inputs: int, targets: int, width: int) -> None:
        super().__init__()
        self.plane = nn.Linear(inputs, targets)
        self.bent = width and nn.Sequential(
            *(nn.Linear(inputs, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh()),
            nn.Linear(width, targets, bias=False),
        )

    def forward(self, vectors_BF: Tensor) -> Tensor:
        """(B, T)."""
        plane: Tensor = self.plane(vectors_BF)
        return plane + self.bent(vectors_BF) if self.bent else plane
