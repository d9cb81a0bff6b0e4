"""Start -> frames: advance one walker by one segment of molecular dynamics.

Axes: N atoms, R residues, 3 space. Units: nm, ps, kJ/mol, K.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import openmm

from steersman.apps.errors import SimulationUnstable, wrong_start
from steersman.apps.molecular_dynamics.biasing import Coordinate, coordinate
from steersman.apps.molecular_dynamics.contacts import CUTOFF_NM, contact_maps
from steersman.apps.molecular_dynamics.context import (
    PhaseState,
    Settings,
    SimulationContext,
    raise_if_wrong,
    warm_context,
)
from steersman.apps.molecular_dynamics.features import Features
from steersman.apps.molecular_dynamics.molecule import Molecule
from steersman.stages.start import Start
from steersman.steering import Bias
from steersman.store import Variable
from steersman.system.errors import BadValue, UnknownName

APART = 5.0  # by which factor atoms of a polymer are never nearer to each other, or farther, than in its molecule

VARIABLES = {
    "time": Variable((), "ps", "time since the segment's start"),
    "contacts": Variable(("residue", "residue2"), "1", "C-alpha contacts"),
    "positions": Variable(("atom", "xyz"), "nm", "atom positions"),
    "velocities": Variable(("atom", "xyz"), "nm ps-1", "atom velocities"),
    "energy": Variable((), "kJ mol-1", "potential energy"),
    "features": Variable(("feature",), "1", "what the model's coordinate is made of"),
    "bias": Variable((), "1", "energy of the bias in kT"),
    "thermostat_K": Variable((), "K", "temperature of the thermostat"),
    "hot": Variable((), "1", "of a hot phase, or not settled after it: counts in no average and in no bias"),
}

SETTLE_PS = 2.0  # after a hot phase, in which the walls of a molecule give their heat away
MOST_PARTS = 4  # that a time step is cut into where forces are too stiff for it
LARGEST_STEP_FS = 5.0  # above it hydrogens of 3 amu become unstable at any temperature


@dataclass(frozen=True, eq=False)
class Frame:
    """One moment of a trajectory.

    Args:
        time_ps: since the segment's start.
        contacts: (R, R) bool, C-alpha atoms nearer than the cutoff; in a periodic box of any images.
        positions: (N, 3) float32, nm; not wrapped into the periodic box.
        velocities: (N, 3) float32, nm/ps.
        energy: potential energy without that of the bias, kJ/mol.
        temperature_K: instantaneous, from the kinetic energy.
        bias: energy of the bias, kT; 0 without one.
        thermostat_K: of the thermostat.
        hot: whether it is one of a hot phase, or of the first 2 ps after it.
        features: (F,) float64, their values; empty where none were asked for.
        state: what continues the segment exactly, as `Start.state`: positions and velocities, (N, 3) float64.
    """

    time_ps: float
    contacts: np.ndarray
    positions: np.ndarray
    velocities: np.ndarray
    energy: float
    temperature_K: float
    bias: float
    thermostat_K: float
    hot: bool
    features: np.ndarray
    state: Mapping[str, np.ndarray] = field(repr=False)


def run(
    start: Start,
    *,
    temperature_K: float,
    duration_ps: float,
    seed: int,
    hot_K: float | None = None,
    report_ps: float = 0.2,
    timestep_fs: float = 4.0,
    friction_per_ps: float = 1.0,
    contact_nm: float = CUTOFF_NM,
    features: Features | None = None,
    keep_trans: bool = False,
    platform: str | None = None,
    threads: int = 1,
) -> Generator[Frame, None, None]:
    """Simulate one segment and give its frames while it goes on.

    A segment is a pure function of its start, its settings and its seed: bit for bit on one machine with one thread,
    whatever the process simulated before; on the Reference platform if no other segment goes on beside it in this
    process. The context stays warm for the next call with the same molecule. Where a
    frame is hotter than the thermostat lets it be, as under a bias that is steep there, the segment goes on from the
    frame before at half of the time step, and at a quarter.

    Args:
        start: `prepared` is the Molecule. With `state` velocities the segment is continued; else it begins at the
            `frame` positions, or at the prepared ones, with new velocities drawn from the seed. With a `bias` it is
            pushed along the coordinate of its `model`, and its peptide bonds are kept trans. One that failed before
            is tried again at half of the time step.
        temperature_K: of the Langevin thermostat, >= 0.
        duration_ps: of the segment; a whole number of reports.
        seed: any integer >= 0, of the velocities and the thermostat's noise.
        hot_K: of the thermostat while what the workflow learns has no model yet (`start.model`), so that the first one
            sees what does not turn at `temperature_K`; peptide bonds are then kept trans all the time. Store `hot` with
            each frame, and return it from the score stage. The first segment after it draws new velocities.
        report_ps: between two frames; a whole number of time steps.
        timestep_fs: above 0, at most 5; hydrogens weigh 3 amu, so 4 is safe.
        friction_per_ps: of the thermostat; 0 conserves energy.
        contact_nm: C-alpha atoms nearer than this are in contact.
        features: what the model was fitted to and a bias acts on.
        keep_trans: peptide bonds, also without a bias.
        platform: an OpenMM platform by name; None takes the fastest that works.
        threads: of the CPU platform.
    Returns: frames at report_ps, 2 report_ps, ... up to duration_ps.
    Raises:
        BadValue: a setting that cannot be run.
        BadInput: arrays that do not fit the molecule, or are not finite.
        UnknownName: the platform has no device here.
        SimulationUnstable: NaN or an explosion, also at a quarter of the time step; no bad frame is given.
    """
    if seed < 0:
        raise BadValue("seed", seed, "give 0 or more")
    if hot_K is not None and not hot_K >= temperature_K:
        raise BadValue("hot_K", hot_K, f"give at least temperature_K, {temperature_K:g}")
    heat_K = hot_K if start.learns and start.model is None else None
    cooled = hot_K is not None and heat_K is None and bool(start.frame.get("hot", False))
    hot_ps = np.inf if heat_K is not None else min(SETTLE_PS, duration_ps - report_ps) if cooled else 0.0
    settings = Settings(
        temperature_K if heat_K is None else heat_K, timestep_fs / (2 if start.attempt else 1), friction_per_ps,
        platform, threads, trans=keep_trans or hot_K is not None,
    )  # fmt: skip
    plan, begin = schedule(settings, duration_ps, report_ps), initial(start, still=cooled)
    along = _along(start, features)

    def warm(parts: int) -> SimulationContext:  # when the first frame is asked for
        return warm_context(start.prepared, replace(settings, timestep_fs=settings.timestep_fs / parts), along)

    frame = partial(_frame, hot_ps=hot_ps, contact_nm=contact_nm, features=features)
    return _segment(warm, plan, begin, seed, start.bias, frame)


def schedule(settings: Settings, duration_ps: float, report_ps: float) -> tuple[int, int]:
    """Count the steps between two frames and the frames of a segment.

    Raises: BadValue: a setting that cannot be run.
    """
    if not 0 < settings.timestep_fs <= LARGEST_STEP_FS:
        raise BadValue("timestep_fs", settings.timestep_fs, f"give more than 0 and at most {LARGEST_STEP_FS:g}")
    for name in ("temperature_K", "friction_per_ps"):
        if not 0 <= (value := getattr(settings, name)) < np.inf:
            raise BadValue(name, value, "give 0 or more")
    for name, time_ps in (("report_ps", report_ps), ("duration_ps", duration_ps)):
        if not np.isfinite(time_ps):
            raise BadValue(name, time_ps, "give a finite number")
    step_ps = settings.timestep_fs / 1000
    steps = round(report_ps / step_ps)
    if steps < 1 or abs(steps * step_ps - report_ps) > 1e-6 * report_ps:
        raise BadValue("report_ps", report_ps, f"give a whole number of time steps, e.g. {max(1, steps) * step_ps:g}")
    frames = round(duration_ps / report_ps)
    if frames < 1 or abs(frames * report_ps - duration_ps) > 1e-6 * duration_ps:
        example = f"{max(1, frames) * report_ps:g}"
        raise BadValue("duration_ps", duration_ps, f"give a whole number of report_ps, {report_ps:g}, e.g. {example}")
    return steps, frames


def initial(start: Start, *, still: bool = False) -> tuple[np.ndarray, np.ndarray | None]:
    """Find the positions (N, 3), nm, and the velocities (N, 3), nm/ps, or None, where a segment begins.

    Args:
        still: without the velocities that it has.
    Raises:
        TypeError: there is no molecule.
        UnknownName: the frame has no `positions`, or the state neither of the two.
        BadInput: they do not fit the molecule, are not finite, or not in nm.
    """
    molecule = start.prepared
    if not isinstance(molecule, Molecule):
        raise TypeError(f"start.prepared is a {type(molecule).__name__}; prepare a Molecule, e.g. by build_peptide")
    known = ("positions", "velocities")
    if start.state and not start.state.keys() & set(known):
        raise UnknownName("array of a start's state", min(start.state), known)
    positions, velocities = (start.state.get(name) for name in known)
    if positions is None:
        positions = start.frame.get("positions", molecule.positions)
    for name, array in (("positions", positions), ("velocities", velocities)):
        if array is not None and np.shape(array) != molecule.positions.shape:
            raise wrong_start(name, molecule.positions.shape, f"it has shape {np.shape(array)}")
        if array is not None and not np.isfinite(array).all():
            raise wrong_start(name, molecule.positions.shape, "it is not finite")
    if molecule.residues and not 1 / APART < (apart := _apart(positions) / _apart(molecule.positions)) < APART:
        problem = f"its atoms lie {apart:.2g} times as far from each other as those of the molecule: is it in nm?"
        raise wrong_start("positions", molecule.positions.shape, problem)
    return positions, None if still else velocities


def _apart(positions: np.ndarray) -> float:
    """From an atom to the next, which is near in a polymer, however it folds."""
    return float(np.median(np.linalg.norm(np.diff(positions, axis=0), axis=1)))


def _along(start: Start, features: Features | None) -> Coordinate | None:
    """Along what a segment is biased, if it is.

    Raises: BadValue: there are no features.
    """
    if start.bias is None:
        return None
    if features is None:
        raise BadValue(
            "features", "None", "give what the score was computed of, for this start has a bias: md.run(features=)"
        )
    return coordinate(features, start.model)


def _segment(
    warm: Callable[[int], SimulationContext],
    plan: tuple[int, int],
    begin: tuple[np.ndarray, np.ndarray | None],
    seed: int,
    bias: Bias | None,
    frame: Callable[[SimulationContext, PhaseState, float], Frame],
) -> Generator[Frame, None, None]:
    (steps, frames), at = plan, begin
    number, parts = 0, 1
    while number < frames:
        simulation = warm(parts)
        simulation.busy = True
        try:
            simulation.begin(*at, seed if parts == 1 else [seed, number, parts], bias)
            begun = simulation.read()
            state: PhaseState | None = begun
            while state and number < frames:
                at = state.positions, state.velocities
                time_ps = (number + 1) * steps * simulation.settings.timestep_fs * parts / 1000
                state = _calm(simulation, begun, parts, parts * steps, time_ps, seed)
                if state:
                    number += 1
                    yield frame(simulation, state, time_ps)
        finally:
            simulation.busy = False
        parts *= 2


def _calm(
    simulation: SimulationContext, begun: PhaseState, parts: int, steps: int, time_ps: float, seed: int
) -> PhaseState | None:
    """Integrate, and read where that led; None where forces were too stiff for the time step, and it can be shorter.

    Raises: SimulationUnstable: it cannot.
    """
    try:
        state = advanced(simulation, steps, time_ps, seed)
    except SimulationUnstable:
        if parts == MOST_PARTS:
            raise
        return None
    return None if simulation.unusual(state, begun) and parts < MOST_PARTS else state


def advanced(simulation: SimulationContext, steps: int, time_ps: float, seed: int) -> PhaseState:
    """Integrate, and read where that led.

    Raises: SimulationUnstable: it led nowhere; time and seed are in it.
    """
    try:
        simulation.step(steps)
    except openmm.OpenMMException as blown_up:  # OpenMM's own check finds a NaN position first
        raise SimulationUnstable(f"{time_ps:g} ps", seed, str(blown_up)) from blown_up
    state = simulation.read()
    raise_if_wrong(simulation, state, time_ps, seed)
    return state


def _frame(
    simulation: SimulationContext,
    state: PhaseState,
    time_ps: float,
    *,
    hot_ps: float,
    contact_nm: float,
    features: Features | None,
) -> Frame:
    alpha = simulation.molecule.alpha
    return Frame(
        time_ps=time_ps,
        contacts=contact_maps(state.positions[None, alpha], contact_nm, simulation.molecule.box)[0],
        positions=state.positions.astype(np.float32),
        velocities=state.velocities.astype(np.float32),
        energy=state.energy,
        temperature_K=simulation.temperature_K(state),
        bias=state.bias,
        thermostat_K=simulation.settings.temperature_K,
        hot=time_ps <= hot_ps * (1 + 1e-9),
        features=np.empty(0) if features is None else features.values(state.positions),
        state={"positions": state.positions, "velocities": state.velocities},
    )
