"""Dynamics of atoms by a calculator of ASE, and a potential that learns: conservation, symmetry, exact continuation."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import ase.io
import numpy as np
import pytest
from ase.build import bulk
from ase.calculators.emt import EMT
from ase.calculators.fd import calculate_numerical_stress
from ase.calculators.singlepoint import SinglePointCalculator
from ase.constraints import FixAtoms, FixBondLength

from steersman import Out, Start, models
from steersman.apps import atoms
from steersman.system.errors import BadValue, UnknownName

KNOWN = ("positions", "cell", "energy", "forces")


@pytest.fixture(scope="module")
def crystal() -> Any:
    alloy = bulk("Cu", "fcc", 3.7, cubic=True) * (2, 2, 2)
    alloy.symbols[:8] = "Au"
    return alloy


@pytest.fixture(scope="module")
def labels(crystal: Any) -> dict[str, np.ndarray]:
    """Of rattled crystals."""
    out = Out(seed=1, frames=100)
    atoms.rattle(Start(crystal), out, EMT(), frames=24, stdev=0.08)
    return {name: np.asarray(out.stored[name]) for name in KNOWN}


@pytest.fixture(scope="module")
def potential(crystal: Any, labels: dict[str, np.ndarray]) -> models.Potential:
    small = {"channels": 16, "layers": 2, "expansion_features": 12}
    return models.Potential.fit(
        *(each[:20] for each in labels.values()), numbers=crystal.numbers, settings=small, epochs=25, batch=4, seed=3
    )


def moved(out: Out) -> float:
    """Of the energy in all, against that of motion."""
    energy = out.stored["energy"]
    kinetic = out.stored["temperature"] * 1.5 * 32 * 8.617333e-5
    return float(np.ptp(energy + kinetic) / kinetic.mean())


def test_energy_is_conserved_where_the_thermostat_is_slow(crystal: Any) -> None:
    out = Out(seed=2, frames=1000)
    atoms.run(
        Start(crystal), out, EMT(), temperature_K=300, segment_ps=0.4, frame_ps=0.02, timestep_fs=2, relaxation_ps=1e9
    )
    assert out.frames == 20
    assert moved(out) < 0.02


def test_a_thermostat_holds_the_temperature_and_a_barostat_lets_a_strained_crystal_relax(crystal: Any) -> None:
    out, squeezed = Out(seed=3, frames=1000, seconds=60), crystal.copy()
    squeezed.set_cell(0.97 * np.array(squeezed.cell), scale_atoms=True)
    atoms.run(
        Start(squeezed), out, EMT(), temperature_K=300, segment_ps=2, frame_ps=0.05, timestep_fs=4,
        relaxation_ps=0.05, pressure_bar=1.0,
    )  # fmt: skip
    assert out.stored["temperature"][20:].mean() == pytest.approx(300, rel=0.15)
    volume = np.linalg.det(out.stored["cell"])
    assert volume[20:].mean() > 1.03 * volume[0]


@pytest.mark.parametrize("pressure_bar", [None, 1e5])
def test_a_segment_goes_on_exactly_where_another_ended(
    crystal: Any, pressure_bar: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Positions, momenta and the barostat: two halves that draw one after the other are the whole."""
    rng, draws = np.random.default_rng(4), np.random.default_rng
    monkeypatch.setattr(np.random, "default_rng", lambda seed: rng if seed == 4 else draws(seed))
    how: dict[str, Any] = {"temperature_K": 300, "frame_ps": 0.02, "timestep_fs": 2, "pressure_bar": pressure_bar}
    first, second, whole = (Out(seed=4, frames=1000) for _ in range(3))
    atoms.run(Start(crystal), first, EMT(), segment_ps=0.04, **how)
    atoms.run(Start(crystal, first.frame(), first.restart), second, EMT(), segment_ps=0.04, **how)
    rng = draws(4)
    atoms.run(Start(crystal), whole, EMT(), segment_ps=0.08, **how)
    for name in ("positions", "cell"):
        np.testing.assert_allclose(second.frame()[name], whole.frame()[name], atol=1e-10)


def test_forces_are_the_slope_of_the_energy_and_nothing_depends_on_where_it_lies(
    crystal: Any, labels: dict[str, np.ndarray], potential: models.Potential
) -> None:
    x, cell = labels["positions"][20].copy(), labels["cell"][20]
    _, (forces,), _ = potential.said(x[None], cell[None])
    step = 0.01
    for atom, axis in ((0, 0), (13, 2)):
        moved = np.stack([x, x])
        moved[:, atom, axis] += [-step, step]
        low, high = potential.said(moved, np.stack([cell, cell]))[0]
        assert -(high - low) / (2 * step) == pytest.approx(forces[atom, axis], abs=0.02)
    squeezed = atoms.atoms_of({"positions": x, "cell": cell, "numbers": crystal.numbers})
    squeezed.calc = potential.calculator()
    theirs = calculate_numerical_stress(squeezed, eps=1e-3, force_consistent=False)
    np.testing.assert_allclose(squeezed.get_stress(), theirs, atol=1e-3)
    np.testing.assert_allclose(squeezed.get_forces(), forces, atol=2e-3)
    turn = np.array([[0.0, 1, 0], [-1, 0, 0], [0, 0, 1]])
    _, (turned,), _ = potential.said((x + 1.234)[None] @ turn, (cell @ turn)[None])
    np.testing.assert_allclose(turned, forces @ turn, atol=2e-3)


def test_it_learns_and_is_the_same_when_it_is_loaded_here_or_by_the_library(
    crystal: Any, labels: dict[str, np.ndarray], potential: models.Potential, tmp_path: Path
) -> None:
    rest = [each[20:] for each in labels.values()]
    energy, forces, spread = potential.said(*rest[:2])
    assert np.abs(forces - rest[3]).mean() < 0.25 * np.abs(rest[3]).mean()
    assert (spread > 0).all()
    potential.save(tmp_path)
    again = models.Model.load(tmp_path)
    np.testing.assert_array_equal(again.said(*rest[:2])[1], forces)  # type: ignore[operator]
    potential.write(tmp_path / "one.pt")
    load_model: Any = __import__("graph_pes.models", fromlist=["load_model"]).load_model  # ours silences its warnings
    one = crystal.copy()
    one.set_cell(rest[1][0])
    one.set_positions(rest[0][0])
    one.calc = load_model(tmp_path / "one.pt").ase_calculator()
    assert one.get_potential_energy() == pytest.approx(energy[0], abs=1.0)  # one member's, and the mean of both
    one.calc = potential.calculator()
    np.testing.assert_allclose(one.get_forces(), forces[0], atol=2e-3)


@pytest.mark.parametrize("network", ["SchNet", "PaiNN"])
def test_nothing_jumps_where_a_neighbour_comes_within_the_cutoff(network: str) -> None:
    """Else no dynamics keeps its energy, however short its steps are."""
    model = models.Potential([18, 18], cutoff=4.0, network=network)
    positions = np.zeros((2, 2, 3))
    positions[:, 1, 0] = 4.0 - 1e-4, 4.0 + 1e-4
    energy, forces, _ = model.said(positions, np.zeros((2, 3, 3)))
    assert energy[0] == pytest.approx(energy[1], abs=1e-5)
    np.testing.assert_allclose(forces[0], forces[1], atol=1e-3)


def test_energies_of_all_electrons_are_learned_as_well_as_any_and_kept_to_the_digit(
    crystal: Any, labels: dict[str, np.ndarray], tmp_path: Path
) -> None:
    """In float32 they would be known to 0.1 eV."""
    small, all_electrons = {"channels": 16, "layers": 2, "expansion_features": 12}, -1.5e6
    said = []
    for shift in (0.0, all_electrons):
        given = {**labels, "energy": labels["energy"] + shift}
        potential = models.Potential.fit(*given.values(), numbers=crystal.numbers, settings=small, epochs=3, seed=3)
        potential.save(tmp_path / str(shift))
        loaded = models.Model.load(tmp_path / str(shift))
        assert isinstance(loaded, models.Potential)
        said.append(loaded.said(labels["positions"][:4], labels["cell"][:4]))
    np.testing.assert_allclose(said[1][0] - all_electrons, said[0][0], atol=1e-6)
    np.testing.assert_allclose(said[1][1], said[0][1], atol=1e-6)
    with pytest.warns(UserWarning, match="relative"):  # the library's files are of float32
        potential.write(tmp_path / "one.pt")
    one, load_model = crystal.copy(), __import__("graph_pes.models", fromlist=["load_model"]).load_model
    one.set_cell(labels["cell"][0])
    one.set_positions(labels["positions"][0])
    one.calc = load_model(tmp_path / "one.pt").ase_calculator()
    energy = one.get_potential_energy() + float(potential.reference)
    assert energy == pytest.approx(said[1][0][0], abs=1.0)  # one member's


def test_where_the_expensive_code_has_another_zero_a_potential_that_goes_on_learns_as_well(
    labels: dict[str, np.ndarray], potential: models.Potential
) -> None:
    """As where another version of the label function takes another functional."""
    x, cell = labels["positions"][:4], labels["cell"][:4]
    how: dict[str, Any] = {**labels, **potential.config, "init": potential, "epochs": 2, "seed": 3}
    energy, forces, _ = models.Potential.fit(**how).said(x, cell)
    assert not models.Potential.fit(**how | {"cutoff": 3.5}).card["warm_start"], "it would see no farther than before"
    other = models.Potential.fit(**how | {"energy": labels["energy"] + 1000.0}).said(x, cell)
    np.testing.assert_allclose(other[0] - 1000, energy, atol=1e-2)
    np.testing.assert_allclose(other[1], forces, atol=1e-2)


def test_twice_the_atoms_have_twice_the_energy(labels: dict[str, np.ndarray], potential: models.Potential) -> None:
    one = atoms.atoms_of({name: labels[name][0] for name in KNOWN} | {"numbers": potential.numbers})
    two = one * (2, 1, 1)
    one.calc = two.calc = potential.calculator()
    assert two.get_potential_energy() == pytest.approx(2 * one.get_potential_energy(), rel=1e-5)


@pytest.mark.parametrize("steps", [1, 5])
def test_what_stops_in_doubt_is_stored_asks_for_its_label_and_leaves_no_state(
    crystal: Any, potential: models.Potential, steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also after a frame that left one, of another moment."""
    out, calculator = Out(seed=5, frames=1000), cast("Any", potential.calculator())
    said = iter([*[0.0] * steps, 1.0])  # the first one before the first step
    calculate = calculator.calculate

    def doubts(*of: Any) -> None:
        calculate(*of)
        assert calculator.results["spread"] > 0
        calculator.results["spread"] = next(said)

    monkeypatch.setattr(calculator, "calculate", doubts)
    atoms.run(Start(crystal), out, calculator, temperature_K=300, frame_ps=0.004, doubt_above=0.5)
    assert out.frames == 1 + steps // 2
    assert out.asked == [out.frames - 1]
    assert not out.restart
    assert out.stored["spread"][-1] == 1.0
    assert out.stored["time"][-1] == pytest.approx(0.002 * steps), "when it was in doubt"


def test_labels_are_what_the_code_says_and_are_read_from_files_that_ase_reads(
    crystal: Any, labels: dict[str, np.ndarray], potential: models.Potential, tmp_path: Path
) -> None:
    frame = {name: each[0] for name, each in labels.items()} | {"numbers": crystal.numbers}
    said = atoms.answer(frame, EMT())
    np.testing.assert_allclose(said["forces"], labels["forces"][0])
    wrong = atoms.force_error(potential, frame, said)
    assert wrong == pytest.approx(np.linalg.norm(potential.said(*(frame[n][None] for n in ("positions", "cell")))[1][0]
                                                 - said["forces"], axis=1).max())  # fmt: skip
    atoms.write(tmp_path / "labels.extxyz", labels | {"numbers": np.tile(crystal.numbers, (24, 1))})
    known = atoms.read(tmp_path / "labels.extxyz")
    for name in KNOWN:
        np.testing.assert_allclose(known[name], labels[name], atol=1e-6)
    assert known["numbers"].shape == (24, len(crystal))
    told = (known[name] for name in KNOWN)
    learned, same = atoms.fit(known, epochs=1), models.Potential.fit(*told, numbers=crystal.numbers, epochs=1)
    theirs = learned.said(labels["positions"], labels["cell"])[1]
    assert np.array_equal(theirs, same.said(labels["positions"], labels["cell"])[1])
    wrong = atoms.mean_force_error(learned, SimpleNamespace(labelled=known))  # type: ignore[arg-type]
    assert wrong == pytest.approx(np.abs(theirs - labels["forces"]).mean(), rel=1e-5)
    assert "labels.extxyz" in known.source
    held = [atoms.atoms_of(frame) for _ in range(2)]
    for each in held:  # forces on atoms that are held are forces, too, and those of electrons at a temperature have
        each.set_constraint(FixAtoms([0]))  # another energy than these at 0 K
        each.calc = SinglePointCalculator(each, energy=1.0, free_energy=2.0, forces=labels["forces"][0])
    ase.io.write(tmp_path / "held.traj", held)
    known = atoms.read(tmp_path / "held.traj")
    np.testing.assert_array_equal(known["forces"][0], labels["forces"][0])
    assert known["energy"].tolist() == [2.0, 2.0]
    mixed = np.tile(crystal.numbers, (24, 1))
    mixed[7] = mixed[7, ::-1]
    atoms.write(tmp_path / "mixed.extxyz", labels | {"numbers": mixed})
    with pytest.raises(BadValue):
        atoms.read(tmp_path / "mixed.extxyz")
    with pytest.raises(BadValue):
        atoms.fit(labels | {"numbers": mixed}, epochs=1)


def test_a_slab_is_one_also_for_the_code_that_labels_it(crystal: Any) -> None:
    slab, out = crystal.copy(), Out(seed=6, frames=10)
    slab.pbc = (True, True, False)
    atoms.run(Start(slab), out, EMT(), temperature_K=300, segment_ps=0.02, frame_ps=0.01)
    frame = out.frame()
    assert list(atoms.atoms_of(frame).pbc) == [True, True, False]
    assert atoms.answer(frame, EMT())["energy"] == pytest.approx(frame["energy"])


def test_bad_input_is_refused(crystal: Any, labels: dict[str, np.ndarray]) -> None:
    with pytest.raises(BadValue):
        models.Potential.fit(*labels.values(), numbers=crystal.numbers[:5])
    with pytest.raises(UnknownName):
        models.Potential(crystal.numbers, network="Perceptron")
    with pytest.raises(BadValue):
        atoms.run(Start(crystal), Out(), EMT(), temperature_K=-1)
    for held, pressure_bar in ((FixBondLength(0, 1), None), (FixAtoms([0]), 1.0)):  # ASE would not hold them
        bound = crystal.copy()
        bound.set_constraint(held)
        with pytest.raises(BadValue):
            atoms.run(Start(bound), Out(), EMT(), temperature_K=300, pressure_bar=pressure_bar)
