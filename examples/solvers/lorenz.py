"""Lorenz 96 on two scales: a network learns what the fast variables do to the slow ones, and answers in their place.

gcc -O2 -c $(python -m steersman.client --sources)
gfortran -O3 $(python -m steersman.client --fflags) examples/solvers/lorenz.f90 steersman.o -o lorenz
steersman run examples/solvers/lorenz.py --set program=$PWD/lorenz --rounds

A segment goes where the slow variables with the network take it, and solves all variables from there on: so the network
learns from states that it leads to. `lab/lorenz.py` compares the climates.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from steersman import Params, Workflow, budget, every, models
from steersman.apps.program import program
from steersman.store import Variable

NEAR = (-2, -1, 0, 1, 2)  # slow variables that the network sees
VARIABLES = {
    "time": Variable((), "1", "model time units"),
    "x": Variable(("place",), "1", "slow variables"),
    "u": Variable(("place",), "1", "what the fast variables take away from their rates"),
}


class Lorenz(Params):
    program: str  # its path
    frames_each: int = 20
    coarse: int = 1000
    spin: int = 200
    every: int = 20
    fast: bool = True
    h: float = 0.5
    frames: int = 400
    train_every: int = 100


wf = Workflow("lorenz", Lorenz, stop=lambda p: budget(frames=p.frames))


@wf.simulate(variables=VARIABLES)
def solve(p: Lorenz, start: Any, out: Any) -> None:
    for frame in program([p.program], start, out):
        out.append(**frame)


@wf.answer()
def closure(p: Lorenz, model: Any, inputs: Mapping[str, Any]) -> dict[str, Any]:
    import torch

    with torch.no_grad():
        return {"u": model.values(torch.from_numpy(near(inputs["x"])))[0, :, 0].numpy()}


def near(x: np.ndarray) -> np.ndarray:
    """(..., K, 5): the slow variables around each, of (..., K)."""
    return np.stack([np.roll(x, -by, axis=-1) for by in NEAR], axis=-1)


def pairs(frames: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    return near(frames["x"]).reshape(-1, len(NEAR)), frames["u"].reshape(-1, 1)


@wf.train(when=lambda p: every(frames=p.train_every), window=300)
def fit(p: Lorenz, frames: Mapping[str, Any], last: Any) -> Any:
    x, u = pairs(frames)
    return models.Vectors.fit(x, u, members=1, init=last, epochs=4, batch=256)


@wf.score()
def place(p: Lorenz, model: Any, frames: Mapping[str, Any]) -> dict[str, Any]:
    x, u = pairs(frames)
    wrong = np.asarray(model.estimates(x)).reshape(u.shape) - u
    return {"error": (wrong**2).reshape(len(frames["x"]), -1).mean(axis=1)}
