"""Train the CVAE on a recorded window with two ranks, and draw where the time went: `make train-demo`.

The window is that of a run (`--run runs/fold-...`), or, without one, 4,096 maps of 28 residues of chains that are
helical in one stretch: drawn, not simulated, and recorded as a walker would. Writes into `--out`: model/ with the
profile in its card, profile.png and profile.svg.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from lab import epochs
from steersman.benchmarks.networks import chains
from steersman.benchmarks.train import say
from steersman.dashboard import style
from steersman.models import CVAE
from steersman.models.ranks.launch import launch
from steersman.store import FRAME, Frames, GroupWriter, Variable, Window

MAPS, SIZE = 4096, 28
CONTACTS = Variable(("residue", "other_residue"), "1", "contacts")


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(prog="python -m lab.train_demo", description=__doc__)
    parser.add_argument("--run", type=Path, help="a run whose frames hold contacts")
    parser.add_argument("--out", type=Path, default=Path("runs/train-demo"))
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--strategy", default="local_sgd")
    chosen = parser.parse_args(list(arguments))
    frames = chosen.run / "frames.zarr" if chosen.run else recorded(chosen.out / "frames.zarr")
    wanted = {"frames": str(frames), "epochs": chosen.epochs}
    target = "lab.train_demo:train"
    model = launch(target, wanted, ranks=2, strategy=chosen.strategy, folder=chosen.out / "ranks")
    model.save(chosen.out / "model")
    with style.applied():
        figure, caption = epochs.drawn(model.history)
        for kind in ("png", "svg"):
            figure.savefig(chosen.out / f"profile.{kind}")
    first, last = model.history[0]["loss"], model.history[-1]["loss"]
    say(f"loss {first:.1f} -> {last:.1f} nats a map on 2 ranks; {caption}\n{chosen.out / 'profile.png'}")


def recorded(path: Path) -> Path:
    """Record the drawn maps once."""
    if not path.exists():
        writer = GroupWriter(path / "walker0000", variables={"contacts": CONTACTS})
        writer.extend(FRAME, {"contacts": chains(MAPS, SIZE).numpy().astype(bool)})
        writer.publish()
    return path


def train(frames: str, epochs: int) -> CVAE:
    """Be one rank: read the window, fit."""
    found = Frames(Path(frames))
    return CVAE.fit(Window(found, found.spans())["contacts"], epochs=epochs)


if __name__ == "__main__":
    main(sys.argv[1:])
