"""Topology, forces and rough positions -> Molecule: minimized, then warmed to the temperature of the runs."""

from __future__ import annotations

import io
from collections import defaultdict

import numpy as np
import openmm
from openmm import app, unit

from steersman.apps.errors import SimulationUnstable
from steersman.apps.molecular_dynamics.amino_acids import letter
from steersman.apps.molecular_dynamics.context import Settings, SimulationContext, raise_if_wrong
from steersman.apps.molecular_dynamics.molecule import Molecule
from steersman.apps.molecular_dynamics.periodic import box_nm, set_box

WARM_FS = 2.0  # gentler than a run's 4 fs: a minimized build still hides strain
TOLERANCE = 10.0  # kJ/mol/nm, root mean square force; OpenMM's default
# Leaves some 30 kJ/mol on 28 residues, whose heat at 300 K is 1500; a long, floppy chain would need thousands.
ITERATIONS = 100
WARM_FRICTION_PER_PS = 10.0  # takes the strain's heat away; at 1/ps the first frames were 40 K too hot
SEED = 1  # of the warming: the same sequence always gives the same start


def relaxed(
    topology: app.Topology, positions_nm: np.ndarray, system: openmm.System, *, temperature_K: float, warm_ps: float
) -> Molecule:
    """Lower the energy, then warm the molecule for `warm_ps`; 0 leaves it there.

    Args:
        topology: its atoms and bonds.
        positions_nm: (N, 3) float, nm; a rough build without overlapping atoms.
        system: its forces.
        temperature_K: to warm it to.
        warm_ps: for so long.
    Raises: SimulationUnstable: the atoms overlap so badly that lowering the energy does not part them.
    """
    settings = Settings(temperature_K, WARM_FS, WARM_FRICTION_PER_PS)
    simulation = SimulationContext(described(topology, positions_nm, system), settings)
    simulation.begin(positions_nm, None, SEED)
    try:
        openmm.LocalEnergyMinimizer.minimize(simulation.context, TOLERANCE, ITERATIONS)
        simulation.begin(simulation.read().positions, None, SEED)  # the rough build's forces are in its velocities
        simulation.step(round(warm_ps * 1000 / WARM_FS))
    except openmm.OpenMMException as blown_up:
        raise SimulationUnstable(f"{warm_ps:g} ps", SEED, str(blown_up)) from blown_up
    state = simulation.read()
    raise_if_wrong(simulation, state, warm_ps, SEED)
    turned = np.sign(_volumes(topology, positions_nm)) != np.sign(_volumes(topology, state.positions))
    if turned.any():
        atom = list(topology.atoms())[centres(topology)[int(turned.argmax())][0]]
        raise SimulationUnstable(f"{warm_ps:g} ps", SEED, f"{atom.name} of {atom.residue} is a mirror image now")
    return described(topology, state.positions, system)


def centres(topology: app.Topology) -> list[tuple[int, int, list[int]]]:
    """Carbons with three heavier neighbours, which may have a mirror image, their hydrogen, and these."""
    bonded = defaultdict[app.topology.Atom, list[app.topology.Atom]](list)
    for one, other in topology.bonds():
        bonded[one].append(other)
        bonded[other].append(one)
    found = []
    for atom, others in bonded.items():
        light = [other.index for other in others if other.element is app.element.hydrogen]
        if atom.element is app.element.carbon and len(light) == 1 and len(others) == 4:
            found.append((atom.index, light[0], sorted({other.index for other in others} - set(light))))
    return found


def _volumes(topology: app.Topology, positions_nm: np.ndarray) -> np.ndarray:
    """(centres,) signed volumes that the three neighbours span about each."""
    spans = [positions_nm[heavy] - positions_nm[carbon] for carbon, _, heavy in centres(topology)]
    return np.asarray(np.linalg.det(np.array(spans, float).reshape(-1, 3, 3)))


def described(topology: app.Topology, positions_nm: np.ndarray, system: openmm.System) -> Molecule:
    """Write a topology, its (N, 3) positions in nm and its forces down as plain data.

    The box is that of the forces: a topology of a crystal in implicit solvent has none.
    """
    box_33 = box_nm(system.getDefaultPeriodicBoxVectors()) if system.usesPeriodicBoundaryConditions() else None
    set_box(topology, box_33)
    alpha = [atom for atom in topology.atoms() if atom.name == "CA" and atom.element.symbol == "C"]
    return Molecule(
        sequence="".join(letter(atom.residue.name) for atom in alpha),
        system_xml=openmm.XmlSerializer.serialize(system),
        pdb=pdb_text(topology, positions_nm),
        positions=np.asarray(positions_nm, np.float32),
        alpha=np.array([atom.index for atom in alpha], np.int32),
        bonds=np.array([(a.index, b.index) for a, b in topology.bonds()], np.int32).reshape(-1, 2),
        periodic=box_33 is not None,
        box=box_33,
        chains=np.array([atom.residue.chain.index for atom in alpha], np.int32),
    )


def pdb_text(topology: app.Topology, positions_nm: np.ndarray) -> str:
    """Write (N, 3) positions in nm as PDB text."""
    text = io.StringIO()
    app.PDBFile.writeFile(topology, positions_nm * unit.nanometer, text, keepIds=True)
    return text.getvalue()
