"""How much of a flow few numbers keep: cosine transform, principal components and an autoencoder, at equal numbers.

    python -m lab.shallow_water_compression --json --figure docs/figures/shallow_water_compression.png

Frames of jets at T42 (height, u, v on 64 x 128), the two that learn from some runs, all judged on others: root of the
mean square error over the spread of the field, averaged over the three fields. What is stored once for all frames (the
components, the network) is reported beside, not counted.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from lab import jet_forecasts as jets
from steersman.apps.shallow_water.data import CosineCodec
from steersman.dashboard import style
from steersman.models.fitting.fit import fit
from steersman.models.model import Model
from steersman.models.networks.pca import PCA

NUMBERS = (24, 96, 384)  # of the 24,576 of a frame
DAYS, EPOCHS, BATCH, RATE = 6.0, 20, 16, 1e-3
TICKS = (0.1, 0.2, 0.5, 1.0)  # of the figure

Coder = Callable[[np.ndarray], np.ndarray]  # frames (n, 3, 64, 128) of spread one -> what is left of them


class Autoencoder(Model):
    """Convolutions down to an eighth, a dense layer to `latent` numbers, and back."""

    def __init__(self, latent: int, rows: int = jets.ROWS, width: int = 32) -> None:
        super().__init__(latent=latent, rows=rows, width=width)
        inner = (width, rows // 8, rows // 4)
        size = int(np.prod(inner))
        halve = [nn.Conv2d(3, width, 4, 2, 1), nn.GELU(), nn.Conv2d(width, width, 4, 2, 1), nn.GELU()]
        self.encoder = nn.Sequential(
            *halve, nn.Conv2d(width, width, 4, 2, 1), nn.GELU(), nn.Flatten(), nn.Linear(size, latent)
        )
        double = [nn.ConvTranspose2d(width, width, 4, 2, 1), nn.GELU(), nn.ConvTranspose2d(width, width, 4, 2, 1)]
        self.decoder = nn.Sequential(
            nn.Linear(latent, size), nn.Unflatten(1, inner), nn.GELU(), *double, nn.GELU(),
            nn.ConvTranspose2d(width, 3, 4, 2, 1),
        )  # fmt: skip

    def forward(self, frames: Tensor) -> Tensor:
        """Frames as they come back."""
        found: Tensor = self.decoder(self.encoder(frames))
        return found

    def loss(self, frames: Tensor) -> dict[str, Tensor]:
        """Mean square error."""
        return {"loss": (self(frames) - frames).square().mean()}


def main(argv: Sequence[str] | None = None) -> None:
    """Simulate, fit, and print one JSON object."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", action="store_true", help="the output is always one JSON object")
    parser.add_argument("--runs", type=int, default=16, help="to learn from; a quarter as many are judged")
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    parser.add_argument("--figure", type=Path, help="PNG of the error against the numbers of a frame")
    given = parser.parse_args(argv)
    torch.set_num_threads(1)
    rng = np.random.default_rng(42)
    learnt, judged = (
        jets.truth(rng.standard_normal((runs, 8)), DAYS)[0].reshape(-1, 3, jets.ROWS, 2 * jets.ROWS)
        for runs in (given.runs, given.runs // 4)
    )
    mean, spread = (part(learnt, axis=(0, 2, 3), keepdims=True) for part in (np.mean, np.std))
    learnt, judged = (learnt - mean) / spread, (judged - mean) / spread
    found: dict[str, list[float]] = {name: [] for name in CODERS}
    for numbers in NUMBERS:
        for name, made in CODERS.items():
            found[name].append(error(made(learnt, numbers, given.epochs)(judged), judged))
            print(numbers, name, found[name][-1], file=sys.stderr, flush=True)
    if given.figure:
        draw(found, learnt[0].size, given.figure)
    ratios = [round(learnt[0].size / numbers) for numbers in NUMBERS]
    print(json.dumps({"numbers": NUMBERS, "ratios": ratios, "frames_learnt_from": len(learnt), "error": found}))


def cosine(learnt: np.ndarray, numbers: int, epochs: int) -> Coder:
    """A third of the numbers for each field; nothing is learnt."""
    codec = CosineCodec(learnt.shape[2], learnt.shape[3], numbers // 3)
    return lambda frames: codec.decode(codec.encode(frames))


def components(learnt: np.ndarray, numbers: int, epochs: int) -> Coder:
    """Principal components (proper orthogonal decomposition) of the three fields together."""
    model = PCA.fit(learnt, latent=numbers)
    return lambda frames: model.decode(model.encode(frames)[0]).reshape(frames.shape)


def autoencoder(learnt: np.ndarray, numbers: int, epochs: int) -> Coder:
    """The network above."""
    torch.manual_seed(0)
    frames = torch.from_numpy(learnt)
    model = fit(Autoencoder(numbers), frames, Autoencoder.loss, epochs=epochs, batch=BATCH, lr=RATE)
    return lambda judged: model(torch.from_numpy(judged)).detach().numpy()


CODERS = {"cosine transform": cosine, "principal components": components, "autoencoder": autoencoder}


def error(found: np.ndarray, true: np.ndarray) -> float:
    """Mean over the fields, which have spread one."""
    each = np.sqrt(((found - true) ** 2).mean(axis=(0, 2, 3)) / true.var(axis=(0, 2, 3)))
    return float(f"{each.mean():.3g}")


def draw(found: dict[str, list[float]], size: int, path: Path) -> None:
    """The errors against the ratio of compression."""
    ratios = [size / numbers for numbers in NUMBERS]
    with style.applied():
        figure = style.sheet(2.7)
        axes = figure.subplots()
        for (name, errors), marker in zip(found.items(), "os^", strict=True):
            axes.loglog(ratios, errors, marker=marker, label=name)
        axes.set(xlabel="compression: numbers of a frame over those stored", ylabel="error over the spread of a field")
        style.plain_ticks(axes, ratios, TICKS)
        style.legend_above(axes)
        figure.savefig(path, dpi=170)


if __name__ == "__main__":
    main()
