"""Melt argon with LAMMPS: an external program as a walker, read while it runs, stopped and restarted from its frames.

steersman run examples/argon.py             (Debian: apt install lammps; else --set program=/path/of/lmp)
"""

from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from pydantic import Field

from steersman import Params, Workflow, budget, reached
from steersman.apps import lammps
from steersman.apps.command import command
from steersman.steering import Novelty
from steersman.store import Variable

# Lennard-Jones units: lengths in sigma, energies in epsilon, times in sigma sqrt(mass / epsilon), about 2 ps for argon.
DENSITY, TIMESTEP = 0.8442, 0.005
INPUT = """
units lj
atom_style atomic
read_data start.data
pair_style lj/cut 2.5
pair_coeff 1 1 1.0 1.0
fix 1 all nve
timestep {timestep}
dump 1 all custom {every} frames.dump id xu yu zu vx vy vz
dump_modify 1 format float %.17g
run {steps}
"""


class Argon(Params):
    cells: int = Field(4, ge=3)  # of the crystal along an edge, four atoms each
    temperature: float = Field(3.0, gt=0)  # of the crystal at first; half of it melts the bonds
    kick: float = Field(0.01, ge=0)  # share of random velocity when a frame is started from again
    steps: int = Field(1000, ge=50)  # of a segment
    every: int = Field(50, ge=1)  # steps between frames
    frames: int = Field(2000, ge=1)  # budget
    melted: float = Field(0.1, ge=0)  # order at which the crystal is gone
    program: str = "lmp"


wf = Workflow("argon", Argon, stop=lambda p: budget(frames=p.frames) | reached("order_left", p.melted, below=True))


def cell(p):
    return (4 / DENSITY) ** (1 / 3)  # edge of a cell


@wf.prepare
def crystal(p):
    corners = np.array(list(product(range(p.cells), repeat=3)), dtype=float)
    basis = np.array([[0, 0, 0], [0, 0.5, 0.5], [0.5, 0, 0.5], [0.5, 0.5, 0]])
    return (corners[:, None] + basis).reshape(-1, 3) * cell(p)


@wf.simulate(
    variables={
        "time": Variable((), "1", "simulated time, sigma sqrt(m/epsilon)"),
        "position": Variable(("atom", "xyz"), "1", "position, sigma"),
        "velocity": Variable(("atom", "xyz"), "1", "velocity, sqrt(epsilon/m)"),
    }
)
def melt(p, start, out):
    position = start.frame.get("position", start.prepared)
    noise = np.random.default_rng(out.seed).normal(size=position.shape) * p.temperature**0.5
    velocity = start.frame["velocity"] + p.kick * noise if start.frame else noise - noise.mean(axis=0)
    with TemporaryDirectory(prefix="argon-") as folder:
        lammps.write_data(Path(folder, "start.data"), position, velocity, p.cells * cell(p))
        Path(folder, "in.argon").write_text(INPUT.format(timestep=TIMESTEP, every=p.every, steps=p.steps))
        program = [p.program, "-in", "in.argon", "-log", "none", "-screen", "none"]
        for frame in command(program, reader=lammps.dump("frames.dump"), cwd=folder, stop=lambda: out.stopped):
            if frame.step:  # at step 0 it is the start
                position, velocity = frame.vectors("xu", "yu", "zu"), frame.vectors("vx", "vy", "vz")
                out.append(time=frame.step * TIMESTEP, position=position, velocity=velocity)


@wf.score()
def order(p, model, frames):
    """How much of the crystal's wave is left in each frame: 1 in the crystal, about 1 / sqrt(atoms) in the melt."""
    wave = 2 * np.pi / cell(p) * np.array([-1, 1, -1])
    return {"order": np.abs(np.exp(1j * (frames["position"] @ wave)).mean(axis=1))}


wf.steer(Novelty("order"), explore=0.1)


@wf.metric
def order_left(scores):
    return scores.values["order"].min()
