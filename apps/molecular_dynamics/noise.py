"""Seed -> an OpenMM context as if it had just been made with that seed, at a fraction of the cost."""

from __future__ import annotations

import numpy as np
import openmm

TRIED_STEPS = 5  # a GPU draws its numbers for four steps at once
ROUNDING_NM = 1e-4  # other noise, or a force that is missing, moves atoms by ten times as much
FAR_NM = 10.0  # more than the margin of any list of neighbours


class Noise:
    """The random numbers of a context's thermostat, and what else it keeps of the segments before.

    OpenMM looks at a seed only when it makes a context, so its way is `reinitialize()`: 1 ms of processor time and a
    new thread on the CPU platform, a tenth of a second and more on a GPU. A checkpoint holds the state of the random
    numbers, too. On GPUs it begins as a linear congruential sequence of the seed, which is computed here. On the CPU
    platform it is the end of the checkpoint, and is taken from a context of one particle, made anew in 0.03 ms.

    Args:
        context: as it was made, nothing set.
        positions: (N, 3), nm, from which some steps are tried.
        particle: of one particle, with the same integrator, platform and properties; None on a GPU.
    Attributes:
        quick: this way gives the state of OpenMM's, and leads to the same positions up to rounding. Else
            `reinitialize()` it is.

    Source: OpenMM, `IntegrationUtilities`, which CUDA, HIP and OpenCL share.
    """

    def __init__(self, context: openmm.Context, positions: np.ndarray, particle: openmm.Context | None = None) -> None:
        self._context, self._particle, self.quick = context, particle, False
        self._lists = has_neighbour_lists(context.getSystem())
        one, two = (self._anew(seed, positions) for seed in (1, 2))
        start = _alike(one, two) if particle is not None else one.find(_congruential(1, 64))
        same = _alike(one[start:], _congruential(1, len(one))) // 16 * 16
        self._length = same if particle is None else len(one) - start
        self._before, self._after = one[:start], one[start + self._length :]
        states = [made[start : start + self._length] for made in (one, two)]
        if self._length and states == [self._state(1), self._state(2)]:
            self.quick = self._leads_there(positions)

    def begin(self, seed: int, positions: np.ndarray) -> None:
        """Begin anew from a seed, 1 to 2^31 - 1, at (N, 3) positions, nm; velocities are to be set then."""
        if self.quick:
            if self._lists:  # the next step makes them anew, for all atoms have moved too far
                self._context.setPositions(positions + FAR_NM)
                self._context.getState(energy=True)
            self._context.loadCheckpoint(self._before + self._state(seed) + self._after)
        else:
            _make_anew(self._context, seed)
        self._context.setPositions(positions)

    def _state(self, seed: int) -> bytes:
        if self._particle is None:
            return _congruential(seed, self._length)
        _make_anew(self._particle, seed)
        state: bytes = self._particle.createCheckpoint()[-self._length :]
        return state

    def _anew(self, seed: int, positions: np.ndarray) -> bytes:
        """The checkpoint of a new context, with what OpenMM puts there at the first evaluation: a GPU's charges."""
        _make_anew(self._context, seed)
        self._context.setPositions(positions)
        self._context.getState(energy=True)
        checkpoint: bytes = self._context.createCheckpoint()
        return checkpoint

    def _leads_there(self, positions: np.ndarray) -> bool:
        """Whether some steps of both ways do, the second seed's context being new."""
        try:
            anew, self.quick = self._stepped(positions), True
            self.begin(2, positions)
            return np.allclose(anew, self._stepped(positions), rtol=0, atol=ROUNDING_NM)
        except openmm.OpenMMException:  # from there nothing can be simulated
            return False

    def _stepped(self, positions: np.ndarray) -> np.ndarray:
        self._context.setVelocities(np.zeros_like(positions))
        self._context.getIntegrator().step(TRIED_STEPS)
        return np.asarray(self._context.getState(positions=True).getPositions(asNumpy=True)._value)


def one_particle() -> openmm.System:
    system = openmm.System()
    system.addParticle(1.0)
    return system


def has_neighbour_lists(system: openmm.System) -> bool:
    """Whether a force has a cutoff: the order of its sums depends on where the atoms were when its list was made."""
    return any(force.getNonbondedMethod() for force in system.getForces() if hasattr(force, "getNonbondedMethod"))


def _alike(one: bytes, other: bytes) -> int:
    """How many bytes both begin with."""
    shorter = min(len(one), len(other))
    same = np.frombuffer(one[:shorter], np.uint8) == np.frombuffer(other[:shorter], np.uint8)
    return shorter if same.all() else int(np.argmin(same))


def _congruential(seed: int, length: int) -> bytes:
    """Bytes of x_k = (1664525 x_(k-1) + 1013904223) mod 2^32, k from 1, where x_0 is the seed."""
    powers = np.cumprod(np.full(length // 4, 1664525, np.uint32), dtype=np.uint32)
    sums = np.cumsum(np.append(np.uint32(1), powers[:-1]), dtype=np.uint32)
    return (powers * np.uint32(seed) + sums * np.uint32(1013904223)).tobytes()


def _make_anew(context: openmm.Context, seed: int) -> None:
    context.getIntegrator().setRandomNumberSeed(seed)
    context.reinitialize()
