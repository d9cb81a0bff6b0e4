"""A bias in OpenMM: forces that follow from the model's coordinate, and dynamics that stay physics."""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import openmm
import pytest
from openmm import app, unit

from steersman.apps.molecular_dynamics import (
    Angles,
    Contacts,
    Coordinates,
    Distances,
    Features,
    Frame,
    Molecule,
    SideBySide,
    Torsions,
    build_peptide,
    run,
)
from steersman.apps.molecular_dynamics.biasing import GROUP, Coordinate, coordinate
from steersman.apps.molecular_dynamics.bonds import peptide_bonds
from steersman.apps.molecular_dynamics.context import PhaseState, Settings, SimulationContext, warm_context
from steersman.models import Committor
from steersman.stages.start import Start
from steersman.steering import Bias
from steersman.system.errors import BadValue, UnknownName

PHI, PSI = (4, 6, 8, 10), (6, 8, 10, 16)
SETTINGS = Settings(300.0, platform="Reference")
Layers = list[tuple[np.ndarray, np.ndarray]]


@pytest.fixture(scope="module")
def dipeptide() -> Molecule:
    return build_peptide("A", capped=True)


@pytest.fixture(scope="module")
def path(dipeptide: Molecule) -> np.ndarray:
    """(100, N, 3) positions of plain dynamics, nm."""
    return np.array([frame.positions for frame in segment(Start(dipeptide), duration_ps=20)])


def segment(start: Start, features: Features | None = None, **settings: Any) -> list[Frame]:
    given: dict[str, Any] = {
        "temperature_K": 300.0,
        "duration_ps": 0.8,
        "seed": 1,
        "report_ps": 0.2,
        "platform": "Reference",
    }
    return list(run(start, features=features, **(given | settings)))


def network(sizes: list[int], seed: int = 0) -> Layers:
    rng = np.random.default_rng(seed)
    return [(rng.normal(size=(b, a)) / np.sqrt(a), 0.1 * rng.normal(size=b)) for a, b in pairwise(sizes)]


class Dense:
    """A model of dense layers."""

    def __init__(self, layers: Layers) -> None:
        self._layers = layers

    def dense_layers(self) -> Layers:
        return self._layers


def coordinate_of(layers: Layers, features: Features) -> Callable[[np.ndarray], np.ndarray]:
    def z(positions: np.ndarray) -> np.ndarray:
        value = features.values(positions)
        for number, (weights, offsets) in enumerate(layers):
            value = (np.tanh(value) if number else value) @ weights.T + offsets
        return value

    return z


def bias_around(z: np.ndarray, periods: float = 0.0) -> Bias:
    """A random bias of 30 kernels where a path was."""
    rng = np.random.default_rng(1)
    centres = z[rng.integers(len(z), size=30)].astype(np.float32)
    widths = np.full(centres.shape, 0.4, np.float32) * z.std(axis=0).astype(np.float32)
    return Bias(1, 14.0, False, centres, widths, np.full(30, 1 / 30, np.float32), np.full(z.shape[1], periods))


FEATURES: list[Features] = [
    Distances(((0, 8), (4, 10), (5, 16), (1, 18))),
    Torsions((PHI, PSI)),
    SideBySide((Torsions((PHI,)), Contacts(((0, 16), (1, 18)), at_nm=0.5), Distances(((5, 16),)))),
    Coordinates((4, 8)),
]


def test_features_are_the_same_function_in_numpy_and_in_openmm(dipeptide: Molecule, path: np.ndarray) -> None:
    for features in [*FEATURES, Angles((PHI, PSI)), Distances.between(dipeptide)]:
        assert pickle.loads(pickle.dumps(features)) == features
        weights = np.random.default_rng(2).normal(size=(1, features.count))
        simulation = SimulationContext(dipeptide, SETTINGS, Coordinate(features, [(weights, np.zeros(1))]))
        force = simulation.bias_force
        assert force is not None
        for positions in path[::40].astype(float):
            simulation.context.setPositions(positions)
            assert force.inputs(simulation.context) == pytest.approx(features.values(positions) @ weights.T, rel=1e-9)


@pytest.mark.parametrize("features", FEATURES, ids=lambda each: type(each).__name__)
@pytest.mark.parametrize(("hidden", "dimensions"), [([], 1), ([], 3), ([5], 2), ([4, 3], 1)])
@pytest.mark.parametrize("platform", ["Reference", "CPU"])
def test_energy_is_the_bias_of_the_coordinate_and_forces_are_its_slope(
    dipeptide: Molecule, path: np.ndarray, features: Features, hidden: list[int], dimensions: int, platform: str
) -> None:
    layers = network([features.count, *hidden, dimensions])
    z = coordinate_of(layers, features)
    bias = bias_around(z(path))
    simulation = SimulationContext(dipeptide, replace(SETTINGS, platform=platform), Coordinate(features, layers))
    simulation.begin(path[0], None, 1, bias)
    check_forces(simulation, path, lambda positions: bias.energy(z(positions)[None])[0])


def check_forces(simulation: SimulationContext, path: np.ndarray, energy: Callable[[np.ndarray], float]) -> None:
    for positions in path[::40].astype(float):
        simulation.context.setPositions(positions)
        assert simulation.read().bias == pytest.approx(energy(positions), abs=1e-9)
        forces = simulation.context.getState(forces=True, groups={GROUP}).getForces(asNumpy=True)
        pushed = forces.value_in_unit(unit.kilojoule_per_mole / unit.nanometer) / simulation.kT
        for atom, axis in ((8, 0), (4, 1), (10, 2)):
            step = np.zeros_like(positions)
            step[atom, axis] = 1e-5
            slope = (energy(positions + step) - energy(positions - step)) / 2e-5
            assert pushed[atom, axis] == pytest.approx(-slope, abs=1e-5 * max(1.0, np.abs(pushed).max()))


@pytest.mark.parametrize("dimensions", [1, 2, 3])
def test_beyond_its_table_a_bias_is_constant_whatever_the_rounding_of_its_ends(
    dipeptide: Molecule, dimensions: int
) -> None:
    """OpenMM ends the process at a point that lies a rounding beyond its last node."""
    features, rng = Coordinates((4,)), np.random.default_rng(3)
    coordinate = Coordinate(features, [(np.eye(3)[:dimensions], np.zeros(dimensions))])
    simulation = SimulationContext(dipeptide, SETTINGS, coordinate)
    for _ in range(60):
        centre, width = rng.normal(size=(1, dimensions)), rng.uniform(0.01, 0.3, size=(1, dimensions))
        bias = Bias(1, 14.0, False, centre, width, np.ones(1, np.float32), np.zeros(dimensions))
        for far in (-50.0, 50.0):
            simulation.begin(dipeptide.positions + far, None, 1, bias)
            z = features.values(simulation.read().positions)[:dimensions]
            assert simulation.read().bias == pytest.approx(bias.energy(z[None])[0], abs=1e-9)


def test_a_bias_along_angles_knows_that_they_are_periodic(dipeptide: Molecule, path: np.ndarray) -> None:
    angles = Angles((PHI, PSI))
    bias = bias_around(angles.values(path), periods=2 * np.pi)
    start = Start(dipeptide, bias=bias)
    frames = segment(start, angles)
    z = np.array([angles.values(frame.positions.astype(float)) for frame in frames])
    np.testing.assert_allclose([frame.bias for frame in frames], bias.energy(z), atol=1e-3)


def test_frames_say_their_bias_and_their_energy_without_it(dipeptide: Molecule, path: np.ndarray) -> None:
    features = Distances.between(dipeptide)
    layers = network([features.count, 2])
    bias = bias_around(coordinate_of(layers, features)(path))
    start = Start(dipeptide, bias=bias, load=lambda: Dense(layers))
    plain = SimulationContext(dipeptide, SETTINGS)
    for frame in segment(start, features):
        plain.begin(frame.state["positions"], None, 1)
        assert frame.energy == pytest.approx(plain.read().energy, abs=1e-6)
        assert frame.features == pytest.approx(features.values(frame.state["positions"]))
        assert frame.bias == pytest.approx(
            bias.energy(coordinate_of(layers, features)(frame.state["positions"])[None])[0], abs=1e-6
        )


def test_another_version_is_set_in_the_same_context(dipeptide: Molecule, path: np.ndarray) -> None:
    angles = Angles((PHI, PSI))
    z = angles.values(path)
    coordinate = Coordinate(angles, [(np.eye(2), np.zeros(2))])
    simulation = warm_context(dipeptide, SETTINGS, coordinate)
    for bias in (bias_around(z, 2 * np.pi), bias_around(z[:50], 2 * np.pi)):
        assert warm_context(dipeptide, SETTINGS, coordinate) is simulation
        simulation.begin(path[0], None, 1, bias)
        check_forces(simulation, path, lambda at, bias=bias: bias.energy(angles.values(at)[None])[0])  # type: ignore[misc]


@pytest.mark.parametrize("platform", ["Reference", "CPU"])
def test_a_segment_under_a_bias_depends_on_no_segment_before(
    dipeptide: Molecule, path: np.ndarray, platform: str
) -> None:
    """Bit for bit: neither the version nor the place of an earlier one is left over."""
    angles, settings = Angles((PHI, PSI)), replace(SETTINGS, platform=platform)
    coordinate = Coordinate(angles, network([2, 5, 2]))
    z = coordinate_of(list(coordinate.layers), angles)(path)
    one, other = bias_around(z), bias_around(z[:50])

    def after(simulation: SimulationContext, *biases: Bias) -> np.ndarray:
        for number, bias in enumerate(biases, 1):
            simulation.begin(path[-number], None, 1, bias)
            simulation.step(50)
        return simulation.read().positions

    warm = SimulationContext(dipeptide, settings, coordinate)
    anew = after(SimulationContext(dipeptide, settings, coordinate), one)
    assert (after(warm, one) == anew).all()
    after(warm, other, one, other)
    assert (after(warm, one) == anew).all()
    assert (after(warm, other) != anew).any()


class Nearest(Distances):
    """Distances between nearest images: features of a user's own that know of a box."""

    def force(self, weights: np.ndarray) -> openmm.Force:
        force = super().force(weights)
        force.setUsesPeriodicBoundaryConditions(True)
        return force


def test_features_that_know_of_a_box_are_those_of_the_box_of_the_simulation(dipeptide: Molecule) -> None:
    system = openmm.XmlSerializer.deserialize(dipeptide.system_xml)
    box = np.diag([3.0, 3.1, 3.2])
    system.setDefaultPeriodicBoxVectors(*box)
    boxed = replace(dipeptide, system_xml=openmm.XmlSerializer.serialize(system))
    features = Nearest(((0, 16),))
    bias = bias_around(np.linspace(0, 1, 20)[:, None])
    for platform in ("Reference", "CPU"):
        settings = replace(SETTINGS, platform=platform)
        simulation = SimulationContext(boxed, settings, Coordinate(features, [(np.eye(1), np.zeros(1))]))
        far = np.array(dipeptide.positions, float)
        far[16] += box[0]
        simulation.begin(far, None, 1, bias)
        assert simulation.read().bias == pytest.approx(bias.energy(features.values(dipeptide.positions))[0], abs=1e-6)


def test_without_a_bias_features_change_no_bit(dipeptide: Molecule) -> None:
    for one, other in zip(segment(Start(dipeptide)), segment(Start(dipeptide), FEATURES[0]), strict=True):
        assert (one.state["positions"] == other.state["positions"]).all()
        assert one.bias == other.bias == 0


def steep(seed: int) -> Bias:
    """400 kernels of 2 degrees where phi and psi may be: a walker would have 600 K, or explode."""
    centres = np.random.default_rng(seed).uniform(-np.pi, np.pi, size=(400, 2)).astype(np.float32)
    heights, periods = np.full(400, 1 / 400, np.float32), np.full(2, 2 * np.pi)
    return Bias(1, 14.0, False, centres, np.full_like(centres, 0.03), heights, periods)


@pytest.mark.parametrize(("friction_per_ps", "most_K"), [(1.0, 450), (0.0, 450)])
def test_under_a_bias_that_is_too_steep_for_the_time_step_nothing_is_heated(
    dipeptide: Molecule, friction_per_ps: float, most_K: float
) -> None:
    heat = []
    for seed in range(6):
        settings = {"duration_ps": 2.0, "report_ps": 0.1, "seed": seed, "friction_per_ps": friction_per_ps}
        frames = segment(Start(dipeptide, bias=steep(seed)), Angles((PHI, PSI)), **settings)
        heat += [frame.temperature_K for frame in frames]
    assert 250 < np.mean(heat) < most_K


def test_without_a_thermostat_a_molecule_may_be_as_hot_as_it_is(dipeptide: Molecule) -> None:
    """Bit for bit as at the whole time step, though it has three times the temperature that is named."""
    hot = SimulationContext(dipeptide, replace(SETTINGS, temperature_K=900.0))
    hot.begin(dipeptide.positions, None, 1)
    hot.step(1000)
    at = hot.read()
    state = {"positions": at.positions, "velocities": at.velocities}
    frames = segment(Start(dipeptide, state=state), friction_per_ps=0.0)
    free = SimulationContext(dipeptide, replace(SETTINGS, friction_per_ps=0.0))
    free.begin(at.positions, at.velocities, 1)
    free.step(200)
    assert frames[-1].temperature_K > 600
    assert (frames[-1].state["positions"] == free.read().positions).all()


@pytest.mark.parametrize("atoms", [1, 3, 17])
def test_what_chance_makes_of_a_temperature_is_not_unusual(atoms: int) -> None:
    """But once in 4,000 frames, whatever the number of atoms; by standard deviations 500 of these, of one atom."""
    system = openmm.System()
    for _ in range(atoms):
        system.addParticle(12.0)
    still, nothing = np.zeros((atoms, 3), np.float32), np.empty(0, np.int32)
    molecule = Molecule("", openmm.XmlSerializer.serialize(system), "", still, nothing, nothing)
    simulation = SimulationContext(molecule, SETTINGS)
    kinetic = np.random.default_rng(0).chisquare(3 * atoms, size=100_000) / 2 * simulation.kT
    states = [PhaseState(still, still, 0.0, float(one)) for one in np.sort(kinetic)[-400:]]
    assert sum(simulation.unusual(state, states[0]) for state in states) < 60
    assert not any(map(simulation.complaint, states))


def test_energy_is_conserved_under_a_bias_without_a_thermostat(dipeptide: Molecule, path: np.ndarray) -> None:
    angles = Angles((PHI, PSI))
    bias = bias_around(angles.values(path), 2 * np.pi)

    def error(start: Start) -> float:
        simulation = warm_context(
            dipeptide, Settings(300.0, 0.5, 0.0, "Reference"),
            Coordinate(angles, [(np.eye(2), np.zeros(2))]) if start.bias else None,
        )  # fmt: skip
        simulation.begin(path[3], None, 1, start.bias)
        total = []
        for _ in range(50):
            simulation.step(20)
            state = simulation.read()
            total.append(state.energy + state.bias * simulation.kT + state.kinetic)
        return float(np.std(total))

    assert error(Start(dipeptide, bias=bias)) < 2 * error(Start(dipeptide))


def test_peptide_bonds_are_kept_trans_and_nothing_changes_where_they_are(dipeptide: Molecule) -> None:
    bonds = list(peptide_bonds(dipeptide))
    assert len(bonds) == 2
    assert len(list(peptide_bonds(build_peptide("APG")))) == 2
    assert np.abs(np.degrees(Angles(tuple(bonds)).values(dipeptide.positions))).min() > 150

    plain, kept = (SimulationContext(dipeptide, replace(SETTINGS, trans=trans)) for trans in (False, True))
    forces = [simulation.context.getSystem().getNumForces() for simulation in (plain, kept)]
    assert forces[1] == forces[0] + 1
    for simulation in (plain, kept):
        simulation.begin(dipeptide.positions, None, 1)
        simulation.step(300)
    assert (plain.read().positions == kept.read().positions).all()


@pytest.mark.parametrize("features", [None, Distances(((0, 8),))])
def test_features_that_the_model_does_not_know_are_refused(dipeptide: Molecule, features: Features | None) -> None:
    layers = network([7, 1])
    start = Start(dipeptide, bias=bias_around(np.zeros((3, 1)) + 1), load=lambda: Dense(layers))
    with pytest.raises(BadValue) as refused:
        segment(start, features)
    assert refused.value.name == "features"


def test_torsions_of_a_backbone_and_of_all_bonds_that_turn(dipeptide: Molecule) -> None:
    """Of a tyrosine beside glycines: phi and psi of each, and of the side chain what is in no ring and at no end."""
    assert Torsions.backbone(dipeptide) == Torsions((PHI, PSI))
    peptide = build_peptide("GYG", capped=True)
    named = [(atom.residue.index, atom.name) for atom in app.PDBFile(io.StringIO(peptide.pdb)).topology.atoms()]
    turned = [[named[atom] for atom in four] for four in Torsions.backbone(peptide).atoms]
    assert [[name for _, name in four] for four in turned] == 3 * [["C", "N", "CA", "C"], ["N", "CA", "C", "N"]]
    assert [four[1][0] for four in turned] == [1, 1, 2, 2, 3, 3]
    bonds = {frozenset(four[1:3]) for four in Torsions.rotatable(peptide).atoms}
    sides = {frozenset(named.index((2, name)) for name in pair) for pair in (("CA", "CB"), ("CB", "CG"))}
    assert bonds == sides | {frozenset(four[1:3]) for four in Torsions.backbone(peptide).atoms}


def test_it_is_hot_until_there_is_a_model_and_then_settles(dipeptide: Molecule) -> None:
    """The segment after that draws new velocities, and its first 2 ps do not count, but for its last frame."""
    known: dict[str, Any] = {"learns": True, "load": lambda: Dense([])}
    first = segment(Start(dipeptide, learns=True), hot_K=900.0, duration_ps=4.0)
    plain = segment(Start(dipeptide), hot_K=900.0)  # nothing is ever learned
    assert {frame.hot for frame in first} == {True}
    assert {frame.thermostat_K for frame in first} == {900.0}
    assert {(frame.hot, frame.thermostat_K) for frame in plain} == {(False, 300.0)}
    stored = {"positions": first[-1].positions, "hot": np.array(True)}
    for duration_ps, hot in ((4.0, 10), (1.0, 4)):
        cooled = segment(Start(dipeptide, stored, first[-1].state, **known), hot_K=900.0, duration_ps=duration_ps)
        assert [frame.hot for frame in cooled] == [number < hot for number in range(len(cooled))]
        assert {frame.thermostat_K for frame in cooled} == {300.0}
    still = {name: first[-1].state[name] for name in ("positions",)}
    anew = segment(Start(dipeptide, stored, still, **known), hot_K=900.0, duration_ps=1.0)
    assert (anew[-1].state["positions"] == cooled[-1].state["positions"]).all()
    with pytest.raises(UnknownName):
        segment(Start(dipeptide, {"positions": first[-1].positions}, **known), hot_K=900.0)
    with pytest.raises(BadValue):
        segment(Start(dipeptide), hot_K=200.0)


def test_a_start_that_failed_takes_half_of_the_time_step(dipeptide: Molecule) -> None:
    half, again = (
        segment(Start(dipeptide, attempt=attempt), timestep_fs=step) for attempt, step in ((0, 2.0), (1, 4.0))
    )
    assert (half[-1].positions == again[-1].positions).all()


@pytest.mark.parametrize(("hidden", "fits"), [((32,), True), ((16, 16), True), ((32, 32), False), ((64,), False)])
def test_a_network_whose_derivatives_would_take_minutes_is_refused(hidden: tuple[int, ...], fits: bool) -> None:
    features, model = Torsions(((0, 1, 2, 3), (1, 2, 3, 4))), Committor(4, hidden)
    if fits:
        assert coordinate(features, model).dimensions == 1
    else:
        with pytest.raises(BadValue):
            coordinate(features, model)
