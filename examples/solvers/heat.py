"""A plate that sparks heat, solved in Fortran, C++ or on ranks of MPI: the program is built once, then steered.

steersman run examples/solvers/heat.py                        # needs gfortran
steersman run examples/solvers/heat.py --set program=/home/me/heat --set ranks=2
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from steersman import Params, Workflow, budget, every, models
from steersman.apps.program import program
from steersman.steering import Novelty
from steersman.store import Variable

HERE = Path(__file__).resolve().parent
PLATE = {
    "time": Variable((), "1", "steps"),
    "u": Variable(("x", "y"), "1", "temperature"),
    "hottest": Variable(("xy",), "1", "indices, from 1"),
}


class Plate(Params):
    source: str = str(HERE / "heat.f90")
    program: str = ""
    ranks: int = 0
    spark: float = 1.0
    frames_each: int = 20
    frames: int = 400
    train_every: int = 100


wf = Workflow("heat", Plate, stop=lambda p: budget(frames=p.frames))


@wf.prepare
def build(p: Plate) -> str:
    """The path of the program; it is built where there is none yet."""
    if p.program:
        return p.program
    told = [sys.executable, "-m", "steersman.client"]
    words = {each: subprocess.check_output([*told, f"--{each}"], text=True).strip() for each in ("sources", "fflags")}
    subprocess.run(["gcc", "-O2", "-c", words["sources"]], check=True)
    subprocess.run(["gfortran", "-O2", words["fflags"], p.source, "steersman.o", "-o", "heat"], check=True)
    return str(Path("heat").resolve())


@wf.simulate(variables=PLATE)
def cool(p: Plate, start: Any, out: Any) -> None:
    ranks = ["mpiexec", "-n", str(p.ranks)] if p.ranks else []
    for frame in program([*ranks, start.prepared], start, out):
        out.append(**frame)


@wf.answer()
def source(p: Plate, model: Any, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Draws the plate towards what the model knows, by a hundredth."""
    u = inputs["u"]
    z, _ = model.encode(u[None].reshape(1, -1))
    return {"source": 0.01 * (model.decode(z).reshape(u.shape) - u)}


@wf.train(when=lambda p: every(frames=p.train_every))
def fit(p: Plate, frames: Mapping[str, Any], last: Any) -> Any:
    return models.PCA.fit(frames["u"].reshape(len(frames["u"]), -1), latent=3)


@wf.score()
def place(p: Plate, model: Any, frames: Mapping[str, Any]) -> dict[str, Any]:
    z, error = model.encode(frames["u"].reshape(len(frames["u"]), -1))
    return {"z": z, "error": error}


wf.steer(Novelty("z"), explore=0.1)
