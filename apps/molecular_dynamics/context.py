"""Molecule -> OpenMM context: forces, integrator and platform, built once and begun anew for every segment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import openmm
from openmm import unit

from steersman.apps.errors import SimulationUnstable
from steersman.apps.molecular_dynamics.biasing import GROUP, BiasForce, Coordinate, keep_trans
from steersman.apps.molecular_dynamics.molecule import Molecule
from steersman.apps.molecular_dynamics.noise import Noise, one_particle
from steersman.steering import Bias
from steersman.system.errors import BadInput, UnknownName

FASTEST_FIRST = ("CUDA", "HIP", "OpenCL", "CPU", "Reference")
# The same start and seed give the same bits: no sum whose order depends on threads.
PROPERTIES = {
    "CUDA": {"Precision": "mixed", "DeterministicForces": "true"},
    "HIP": {"Precision": "mixed", "DeterministicForces": "true"},
    "OpenCL": {"Precision": "mixed"},
    "CPU": {"DeterministicForces": "true"},
}
GAS_CONSTANT = 0.00831446261815324  # kJ/mol/K
# A thermostat's temperature fluctuates, by 20 % for the smallest peptide; a strained structure may be hotter for a
# while. Five times is no fluctuation any more.
HOTTEST, IMPOSSIBLE = 5.0, 6.0  # times the thermostat's, and quantiles as of a normal, whichever is more
LEAST_UNUSUAL, UNUSUAL = 1.5, 3.5  # the same, of what was heated by a time step that is too long
COLDEST_K = 100.0  # a colder thermostat's bounds are those of this one
KEPT = 4  # contexts: of a hot phase, of a control, with a bias, and at half of the time step


@dataclass(frozen=True)
class Settings:
    """How a context integrates.

    Args:
        temperature_K: of the thermostat.
        timestep_fs: of the integrator.
        friction_per_ps: of the thermostat; 0 turns it off (then energy is conserved).
        platform: OpenMM's name for it; None takes the fastest that works.
        threads: of the CPU platform; with more than one, sums are no longer repeatable.
        trans: whether peptide bonds are kept trans, also without a bias.
    """

    temperature_K: float
    timestep_fs: float = 4.0
    friction_per_ps: float = 1.0
    platform: str | None = None
    threads: int = 1
    trans: bool = False


@dataclass(frozen=True)
class PhaseState:
    """Where the atoms are and how they move, in the integrator's own precision.

    Args:
        positions: (N, 3) float64, nm.
        velocities: (N, 3) float64, nm/ps.
        energy: potential energy without that of a bias, kJ/mol.
        kinetic: kinetic energy, kJ/mol.
        bias: energy of the bias, kT.
    """

    positions: np.ndarray
    velocities: np.ndarray
    energy: float
    kinetic: float
    bias: float = 0.0


class SimulationContext:
    """One OpenMM context of one molecule, used by one segment at a time.

    Args:
        coordinate: along which a bias will push; None: none will.
    """

    def __init__(self, molecule: Molecule, settings: Settings, coordinate: Coordinate | None = None) -> None:
        self.molecule, self.settings = molecule, settings
        self.busy, self.platform = False, settings.platform or _fastest()
        system = openmm.XmlSerializer.deserialize(molecule.system_xml)
        self.bias_force = BiasForce(system, coordinate, self.platform) if coordinate else None
        if coordinate or settings.trans:
            keep_trans(system, molecule)
        self.context = open_context(system, settings)
        self.integrator = self.context.getIntegrator()
        self._freedom = degrees_of_freedom(system)
        particle = open_context(one_particle(), settings) if self.platform in ("CPU", "Reference") else None
        self.noise = Noise(self.context, np.asarray(molecule.positions, np.float64), particle)

    def begin(
        self,
        positions: np.ndarray,
        velocities: np.ndarray | None,
        seed: int | Sequence[int],
        bias: Bias | None = None,
    ) -> None:
        """Put the atoms at (N, 3) positions, nm, with these velocities, nm/ps, or with new ones drawn from the seed.

        What follows depends on nothing that the context did before.
        """
        chance = np.random.default_rng(seed)
        noise_seed = int(chance.integers(1, 2**31))  # 31 bits, and 0 would mean "take any"
        self.noise.begin(noise_seed, np.asarray(positions, np.float64))
        if self.bias_force and bias:
            self.bias_force.set(self.context, bias, self.kT)
        if velocities is None:
            # The integrator's velocities are those of half a step before its positions; OpenMM shifts what it draws by
            # that, for one more evaluation of the forces. Unshifted, each start heats what is stiff.
            self.context.setVelocitiesToTemperature(self.settings.temperature_K, int(chance.integers(1, 2**31)))
        else:
            self.context.setVelocities(np.asarray(velocities, np.float64))

    def step(self, steps: int) -> None:
        """Integrate this many steps. Raises: openmm.OpenMMException when a position becomes NaN."""
        self.integrator.step(steps)

    def read(self) -> PhaseState:
        """Read positions, velocities and energies; not wrapped into the periodic box."""
        state = self.context.getState(positions=True, velocities=True, energy=True)
        bias = self._bias_energy() if self.bias_force else 0.0
        return PhaseState(
            state.getPositions(asNumpy=True).value_in_unit(unit.nanometer),
            state.getVelocities(asNumpy=True).value_in_unit(unit.nanometer / unit.picosecond),
            state.getPotentialEnergy().value_in_unit(unit.kilojoule_per_mole) - bias,
            state.getKineticEnergy().value_in_unit(unit.kilojoule_per_mole),
            bias / self.kT if bias else 0.0,
        )

    @property
    def kT(self) -> float:
        """Of the thermostat, kJ/mol."""
        return GAS_CONSTANT * self.settings.temperature_K

    def _bias_energy(self) -> float:
        energy = self.context.getState(energy=True, groups={GROUP}).getPotentialEnergy()
        return float(energy.value_in_unit(unit.kilojoule_per_mole))

    def temperature_K(self, state: PhaseState) -> float:
        """Give the instantaneous temperature from the kinetic energy."""
        return 2 * state.kinetic / (self._freedom * GAS_CONSTANT)

    def unusual(self, state: PhaseState, begun: PhaseState) -> bool:
        """Whether a state is hotter than a thermostat lets it be: forces were too stiff for the time step on the way.
        Without a thermostat, whether it has as much more energy than where it begun."""
        bound_K = self._bound_K(LEAST_UNUSUAL, UNUSUAL)
        if self.settings.friction_per_ps > 0:
            return self.temperature_K(state) > bound_K
        one, other = (each.energy + each.kinetic + each.bias * self.kT for each in (state, begun))
        return 2 * (one - other) / (self._freedom * GAS_CONSTANT) > bound_K - self._thermostat_K

    def complaint(self, state: PhaseState) -> str:
        """Say what is wrong with a state; empty when nothing is."""
        if not (np.isfinite(state.energy) and np.isfinite(state.positions).all()):
            return f"positions or energy are not finite (energy {state.energy:g} kJ/mol)"
        temperature_K = self.temperature_K(state)
        if temperature_K < self._bound_K(HOTTEST, IMPOSSIBLE):
            return ""
        return f"temperature {temperature_K:.3g} K, energy {state.energy:.3g} kJ/mol"

    def _bound_K(self, times: float, quantile: float) -> float:
        """So many times the thermostat's temperature, and beyond what chance makes of it: a quantile of chi squared, by
        the cube root that Wilson and Hilferty (1931) found to be normal."""
        spread = 2 / (9 * self._freedom)
        chance = float((1 - spread + quantile * np.sqrt(spread)) ** 3)
        return self._thermostat_K * max(times, chance)

    @property
    def _thermostat_K(self) -> float:
        return max(self.settings.temperature_K, COLDEST_K)


@lru_cache(maxsize=KEPT)
def _kept(molecule: Molecule, settings: Settings, coordinate: Coordinate | None) -> SimulationContext:
    return SimulationContext(molecule, settings, coordinate)


def warm_context(molecule: Molecule, settings: Settings, coordinate: Coordinate | None = None) -> SimulationContext:
    """Give the context of these that this process keeps warm; a new one when another segment is still using it."""
    kept = _kept(molecule, settings, coordinate)
    return SimulationContext(molecule, settings, coordinate) if kept.busy else kept


def open_context(system: openmm.System, settings: Settings) -> openmm.Context:
    """Open a context on the asked platform, or on the fastest one that works here.

    Raises: UnknownName: the asked one does not exist or finds no device. BadInput: in OpenMM's words.
    """
    name = settings.platform or _fastest()
    try:
        return _context(system, name, settings)
    except openmm.OpenMMException as error:
        if _works(name):
            raise BadInput(f"the OpenMM System: {error}") from None
        raise UnknownName("OpenMM platform that works here", name, available_platforms()) from None


@lru_cache(maxsize=1)
def _fastest() -> str:
    """The fastest platform that finds its device; Reference needs none."""
    return next(name for name in FASTEST_FIRST if _works(name))


def _context(system: openmm.System, name: str, settings: Settings) -> openmm.Context:
    platform = openmm.Platform.getPlatformByName(name)
    return openmm.Context(system, _integrator(settings), platform, _properties(name, settings))


def _works(name: str) -> bool:
    """Whether a platform simulates one particle: what it refuses then is the System."""
    try:
        _context(one_particle(), name, Settings(300.0))
    except openmm.OpenMMException:
        return False
    return True


def available_platforms() -> list[str]:
    """Name the platforms that OpenMM was built with; a device may still be missing."""
    return [openmm.Platform.getPlatform(i).getName() for i in range(openmm.Platform.getNumPlatforms())]


def degrees_of_freedom(system: openmm.System) -> int:
    """Count how many independent ways of moving the atoms have; one without mass cannot move."""
    moving = sum(bool(system.getParticleMass(i) > 0 * unit.dalton) for i in range(system.getNumParticles()))
    still = 3 * any(isinstance(force, openmm.CMMotionRemover) for force in system.getForces())
    return int(max(1, 3 * moving - system.getNumConstraints() - still))


def raise_if_wrong(context: SimulationContext, state: PhaseState, time_ps: float, seed: int) -> None:
    """Raise SimulationUnstable when a state has left physics."""
    complaint = context.complaint(state)
    if complaint:
        raise SimulationUnstable(f"{time_ps:g} ps", seed, complaint)


def _integrator(settings: Settings) -> openmm.Integrator:
    step = settings.timestep_fs * unit.femtosecond
    return openmm.LangevinMiddleIntegrator(settings.temperature_K, settings.friction_per_ps, step)


def _properties(name: str, settings: Settings) -> dict[str, str]:
    threads = {"Threads": str(settings.threads)} if name == "CPU" else {}
    return {**PROPERTIES.get(name, {}), **threads}
