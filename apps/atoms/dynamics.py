"""One segment of molecular dynamics by a calculator of ASE, which goes on exactly where another ended."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import ase
import numpy as np
from ase import units
from ase.constraints import FixAtoms
from ase.md.langevinbaoab import LangevinBAOAB

from steersman.stages.segment import Segment
from steersman.stages.start import Start
from steersman.store import Variable
from steersman.system.errors import BadValue
from steersman.system.numbers import NotNegative, Positive, check

VARIABLES = {
    "time": Variable((), "ps", "since the segment's start"),
    "numbers": Variable(("atom",), "1", "atomic numbers"),
    "positions": Variable(("atom", "xyz"), "angstrom", "positions, not put back into the box"),
    "cell": Variable(("vector", "xyz"), "angstrom", "vectors of the box, 0 in directions that have none"),
    "energy": Variable((), "eV", "potential energy, as the calculator says"),
    "forces": Variable(("atom", "xyz"), "eV/angstrom", "forces, as the calculator says"),
    "temperature": Variable((), "K", "instantaneous temperature"),
    "spread": Variable((), "eV/angstrom", "by how much members of a committee differ, 0 of others"),
}
BAR = 1e-4 * units.GPa
BAROSTAT = {"p_eps", "force_eps"}  # its momentum and force, as ASE names them


def run(
    start: Start,
    out: Segment,
    calculator: Any,
    *,
    temperature_K: float,
    segment_ps: float = 1.0,
    frame_ps: float = 0.05,
    timestep_fs: float = 2.0,
    relaxation_ps: float = 0.1,
    pressure_bar: float | None = None,
    doubt_above: float | None = None,
) -> None:
    """Langevin dynamics at constant volume, or constant pressure, in a cell that keeps its shape; BAOAB.

    It begins at `start.prepared`, atoms of ASE, with velocities of its own, or goes on exactly. Where the spread of a
    committee goes beyond a bound, the frame is stored, its label is asked for, and the segment ends without a state:
    nothing goes on from there.

    Args:
        calculator: of ASE; of a committee, such as `Potential.calculator()`, its `spread` is stored.
        segment_ps, frame_ps: length, and time between stored frames.
        relaxation_ps: of the thermostat; the barostat's is 20 times as long.
        pressure_bar: None: constant volume.
        doubt_above: bound on the spread, eV/angstrom; None: none.
    Raises: BadValue: a number that makes no sense; forces that are not finite; constraints but `FixAtoms` at constant
        volume.
    Source: Leimkuhler and Matthews (2013), J. Chem. Phys. 138 174102.
    """
    where = "atoms.run"
    check(where, Positive, temperature_K=temperature_K, segment_ps=segment_ps, frame_ps=frame_ps)
    check(where, Positive, timestep_fs=timestep_fs, relaxation_ps=relaxation_ps)
    check(where, Positive | None, doubt_above=doubt_above)
    rng = np.random.default_rng(out.seed)
    atoms = _begin(start, temperature_K, rng)
    if others := [each for each in atoms.constraints if pressure_bar is not None or not isinstance(each, FixAtoms)]:
        raise BadValue("constraints of the atoms", others, "only FixAtoms is kept, at constant volume")
    atoms.calc = calculator
    tau, held = 1e3 * relaxation_ps * units.fs, dict[str, Any]()
    if pressure_bar is not None:
        held = {"externalstress": -pressure_bar * BAR, "hydrostatic": True, "P_tau": 20 * tau}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # ASE says which mass of the barostat it takes
        dynamics = LangevinBAOAB(atoms, timestep_fs * units.fs, temperature_K=temperature_K, T_tau=tau, rng=rng, **held)
    for name in BAROSTAT.intersection(start.state):
        setattr(dynamics, name, np.array(start.state[name]))
    every = max(1, round(1e3 * frame_ps / timestep_fs))
    for number in range(1, max(1, round(segment_ps / frame_ps)) + 1):
        for step in range((number - 1) * every + 1, number * every + 1):
            dynamics.run(1)
            if doubt_above is not None and calculator.results.get("spread", 0.0) > doubt_above:
                _append(out, atoms, step * timestep_fs * 1e-3)
                out.label()
                out.state()
                return
        _append(out, atoms, number * every * timestep_fs * 1e-3)
        barostat = {name: np.asarray(getattr(dynamics, name)) for name in BAROSTAT if pressure_bar is not None}
        out.state(positions=atoms.get_positions(), momenta=atoms.get_momenta(), cell=np.array(atoms.cell), **barostat)
        if out.stopped:
            return


def rattle(start: Start, out: Segment, calculator: Any = None, *, frames: int = 20, stdev: float = 0.1,
           strain: float = 0.02) -> None:  # fmt: skip
    """Frames around `start.prepared` before there is a potential: atoms displaced and cells strained at random.

    Args:
        calculator: what says energy and forces; None: both are stored as 0.
        frames: how many.
        stdev: of each component of a displacement, angstrom.
        strain: standard deviation of each component of the strain.
    """
    check("atoms.rattle", NotNegative, stdev=stdev, strain=strain)
    rng = np.random.default_rng(out.seed)
    for _ in range(frames):
        atoms = start.prepared.copy()
        atoms.set_cell(np.array(atoms.cell) @ (np.eye(3) + rng.normal(0, strain, (3, 3))), scale_atoms=True)
        atoms.positions += rng.normal(0, stdev, atoms.positions.shape)
        atoms.calc = calculator
        _append(out, atoms, 0.0)
        if out.stopped:
            return


def atoms_of(frame: Mapping[str, np.ndarray]) -> Any:
    """The atoms of a stored frame, for ASE."""
    cell = np.asarray(frame["cell"], float)
    return ase.Atoms(frame["numbers"], frame["positions"], cell=cell, pbc=np.abs(cell).sum(axis=1) > 0)


def _begin(start: Start, temperature_K: float, rng: np.random.Generator) -> Any:
    atoms = start.prepared.copy()
    state = start.state
    if state:
        atoms.set_cell(state["cell"])
        atoms.set_positions(state["positions"], apply_constraint=False)
        atoms.set_momenta(state["momenta"])
        return atoms
    if len(start.frame):
        atoms.set_cell(np.where(atoms.pbc[:, None], start.frame["cell"], atoms.cell))
        atoms.set_positions(start.frame["positions"], apply_constraint=False)
    momenta = rng.normal(size=(len(atoms), 3)) * np.sqrt(atoms.get_masses() * units.kB * temperature_K)[:, None]
    atoms.set_momenta(momenta - momenta.mean(axis=0))
    return atoms


def box_of(atoms: Any) -> np.ndarray:
    """(3, 3) vectors of the box, 0 in directions in which it does not repeat: so `atoms_of` knows which these are."""
    return np.where(atoms.pbc[:, None], atoms.cell, 0.0)


def _append(out: Segment, atoms: Any, time_ps: float) -> None:
    if atoms.calc is None:
        energy, forces, spread = 0.0, np.zeros_like(atoms.positions), 0.0
    else:
        energy, forces = atoms.get_potential_energy(), atoms.get_forces(apply_constraint=False)
        spread = atoms.calc.results.get("spread", 0.0)
    if not np.isfinite(forces).all() or not np.isfinite(atoms.positions).all():
        raise BadValue("forces", "not finite", "it exploded: give a shorter timestep_fs, or a lower doubt_above")
    out.append(
        time=time_ps, numbers=atoms.numbers.astype(np.int16), positions=atoms.get_positions(),
        cell=box_of(atoms), energy=energy, forces=forces, temperature=atoms.get_temperature(),
        spread=float(spread),
    )  # fmt: skip
