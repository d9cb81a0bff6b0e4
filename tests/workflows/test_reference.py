"""The reference problems: their yardsticks on frames whose answer is known."""

import sys
from pathlib import Path

import numpy as np
import pytest

from steersman.apps import mueller_brown
from steersman.apps.molecular_dynamics.biasing import Coordinate
from steersman.apps.molecular_dynamics.context import Settings, SimulationContext
from steersman.stages import loading
from steersman.stages.modules import MODULE
from steersman.stages.outline import problems
from steersman.stages.workflow import Workflow

REFERENCE = Path(loading.__file__).parents[1] / "workflows" / "reference"


def loaded(name: str) -> Workflow:
    return loading.load(REFERENCE / f"{name}.py")


@pytest.mark.parametrize("path", sorted(REFERENCE.glob("[a-z]*.py")), ids=lambda path: path.stem)
def test_each_has_yardsticks_and_is_steered(path: Path) -> None:
    loading.load(path)
    workflow = loading.load(path)  # a driver imports its own copy again, also where it is a variant of another file
    assert workflow.yardsticks
    assert problems(workflow) == []


def test_alanine_dipeptide_begins_extended_and_its_mirror_image_is_left_handed() -> None:
    """Extended: phi near -120 degrees, psi near 140. Distances do not know a mirror image, torsions do."""
    workflow = loaded("alanine")
    module, params = sys.modules[MODULE], workflow.params()
    assert workflow.prepare_function is not None
    positions = workflow.prepare_function(params).positions
    frames = {"positions": np.stack([positions, positions * [1, 1, -1]])}
    phi, psi = np.degrees(module.torsions(frames)).T
    assert phi[0] == pytest.approx(-120, abs=60)
    assert psi[0] == pytest.approx(140, abs=60)
    np.testing.assert_allclose([phi[1], psi[1]], [-phi[0], -psi[0]], atol=1e-3)
    distances = module.distances(frames)
    np.testing.assert_allclose(distances[0], distances[1], rtol=1e-5)
    assert workflow.yardsticks["basins"].function(params, frames).tolist() == [0, 2]
    assert len(set(workflow.yardsticks["cells"].function(params, frames).tolist())) == 2


def test_mueller_brown_counts_its_wells() -> None:
    workflow = loaded("mueller_brown")
    frames = {"position": np.concatenate([mueller_brown.MINIMA, [[0.0, 1.9]]])}
    assert workflow.yardsticks["wells"].function(workflow.params(), frames).tolist() == [0, 1, 2, -1]


@pytest.mark.slow
def test_the_cube_begins_folded_and_its_features_are_the_same_in_numpy_and_in_openmm() -> None:
    workflow = loaded("cube")
    module, params = sys.modules[MODULE], workflow.params()
    assert workflow.prepare_function is not None
    molecule, features = workflow.prepare_function(params), module.Touching()
    assert features.count == 28  # as many as a cube of 27 places has beside its chain
    assert features.values(molecule.positions).min() > 0.95
    weights = np.random.default_rng(1).normal(size=(1, 28))
    settings = Settings(300.0, timestep_fs=5.0, platform="Reference")
    simulation = SimulationContext(molecule, settings, Coordinate(features, [(weights, np.zeros(1))]))
    assert simulation.bias_force is not None
    for spread in (0.0, 0.1, 1.0):
        positions = molecule.positions + spread * np.random.default_rng(2).normal(size=(27, 3))
        simulation.begin(positions, None, 1)
        found = simulation.bias_force.inputs(simulation.context)
        assert found == pytest.approx(features.values(positions) @ weights.T, rel=1e-9)
    simulation.begin(molecule.positions, None, 1)
    assert simulation.read().energy / simulation.kT == pytest.approx(-28 * params.model_dump()["depth_kT"], rel=0.05)
