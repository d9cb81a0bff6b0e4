"""Labels of atoms: energy and forces by an expensive calculator of ASE."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ase.io
import numpy as np
from ase.calculators.singlepoint import SinglePointCalculator

from steersman.apps.atoms.dynamics import atoms_of, box_of
from steersman.store import Variable, Window
from steersman.system.errors import BadValue

if TYPE_CHECKING:
    from steersman.models import Potential

ANSWERS = {
    "energy": Variable((), "eV", "potential energy, by the expensive code"),
    "forces": Variable(("atom", "xyz"), "eV/angstrom", "forces, by the expensive code"),
}


def answer(frame: Mapping[str, np.ndarray], calculator: Any) -> dict[str, np.ndarray]:
    """What `@wf.label` returns: energy and forces of a stored frame, by a calculator of ASE."""
    atoms = atoms_of(frame)
    atoms.calc = calculator
    return _said(atoms)


def _said(atoms: Any) -> dict[str, np.ndarray]:
    """Energy and forces of atoms with a calculator: of all of them, also of those that are held, and the energy whose
    derivatives these are, which with smeared electrons is another one than at 0 K."""
    forces, energy = atoms.get_forces(apply_constraint=False), atoms.get_potential_energy()
    return {"energy": np.float64(atoms.calc.results.get("free_energy", energy)), "forces": forces}


def force_error(model: Potential, frame: Mapping[str, np.ndarray], answer: Mapping[str, np.ndarray]) -> float:
    """How wrong a potential is about a frame: the largest error of a force among its atoms, eV/angstrom."""
    _, forces, _ = model.said(frame["positions"][None], frame["cell"][None])
    return float(np.sqrt(((forces[0] - answer["forces"]) ** 2).sum(axis=1)).max())


def mean_force_error(model: Potential, frames: Window) -> float:
    """How wrong a potential is about labelled frames, as a gate has them: the mean absolute error of a force's
    component, eV/angstrom."""
    truth = frames.labelled
    return float(np.abs(model.said(truth["positions"], truth["cell"])[1] - truth["forces"]).mean())


def fit(labelled: Mapping[str, np.ndarray], **settings: Any) -> Potential:
    """A potential fitted to labelled frames of the same atoms, such as `frames.labelled`.

    Args:
        settings: of `models.Potential.fit`.
    Raises: BadValue: their atoms differ.
    """
    from steersman.models import Potential

    _same(labelled["numbers"], "numbers")
    known = [labelled[name] for name in ("positions", "cell", "energy", "forces")]
    return Potential.fit(*known, numbers=labelled["numbers"][0], **settings)


def _same(numbers: Sequence[np.ndarray] | np.ndarray, where: str) -> None:
    if any(not np.array_equal(one, numbers[0]) for one in numbers):
        raise BadValue(where, "other atoms, or in another order", "give structures of the same atoms each")


class KnownLabels(dict[str, np.ndarray]):
    """Labels that exist, arrays by name, and where they come from."""

    source = ""


def read(file: str | Path) -> KnownLabels:
    """Labels that exist, of a file that ASE reads (`.extxyz`, OUTCAR, ...), structures of the same atoms each.

    Returns: numbers (n, A), positions and forces (n, A, 3), cell (n, 3, 3), energy (n,).
    Raises: BadValue: their atoms differ.
    """
    each = ase.io.read(file, index=":")
    _same([one.numbers for one in each], str(file))
    said = [_said(one) for one in each]
    known = KnownLabels({
        "numbers": np.stack([one.numbers for one in each]), "positions": np.stack([one.positions for one in each]),
        "cell": np.stack([box_of(one) for one in each]),
        **{name: np.stack([one[name] for one in said]) for name in ANSWERS},
    })  # fmt: skip
    known.source = f"{Path(file).absolute()} (SHA-256 {sha256(Path(file).read_bytes()).hexdigest()[:12]}...)"
    return known


def write(file: str | Path, labelled: Mapping[str, np.ndarray]) -> None:
    """Write labelled frames, such as `open_run(RUN).labelled`, as `.extxyz`, from which other programs learn."""
    structures = []
    for number in range(len(labelled["energy"])):
        atoms = atoms_of({name: labelled[name][number] for name in ("numbers", "positions", "cell")})
        energy, forces = float(labelled["energy"][number]), labelled["forces"][number]
        atoms.calc = SinglePointCalculator(atoms, energy=energy, forces=forces)
        structures.append(atoms)
    ase.io.write(file, structures, format="extxyz")
