"""Segments of molecular dynamics: the laws of mechanics and of heat, and what a restart must mean."""

from __future__ import annotations

import pickle
from dataclasses import fields
from itertools import pairwise

import numpy as np
import openmm
import pytest
from openmm import unit

from steersman.apps.errors import SimulationUnstable
from steersman.apps.molecular_dynamics import VARIABLES, Frame, Molecule, build_peptide, contact_maps, run
from steersman.apps.molecular_dynamics.context import Settings, SimulationContext, _works, degrees_of_freedom
from steersman.stages.start import Start
from steersman.system.errors import BadInput, BadValue, UnknownName


@pytest.fixture(scope="module")
def peptide() -> Molecule:
    """Three residues, 42 atoms: a millisecond is ten steps."""
    return build_peptide("AYG")


def segment(
    start: Start, seed: int = 1, duration_ps: float = 0.4, timestep_fs: float = 4.0, friction_per_ps: float = 1.0
) -> list[Frame]:
    """Run a short segment at 300 K."""
    return list(
        run(start, temperature_K=300, duration_ps=duration_ps, seed=seed, report_ps=0.2, timestep_fs=timestep_fs,
            friction_per_ps=friction_per_ps)
    )  # fmt: skip


def same(frame: Frame, other: Frame) -> bool:
    """Bit for bit."""
    return all(np.array_equal(frame.state[name], other.state[name]) for name in ("positions", "velocities"))


def energy_error(molecule: Molecule, timestep_fs: float) -> float:
    """Standard deviation of the total energy, kJ/mol, over 1 ps of Verlet without thermostat."""
    system = openmm.XmlSerializer.deserialize(molecule.system_xml)
    integrator = openmm.VerletIntegrator(timestep_fs * unit.femtosecond)
    integrator.setConstraintTolerance(1e-8)
    context = openmm.Context(system, integrator, openmm.Platform.getPlatformByName("Reference"))
    context.setPositions(molecule.positions)
    context.setVelocitiesToTemperature(300, 1)
    total = []
    for _ in range(50):
        integrator.step(round(20 / timestep_fs))
        state = context.getState(energy=True)
        energy = state.getPotentialEnergy() + state.getKineticEnergy()
        total.append(energy.value_in_unit(unit.kilojoule_per_mole))
    return float(np.std(total))


def test_energy_is_conserved_without_a_thermostat(peptide: Molecule) -> None:
    """Verlet is of second order: half the time step leaves a quarter of the error (between 3 and 5 for a finite one).

    At 1 fs it stays below 1 % of the thermal energy, dof/2 kT, about 110 kJ/mol here.
    """
    coarse, fine = energy_error(peptide, 2.0), energy_error(peptide, 1.0)
    system = openmm.XmlSerializer.deserialize(peptide.system_xml)
    assert fine < 0.01 * degrees_of_freedom(system) / 2 * 8.314e-3 * 300
    assert 3 < coarse / fine < 5


@pytest.mark.slow
def test_the_thermostat_gives_the_temperature_and_its_canonical_spread(peptide: Molecule) -> None:
    """Mean 300 K, standard deviation 300 sqrt(2/dof) K.

    200 frames 0.2 ps apart, correlated over about 1 ps at this friction, are some 80 independent ones: 4 standard
    errors are 0.45 spreads of the mean, and 4/sqrt(160) = 32 % of the spread.
    """
    frames = list(
        run(Start(peptide), temperature_K=300, duration_ps=42, seed=3, report_ps=0.2, friction_per_ps=5.0)
    )[10:]  # fmt: skip
    freedom = degrees_of_freedom(openmm.XmlSerializer.deserialize(peptide.system_xml))
    spread_K = 300 * np.sqrt(2 / freedom)
    temperatures_K = np.array([frame.temperature_K for frame in frames])
    assert temperatures_K.mean() == pytest.approx(300, abs=0.45 * spread_K)
    assert temperatures_K.std() == pytest.approx(spread_K, rel=0.32)


def test_new_velocities_have_the_maxwell_boltzmann_spread(peptide: Molecule) -> None:
    """Over 40 seeds at a step of 0.1 fs, (m v^2)/(kT) averages to 1 within 4 standard errors, 4 sqrt(2/(40 dof))."""
    freedom = degrees_of_freedom(openmm.XmlSerializer.deserialize(peptide.system_xml))
    first = [
        next(run(Start(peptide), temperature_K=300, duration_ps=1e-4, report_ps=1e-4, timestep_fs=0.1, seed=seed))
        for seed in range(40)
    ]
    mean_K = np.mean([frame.temperature_K for frame in first])
    assert mean_K == pytest.approx(300, rel=4 * np.sqrt(2 / (40 * freedom)))


def test_a_segment_is_a_pure_function_of_start_and_seed(peptide: Molecule) -> None:
    """Bit for bit, though the warm context did something else in between; another seed goes elsewhere."""
    first = segment(Start(peptide), seed=2**63 - 1)
    other = segment(Start(peptide, {"positions": first[-1].positions}), seed=5)
    again = segment(Start(peptide), seed=2**63 - 1)
    assert all(same(*pair) for pair in zip(first, again, strict=True))
    assert not same(first[-1], segment(Start(peptide), seed=6)[-1])
    assert not same(first[-1], other[-1])


@pytest.fixture(scope="module")
def argon() -> Molecule:
    """125 atoms of a liquid in a periodic box, with a cutoff."""
    system, force = openmm.System(), openmm.NonbondedForce()
    force.setNonbondedMethod(openmm.NonbondedForce.CutoffPeriodic)
    force.setCutoffDistance(0.9)
    positions = 0.4 * np.stack(np.meshgrid(*[np.arange(5.0)] * 3), -1).reshape(-1, 3)
    positions += np.random.default_rng(1).normal(0, 0.02, positions.shape)
    for _ in positions:
        system.addParticle(40.0)
        force.addParticle(0.0, 0.34, 1.0)
    system.addForce(force)
    system.setDefaultPeriodicBoxVectors(*(2.0 * np.eye(3)))
    nothing = np.empty(0, np.int32)
    return Molecule("", openmm.XmlSerializer.serialize(system), "", positions.astype(np.float32), nothing, nothing)


@pytest.mark.parametrize("molecule", ["peptide", "argon"])
@pytest.mark.parametrize("platform", ["Reference", "CPU", "OpenCL", "CUDA", "HIP"])
def test_a_warm_context_does_what_a_new_one_would_and_nothing_is_made_for_it(
    molecule: str, platform: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bit for bit, with a cutoff too, whose list of neighbours is an older one's.

    The noise is that of reinitialize(), but on a GPU OpenMM orders the atoms later, so other atoms get it.
    """
    given = request.getfixturevalue(molecule)
    settings = Settings(300.0, platform=platform)
    if not _works(platform):
        pytest.skip(f"no device for {platform}")
    there = given.positions + 1.0  # farther from those that a context tries than any list of neighbours reaches
    near = there + np.random.default_rng(0).normal(0, 0.01, there.shape)

    def path(simulation: SimulationContext, seed: int) -> np.ndarray:
        simulation.begin(there, np.zeros_like(there), seed)
        simulation.step(50)
        return simulation.read().positions

    warm, seeds = SimulationContext(given, settings), (1, 2**31 - 1)
    new = [path(SimulationContext(given, settings), seed) for seed in seeds]
    with monkeypatch.context() as patched:
        patched.setattr(openmm, "Context", None)
        patched.setattr(warm.context, "reinitialize", None)
        for seed, expected in zip(seeds, new, strict=True):
            warm.begin(near, None, 3)
            warm.step(2)
            assert np.array_equal(path(warm, seed), expected)
    assert np.abs(new[1] - new[0]).max() > 1e-3
    if platform in ("Reference", "CPU"):
        warm.noise.quick = False
        assert np.array_equal(path(warm, seeds[0]), new[0])


def test_a_segment_is_the_same_in_another_process(peptide: Molecule) -> None:
    """A molecule that came by pickle has a context of its own, and gives the same bits."""
    sent = pickle.loads(pickle.dumps(peptide))
    assert same(segment(Start(peptide))[-1], segment(Start(sent))[-1])


def test_a_continued_segment_is_the_one_that_was_never_cut(peptide: Molecule) -> None:
    """Without thermostat there is no noise: 0.4 ps and 0.4 ps more are 0.8 ps, bit for bit."""
    whole = segment(Start(peptide), duration_ps=0.8, friction_per_ps=0)
    half = segment(Start(peptide), duration_ps=0.4, friction_per_ps=0)
    rest = segment(Start(peptide, state=half[-1].state), seed=9, duration_ps=0.4, friction_per_ps=0)
    assert same(rest[-1], whole[-1])


def test_velocities_alone_continue_a_stored_frame(peptide: Molecule) -> None:
    """From what the store keeps, float32, the path is that of the exact state.

    Rounding by 1e-7 of nm and nm/ps grows little in 10 steps of 0.1 fs: 1e-5 is a hundred times that. With new
    velocities the atoms would have moved by 1e-3 nm.
    """
    frame = segment(Start(peptide))[-1]
    stored = Start(peptide, {"positions": frame.positions}, {"velocities": frame.velocities})
    rounded, exact = (
        next(run(start, temperature_K=300, duration_ps=1e-3, report_ps=1e-3, timestep_fs=0.1, seed=1))
        for start in (stored, Start(peptide, state=frame.state))
    )
    assert rounded.positions == pytest.approx(exact.positions, abs=1e-5)


def test_a_restart_begins_at_the_stored_frame_with_new_velocities(peptide: Molecule) -> None:
    """After 0.1 fs the atoms are where the frame had them, 1e-3 nm at 10 nm/ps, and each seed moves them otherwise."""
    frame = segment(Start(peptide))[-1]
    start = Start(peptide, {"positions": frame.positions})
    first, second = (
        next(run(start, temperature_K=300, duration_ps=1e-4, report_ps=1e-4, timestep_fs=0.1, seed=seed))
        for seed in (1, 2)
    )
    assert first.positions == pytest.approx(frame.positions, abs=1e-3)
    assert np.abs(first.velocities - second.velocities).max() > 0.1


@pytest.mark.slow
def test_frames_begun_again_and_again_are_not_heated(peptide: Molecule) -> None:
    """Each segment begins where the one before ended, with new velocities, which leave a thermal ensemble as it is.

    Up to what a step of 4 fs leaves of it: 320 K here, and 370 K with velocities that are not those of half a step
    before their positions (1,500 K for ten residues). The mean of 140 has a standard error of 4 K.
    """
    frame, temperatures_K = segment(Start(peptide))[-1], []
    for seed in range(160):
        *_, frame = segment(Start(peptide, {"positions": frame.positions}), seed=seed)
        temperatures_K.append(frame.temperature_K)
    assert np.mean(temperatures_K[20:]) < 345


def test_two_segments_may_run_interleaved(peptide: Molecule) -> None:
    """Each has its context: what one does is not seen by the other."""
    alone = segment(Start(peptide), seed=1), segment(Start(peptide), seed=2)
    together = zip(
        *(run(Start(peptide), temperature_K=300, duration_ps=0.4, seed=seed) for seed in (1, 2)), strict=True
    )
    for number, pair in enumerate(together):
        assert all(same(frame, alone[i][number]) for i, frame in enumerate(pair))


def test_a_frame_holds_what_its_variables_say(peptide: Molecule) -> None:
    """Shapes, types and times; the contact map is that of the positions."""
    frames = segment(Start(peptide), duration_ps=0.6)
    assert [frame.time_ps for frame in frames] == pytest.approx([0.2, 0.4, 0.6])
    for frame in frames:
        assert frame.positions.shape == frame.velocities.shape == (peptide.atoms, 3)
        assert [str(array.dtype) for array in (frame.positions, frame.contacts)] == ["float32", "bool"]
        assert np.array_equal(frame.contacts, contact_maps(frame.positions[None, peptide.alpha])[0])
    assert all(a.energy != b.energy for a, b in pairwise(frames))
    assert set(VARIABLES) == {each.name for each in fields(Frame)} - {"time_ps", "temperature_K", "state"} | {"time"}


def test_overlapping_atoms_are_told_and_give_no_frame(peptide: Molecule) -> None:
    """Two atoms in one place: NaN. The segment ends with its cause, and the next one is not harmed."""
    positions = peptide.positions.copy()
    positions[5] = positions[20]
    frames: list[Frame] = []
    with pytest.raises(SimulationUnstable, match=r"0\.2 ps.*seed 4"):
        frames.extend(segment(Start(peptide, {"positions": positions}), seed=4))
    assert frames == []
    assert same(segment(Start(peptide))[-1], segment(Start(peptide))[-1])


def test_a_start_with_nan_is_told(peptide: Molecule) -> None:
    """Before anything runs."""
    with pytest.raises(BadInput, match=r"positions .*finite"):
        segment(Start(peptide, {"positions": np.full_like(peptide.positions, np.nan)}))


def test_an_explosion_that_is_still_finite_is_told(peptide: Molecule) -> None:
    """Velocities of 100 times the thermal ones: no thermostat gives that, and no frame of it is given."""
    hot = 100 * segment(Start(peptide))[-1].velocities
    with pytest.raises(SimulationUnstable):
        segment(Start(peptide, state={"velocities": hot}))


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"timestep_fs": 0.0}, "timestep_fs = 0.0: "),
        ({"timestep_fs": 10.0, "report_ps": 0.2}, "timestep_fs = 10.0: "),
        ({"temperature_K": -1.0}, "temperature_K = -1.0: "),
        ({"temperature_K": float("nan")}, "temperature_K = nan: "),
        ({"friction_per_ps": -1.0}, "friction_per_ps = -1.0: "),
        ({"duration_ps": float("inf")}, "duration_ps = inf: "),
        ({"report_ps": 0.0015}, "report_ps = 0.0015: "),
        ({"duration_ps": 0.01}, "duration_ps = 0.01: "),
        ({"duration_ps": 1.5, "report_ps": 1.0}, "duration_ps = 1.5: "),
        ({"duration_ps": 0.5}, "duration_ps = 0.5: "),
        ({"seed": -3}, "seed = -3: "),
    ],
)
def test_a_setting_that_cannot_run_is_told_before_anything_runs(
    peptide: Molecule, settings: dict[str, float], told: str
) -> None:
    """At the call, not at the first frame."""
    given = {"temperature_K": 300.0, "duration_ps": 2.0, "seed": 1, **settings}
    with pytest.raises(BadValue, match=told):
        run(Start(peptide), **given)  # type: ignore[arg-type]


def test_a_start_of_another_molecule_is_told(peptide: Molecule) -> None:
    """With both shapes."""
    with pytest.raises(BadInput, match=r"positions.*\(41, 3\).*\(3, 3\)"):
        segment(Start(peptide, {"positions": np.zeros((3, 3))}))
    with pytest.raises(UnknownName, match="positions"):
        segment(Start(peptide, {"pos": peptide.positions}))
    with pytest.raises(UnknownName, match="'velocities'"):
        segment(Start(peptide, state={"velocity": peptide.positions}))
    for factor in (0.1, 10.0):
        with pytest.raises(BadInput, match="nm"):
            segment(Start(peptide, {"positions": factor * peptide.positions}))


def test_a_start_without_a_molecule_is_told() -> None:
    """As when a workflow has no prepare function."""
    with pytest.raises(TypeError, match=r"NoneType.*Molecule"):
        segment(Start())


def test_a_platform_that_is_not_there_is_told(peptide: Molecule) -> None:
    """With those that are."""
    with pytest.raises(UnknownName, match="'Abacus'"):
        next(run(Start(peptide), temperature_K=300, duration_ps=2, seed=1, platform="Abacus"))
