"""GROMACS -> frames: segments of `gmx mdrun` that continue the end of one exactly, or begin at any frame.

Axes: A atoms, B bonds, 3 space. Units: nm, ps.
"""

from __future__ import annotations

import re
import string
import warnings
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import connected_components

from steersman.apps.command import command
from steersman.apps.errors import wrong_start
from steersman.apps.periodic import nearest_image
from steersman.apps.trr import Snapshot, frame_bytes, trajectory
from steersman.stages.start import Start
from steersman.store import Variable
from steersman.system.errors import BadInput, BadValue, MissingExtra

VARIABLES = {
    "time": Variable((), "ps", "time since the segment's start"),
    "positions": Variable(("atom", "xyz"), "nm", "atom positions, molecules whole"),
    "velocities": Variable(("atom", "xyz"), "nm ps-1", "atom velocities"),
    "box": Variable(("vector", "xyz"), "nm", "vectors of the periodic box"),
}
GROMPP = ("gmx", "grompp")
MDRUN = ("gmx", "mdrun", "-nt", "1", "-pin", "off")
FILES = ("conf.gro", "topol.top", "index.ndx", "*.itp", "*.prm", "*.ff/*")
DYNAMICS = ("md", "md-vv", "md-vv-avek", "sd", "bd")  # integrators with velocities; the first is GROMACS's default
MOST_CONECT = 99_999  # atoms that a PDB file can number
SEEDS = 2**31  # GROMACS takes an int


@dataclass(frozen=True, eq=False)
class System:
    """What segments are made of, as plain data that pickle carries. Equal only to itself.

    Args:
        files: by name: conf.gro, topol.top and what it includes; index.ndx where there is one.
        atoms: number of atoms A.
        layers: bonds as they lead away from the first atom of each molecule, (from, to) atoms, each atom reached once.
        pdb: the atoms and the start as PDB text, for viewers and exports.
    """

    files: Mapping[str, str] = field(repr=False)
    atoms: int
    layers: Sequence[tuple[np.ndarray, np.ndarray]] = field(repr=False)
    pdb: str = field(repr=False)


@dataclass(frozen=True, eq=False)
class Frame:
    """One moment of a trajectory.

    Args:
        time: since the segment's start, ps.
        positions: (A, 3) float32, nm; molecules are whole, each in any image.
        velocities: (A, 3) float32, nm/ps; of `integrator = md` half a step earlier, as GROMACS has them.
        box: (3, 3) float32, nm; its vectors.
        state: what continues the segment exactly, for `out.state`. Of the last frame it is GROMACS's checkpoint. Of
            others, after which a segment was stopped, it is positions, velocities and box, which leaves out what
            Nose-Hoover and Parrinello-Rahman coupling remember.
    """

    time: float
    positions: np.ndarray
    velocities: np.ndarray
    box: np.ndarray
    state: Mapping[str, bytes | int] = field(repr=False)


def tool(folder: str | Path, *words: str | Path) -> None:
    """Run a program to its end, e.g. `tool(folder, "gmx", "solvate", ...)`; nobody answers its questions.

    Raises: CommandFailed, with what it said last. BadInput: there is none.
    """
    for _ in command(words, reader=lambda _: (), cwd=folder):
        pass


def system(folder: str | Path, settings: str, *, grompp: Sequence[str] = GROMPP) -> System:
    """Read conf.gro, topol.top, what it includes (*.itp, *.prm, *.ff), and index.ndx of a folder; grompp checks them.

    Args:
        settings: of the segments, as for `run`.
        grompp: the program, and words of its own such as -maxwarn.
    Raises:
        CommandFailed: grompp finds an error.
        BadInput: MDAnalysis cannot read what grompp made, for it is older than this GROMACS.
        MissingExtra: MDAnalysis is not installed.
    """
    folder = Path(folder)
    paths = (path for pattern in FILES for path in sorted(folder.glob(pattern)))
    files = {str(path.relative_to(folder)): path.read_text() for path in paths}
    with TemporaryDirectory(prefix="gromacs-") as name:
        _prepare(Path(name), files, settings, grompp)
        return _system(Path(name), files)


def run(
    start: Start,
    settings: str,
    *,
    seed: int,
    grompp: Sequence[str] = GROMPP,
    mdrun: Sequence[str] = MDRUN,
    stop: Callable[[], bool] = lambda: False,
) -> Generator[Frame, None, None]:
    """Simulate one segment by mdrun and give its frames while it goes on.

    Args:
        start: `prepared` is the System. With a `state` the segment continues exactly. Else it begins at the positions
            and the box of the `frame`, or at the prepared ones. If the frame has velocities, they are taken; else they
            are drawn from the seed, at gen-temp or ref-t.
        settings: text of an .mdp file. nsteps is the length of a segment; nstxout, which divides it, are the steps
            between frames. These are set here, whatever the text says: nstvout, gen-vel, gen-seed, ld-seed,
            continuation, init-step and tinit.
        seed: `out.seed31`, of drawn velocities and of a thermostat's noise.
        grompp: the program, and words of its own such as -maxwarn.
        mdrun: the program, and words of its own, e.g. ("srun", "gmx_mpi", "mdrun").
        stop: whether to end the segment now.
    Returns: frames at nstxout, 2 nstxout, ... up to nsteps.
    Raises:
        TypeError: there is no System.
        CommandFailed: grompp or mdrun fails; the frames before that have been given.
        BadInput: there is no such program.
        BadValue: a setting that cannot be run.
        BadInput: arrays that do not fit the system.
    """
    if not isinstance(start.prepared, System):
        raise TypeError(f"start.prepared is a {type(start.prepared).__name__}; prepare a System by gromacs.system")
    if not 0 < seed < SEEDS:
        raise BadValue("seed", seed, f"give 1 to {SEEDS - 1}: out.seed31")
    if start.bias is not None:
        raise BadValue("bias", "set", "give None: GROMACS is pushed by PLUMED only, see docs/bias.md")
    return _segment(start, _Plan.of(settings, seed), grompp, mdrun, stop)


@dataclass(frozen=True)
class _Plan:
    """Settings of a segment: the text of an .mdp file, and what is read from it."""

    text: str
    seed: int
    steps: int
    every: int
    step_ps: float
    temperature: str  # of velocities that are drawn, K; "" where none is given

    @classmethod
    def of(cls, text: str, seed: int) -> _Plan:
        """Raises: BadValue."""
        given = dict(filter(None, map(_option, text.splitlines())))
        if (integrator := given.get("integrator", DYNAMICS[0]).lower()) not in DYNAMICS:
            raise BadValue("integrator", integrator, f"give one of {', '.join(DYNAMICS)}")
        steps, every = (_number(given, name) for name in ("nsteps", "nstxout"))
        if every < 1 or every != int(every):
            raise BadValue("nstxout", every, "give 1 or more: the steps between frames")
        if steps < every or steps % every:
            raise BadValue("nsteps", steps, f"give a whole number of nstxout, {every:g}")
        temperature = (given.get("gentemp") or given.get("reft", "")).split()
        step_ps = float(given.get("dt", "0.001"))  # GROMACS's default
        return cls(text, seed, int(steps), int(every), step_ps, temperature[0] if temperature else "")

    def settings(self, *, first: int = 0, drawn: bool) -> str:
        """Text of the .mdp file of a segment that begins with that step. Raises: BadValue."""
        if drawn and not self.temperature:
            raise BadValue("gen-temp", "not set", "give the temperature of velocities that are drawn, K")
        own: dict[str, Any] = {
            "nsteps": first + self.steps, "nstvout": self.every, "init-step": 0, "tinit": 0,
            "ld-seed": self.seed, "gen-seed": self.seed, "gen-vel": "yes" if drawn else "no",
            "continuation": "no" if drawn else "yes",
        }  # fmt: skip
        own |= {"gen-temp": self.temperature} if drawn else {}
        names = {name.replace("-", "") for name in own}
        kept = [line for line in self.text.splitlines() if (_option(line) or ("", ""))[0] not in names]
        return "\n".join([*kept, *(f"{name} = {value}" for name, value in own.items()), ""])


def _option(line: str) -> tuple[str, str] | None:
    """Name, without what GROMACS does not look at, and value of a line of an .mdp file; None: it sets nothing."""
    name, equals, value = line.partition(";")[0].partition("=")
    return (re.sub(r"[-_\s]", "", name).lower(), value.strip()) if equals else None


def _number(given: Mapping[str, str], name: str) -> float:
    try:
        return float(given[name])
    except (KeyError, ValueError):
        raise BadValue(name, given.get(name, "not set"), "give a number in the settings") from None


def _segment(
    start: Start, plan: _Plan, grompp: Sequence[str], mdrun: Sequence[str], stop: Callable[[], bool]
) -> Generator[Frame, None, None]:
    with TemporaryDirectory(prefix="gromacs-") as name:
        folder, asked = Path(name), False
        first = _begin(folder, start, plan, grompp)
        words = [*mdrun, "-s", "run.tpr", "-o", "run.trr", "-cpo", "after.cpt", "-noappend"]
        words += ["-cpi", "before.cpt"] if first else []

        def ask() -> bool:
            nonlocal asked
            asked = asked or stop()
            return asked

        last = None
        for each in command(words, reader=trajectory("run*.trr"), cwd=folder, stop=ask):
            number = (each.step - first) % 2**32  # a .trr has but 32 bits for it
            if number == plan.steps:
                last = each
            elif number:  # else it is the start
                yield _frame(start.prepared, each, number * plan.step_ps, {"frame": each.data})
        if last and asked:
            yield _frame(start.prepared, last, plan.steps * plan.step_ps, {"frame": last.data})
        elif last:
            state: dict[str, bytes | int] = {
                "checkpoint": (folder / "after.cpt").read_bytes(),
                "step": first + plan.steps,
            }
            yield _frame(start.prepared, last, plan.steps * plan.step_ps, state)


def _begin(folder: Path, start: Start, plan: _Plan, grompp: Sequence[str]) -> int:
    """Make run.tpr, and return the step of before.cpt that mdrun goes on from; 0: it begins without.

    Raises: BadInput, CommandFailed.
    """
    state, first, drawn, before = start.state, 0, False, "before.trr"
    if "checkpoint" in state:
        before, data = "before.cpt", state["checkpoint"]
        if state["step"] % plan.every == 0:  # else frames would lie between: it begins with these positions, velocities
            first = int(state["step"])
    elif "frame" in state:
        data = state["frame"]
    else:
        data, drawn = _given(start)
    if data:
        (folder / before).write_bytes(data)
    words = ["-t", before] if data else []
    _prepare(folder, start.prepared.files, plan.settings(first=first, drawn=drawn), grompp, *words)
    return first


def _given(start: Start) -> tuple[bytes, bool]:
    """A .trr of the frame, if there is one, and whether it has no velocities. Raises: BadInput."""
    frame, atoms = dict(start.frame), start.prepared.atoms
    if not frame:
        return b"", True
    for name, shape in {"box": (3, 3), "positions": (atoms, 3), "velocities": (atoms, 3)}.items():
        if name in frame and frame[name].shape != shape:
            raise wrong_start(name, shape, f"the frame's have the shape {frame[name].shape}")
        if name not in frame and name != "velocities":
            raise wrong_start(name, shape, "the frame has none")
    velocities = frame.get("velocities")
    return frame_bytes(frame["box"], frame["positions"], velocities), velocities is None


def _prepare(folder: Path, files: Mapping[str, str], settings: str, grompp: Sequence[str], *words: str) -> None:
    """Write the files, and make run.tpr of them. Raises: CommandFailed."""
    for name, text in {**files, "run.mdp": settings}.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    index = ["-n", "index.ndx"] if "index.ndx" in files else []
    given = ["-f", "run.mdp", "-c", "conf.gro", "-r", "conf.gro", "-p", "topol.top", "-o", "run.tpr"]
    tool(folder, *grompp, *given, *index, *words)


def _system(folder: Path, files: Mapping[str, str]) -> System:
    """Raises: MissingExtra; BadInput: MDAnalysis cannot read what grompp made."""
    try:
        import MDAnalysis
    except ModuleNotFoundError as missing:
        raise MissingExtra("MDAnalysis", "md") from missing
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what a .gro has not
        try:
            universe = MDAnalysis.Universe(str(folder / "run.tpr"), str(folder / "conf.gro"))
        except (ValueError, NotImplementedError) as refused:
            problem = f"MDAnalysis {MDAnalysis.__version__} cannot read what grompp made of it: {refused}"
            raise BadInput(f"topol.top: {problem}") from refused
        atoms = universe.atoms
        bonds = np.asarray(atoms.bonds.indices if hasattr(atoms, "bonds") else np.empty((0, 2)), np.int32)
        layers = _layers(len(atoms), bonds)
        if universe.dimensions is not None:
            atoms.positions = _whole(atoms.positions, universe.trajectory.ts.triclinic_dimensions, layers)
        universe.add_TopologyAttr("chainIDs", [string.ascii_uppercase[i % 26] for i in atoms.segindices])
        atoms.write(str(folder / "conf.pdb"), bonds="conect" if len(atoms) <= MOST_CONECT and len(bonds) else None)
    return System(files, len(atoms), layers, (folder / "conf.pdb").read_text())


def _layers(atoms: int, bonds: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """Of `System`, from (B, 2) bonded atoms."""
    links = csr_matrix((np.ones(len(bonds)), tuple(bonds.T)), (atoms, atoms))
    reached = np.zeros(atoms, bool)
    reached[np.unique(connected_components(links, directed=False)[1], return_index=True)[1]] = True
    edges, layers = np.concatenate([bonds, bonds[:, ::-1]]), []
    while len(edges := edges[~reached[edges[:, 1]]]):
        ready = edges[reached[edges[:, 0]]]
        _, at = np.unique(ready[:, 1], return_index=True)  # of a ring an atom is reached from two sides
        layers.append((ready[at, 0], ready[at, 1]))
        reached[ready[at, 1]] = True
    return layers


def _whole(positions: np.ndarray, box: np.ndarray, layers: Sequence[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    """Bring each atom to the image that is the nearest to the one that it is bonded to; (A, 3) float32, nm."""
    whole = positions.astype(np.float64)
    if np.diagonal(box).all():  # else it is not periodic
        for near, far in layers:
            whole[far] = whole[near] + nearest_image(whole[far] - whole[near], box)
    return whole.astype(np.float32)


def _frame(system: System, snapshot: Snapshot, time_ps: float, state: Mapping[str, bytes | int]) -> Frame:
    assert snapshot.velocities is not None, "nstvout is nstxout"
    whole = _whole(snapshot.positions, snapshot.box, system.layers)
    return Frame(time_ps, whole, snapshot.velocities.astype(np.float32), snapshot.box.astype(np.float32), state)
