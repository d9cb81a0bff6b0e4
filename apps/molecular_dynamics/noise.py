"""Seed -> the random numbers of an OpenMM context, as if it had just been made with that seed."""

from __future__ import annotations

import itertools

import openmm


class Noise:
    """The thermostat's random numbers of one context.

    OpenMM looks at a seed only when it makes a context, so its way is `reinitialize()`: 1 ms of processor time and a
    new thread, 3 ms beside a training. A checkpoint holds the state of the random numbers, too, on the CPU platform at
    its end. That end is taken from a context of one particle, which is made anew in 0.03 ms.

    Args:
        context: as it was made, nothing set.
        particle: of one particle, with the same integrator, platform and properties; None: `reinitialize()` it is. So
            it is, too, where both ways do not lead to the same checkpoint bit for bit.
    """

    def __init__(self, context: openmm.Context, particle: openmm.Context | None = None) -> None:
        self._context, self._particle = context, particle
        if particle is not None:
            one, two = (_made_anew(context, seed) for seed in (1, 2))
            self._before = bytes(
                a for a, _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(one, two, strict=True))
            )
            self._length = len(one) - len(self._before)
            if not self._length or [self._checkpoint(seed) for seed in (1, 2)] != [one, two]:
                self._particle = None

    def begin(self, seed: int) -> None:
        """Begin anew from a seed, 1 to 2^31 - 1; positions and velocities are to be set then."""
        if self._particle is None:
            _made_anew(self._context, seed)
        else:
            self._context.loadCheckpoint(self._checkpoint(seed))

    def _checkpoint(self, seed: int) -> bytes:
        assert self._particle is not None
        return self._before + _made_anew(self._particle, seed)[-self._length :]


def one_particle() -> openmm.System:
    system = openmm.System()
    system.addParticle(1.0)
    return system


def has_neighbour_lists(system: openmm.System) -> bool:
    """Whether a force has a cutoff: the order of its sums depends on where the atoms were when its list was made."""
    return any(force.getNonbondedMethod() for force in system.getForces() if hasattr(force, "getNonbondedMethod"))


def _made_anew(context: openmm.Context, seed: int) -> bytes:
    context.getIntegrator().setRandomNumberSeed(seed)
    context.reinitialize()
    checkpoint: bytes = context.createCheckpoint()
    return checkpoint
