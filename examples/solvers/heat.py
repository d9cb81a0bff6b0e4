"""A plate that sparks heat, solved in Fortran, in C++ or on ranks of MPI: build the program, then steer it.

gcc -O2 -c $(python -m steersman.client --sources)
gfortran -O2 $(python -m steersman.client --fflags) examples/solvers/heat.f90 steersman.o -o heat
steersman run examples/solvers/heat.py --set program=$PWD/heat
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from steersman import Params, Workflow, budget, every, models
from steersman.apps.program import program
from steersman.steering import Novelty
from steersman.store import Variable

PLATE = {
    "time": Variable((), "1", "steps"),
    "u": Variable(("x", "y"), "1", "temperature"),
    "hottest": Variable(("xy",), "1", "indices, from 1"),
}


class Plate(Params):
    program: str  # its path
    ranks: int = 0  # of mpiexec
    spark: float = 1.0
    frames_each: int = 20
    frames: int = 400
    train_every: int = 100


wf = Workflow("heat", Plate, stop=lambda p: budget(frames=p.frames))


@wf.simulate(variables=PLATE)
def cool(p: Plate, start: Any, out: Any) -> None:
    ranks = ["mpiexec", "-n", str(p.ranks)] if p.ranks else []
    for frame in program([*ranks, p.program], start, out):
        out.append(**frame)


@wf.answer()
def source(p: Plate, model: Any, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Draws the plate towards what the model knows, by a hundredth."""
    u = inputs["u"]
    z, _ = model.encode(u[None])
    return {"source": 0.01 * (model.decode(z).reshape(u.shape) - u)}


@wf.train(when=lambda p: every(frames=p.train_every))
def fit(p: Plate, frames: Mapping[str, Any], last: Any) -> Any:
    return models.PCA.fit(frames["u"], latent=3)


@wf.score()
def place(p: Plate, model: Any, frames: Mapping[str, Any]) -> dict[str, Any]:
    z, error = model.encode(frames["u"])
    return {"z": z, "error": error}


wf.steer(Novelty("z"), explore=0.1)
