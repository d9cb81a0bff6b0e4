"""A model, its features and a bias -> OpenMM forces that push along the model's coordinate.

The network is written out as OpenMM's own forces, so that no torch stands in the inner loop, and every platform runs
it. A new version of the bias is a new table in the same context.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import openmm

from steersman.apps.molecular_dynamics.bonds import peptide_bonds
from steersman.apps.molecular_dynamics.features import Features
from steersman.apps.molecular_dynamics.molecule import Molecule
from steersman.steering import Bias
from steersman.system.errors import BadValue

GROUP = 30  # the force group of the bias alone
WIDEST, LARGEST = 32, 300  # units of the first hidden layer, and the product of all layers
FREE_RAD, STIFF = np.radians(69.0), 500.0  # a peptide bond turns freely so far from trans, then kJ/mol/rad^2
Layers = Sequence[tuple[np.ndarray, np.ndarray]]


@dataclass(frozen=True, eq=False)
class Coordinate:
    """A collective variable: features, and a network of dense layers with tanh between them. Equal only to itself.

    Args:
        features: F numbers of the positions.
        layers: (out, in) weights and (out,) offsets of each; the first takes F numbers, the last gives d.
    """

    features: Features
    layers: Layers

    @property
    def dimensions(self) -> int:
        return len(self.layers[-1][1])


@lru_cache(maxsize=1)
def coordinate(features: Features, model: Any) -> Coordinate:
    """The coordinate of a model of these features, or the features themselves without a model (None); the same object
    for the same model, so that its context stays warm.

    Raises: BadInput: the model cannot be written out as forces. BadValue: it was fitted to others, or it is so large
        that OpenMM would take minutes to find the derivatives.
    """
    layers = [(np.eye(features.count), np.zeros(features.count))] if model is None else model.dense_layers()
    if layers[0][0].shape[1] != features.count:
        raise BadValue(
            "features", features.count, f"give the {layers[0][0].shape[1]} numbers that the model was fitted to"
        )
    hidden = [len(offsets) for _, offsets in layers[:-1]]
    if hidden and (hidden[0] > WIDEST or np.prod(hidden) > LARGEST):
        raise BadValue("hidden", hidden, f"a bias bears one layer of up to {WIDEST}, or two of 16: fit a smaller one")
    return Coordinate(features, layers)


class BiasForce:
    """The bias of one coordinate in a System; `set` gives it a version once there is a context.

    Args:
        platform: of that context.
    Raises: BadValue: a coordinate of more than 3 dimensions.
    """

    def __init__(self, system: openmm.System, coordinate: Coordinate, platform: str) -> None:
        dimensions = coordinate.dimensions
        if not 1 <= dimensions <= 3:
            raise BadValue("the coordinate's dimensions", dimensions, "give 1 to 3")
        (weights, offsets), *rest = coordinate.layers
        self._force = openmm.CustomCVForce(_expression(offsets, rest))
        for number, row in enumerate(np.asarray(weights, float)):
            self._force.addCollectiveVariable(f"c{number}", coordinate.features.force(row))
        self._names = ["kT", *(f"{name}{j}" for j in range(dimensions) for name in ("low", "high", "period", "turns"))]
        for name in self._names:
            self._force.addGlobalParameter(name, 0.0)
        self._force.addTabulatedFunction("V", _table(np.zeros((4,) * dimensions), [(0.0, 1.0)] * dimensions))
        # A variable costs 22 us a step on the CPU platform, where threads are woken for it, and 1 us on Reference.
        self._beside = _beside(system, self._force) if platform == "CPU" else None
        if not self._beside:
            self._force.setForceGroup(GROUP)
            system.addForce(self._force)
        self._version: Bias | None = None

    def set(self, context: openmm.Context, bias: Bias, kT: float) -> None:
        """Push by this version from now on; positions are to be set before the next step.

        Args:
            kT: kJ/mol.
        """
        context = self._beside or context
        ends = [(float(axis[0]), float(axis[-1])) for axis in bias.axes]
        if bias is not self._version:
            function = self._force.getTabulatedFunction(0)
            function.setFunctionParameters(*_arguments(bias.table, ends))
            self._force.updateParametersInContext(context)
            self._version = bias
        periods = [(period, 1 / period if period else 0.0) for period in bias.periods.tolist()]
        values = [kT, *(value for pair in zip(ends, periods, strict=True) for value in (*_within(*pair[0]), *pair[1]))]
        for number, (name, value) in enumerate(zip(self._names, values, strict=True)):
            self._force.setGlobalParameterDefaultValue(number, value)  # a context that is made anew begins with it
            context.setParameter(name, value)

    def inputs(self, context: openmm.Context) -> np.ndarray:
        """(inputs,) float64: what the first layer makes of the features, without its offsets, where the atoms are, or
        on the CPU platform were when forces were last computed."""
        return np.array(self._force.getCollectiveVariableValues(self._beside or context))


def _beside(system: openmm.System, force: openmm.Force) -> openmm.Context:
    """Let a context of its own, on the Reference platform, compute a force of a System. Returns: that context."""
    atoms = openmm.System()
    for _ in range(system.getNumParticles()):
        atoms.addParticle(1.0)
    atoms.addForce(force)
    context = openmm.Context(atoms, openmm.VerletIntegrator(1.0), openmm.Platform.getPlatformByName("Reference"))

    def energy_and_forces(state: openmm.State) -> tuple[float, np.ndarray]:
        if periodic:
            context.setPeriodicBoxVectors(*state.getPeriodicBoxVectors())
        context.setPositions(state.getPositions(asNumpy=True)._value)
        found = context.getState(energy=True, forces=True)
        return found.getPotentialEnergy()._value, found.getForces(asNumpy=True)._value

    periodic = force.usesPeriodicBoundaryConditions()
    given = openmm.PythonForce(energy_and_forces)
    given.setUsesPeriodicBoundaryConditions(periodic)
    given.setForceGroup(GROUP)
    system.addForce(given)
    return context


def keep_trans(system: openmm.System, molecule: Molecule) -> None:
    """Keep the peptide bonds of a molecule within 69 degrees of trans: a bias on distances turns them, and which bond
    was turned becomes the slowest coordinate that there is."""
    force = openmm.CustomTorsionForce("0.5*stiff*max(0, pi - abs(theta) - free)^2; pi=3.141592653589793")
    force.addGlobalParameter("stiff", STIFF)
    force.addGlobalParameter("free", FREE_RAD)
    for four in peptide_bonds(molecule):
        force.addTorsion(*four, [])
    system.addForce(force)


def _expression(offsets: np.ndarray, rest: Layers) -> str:
    """The energy as OpenMM's text: V of the coordinate, of layers, of c0, c1, ... which the first weights give."""
    values = [f"c{i} + {float(offset)!r}" for i, offset in enumerate(offsets)]
    lines: list[str] = []
    for depth, (weights, shifts) in enumerate(rest):
        lines = [*(f"t{depth}_{i} = tanh({value})" for i, value in enumerate(values)), *lines]
        values = [
            " + ".join([repr(float(shift)), *(f"{float(weight)!r}*t{depth}_{i}" for i, weight in enumerate(row))])
            for row, shift in zip(weights, shifts, strict=True)
        ]
    numbers = range(len(values))
    wrapped = "z{0}" if rest else "z{0} - period{0}*floor(z{0}*turns{0})"  # a network's coordinate has no period
    inside = ", ".join(f"min(max({wrapped.format(j)}, low{j}), high{j})" for j in numbers)
    return "; ".join([f"kT*V({inside})", *(f"z{j} = {values[j]}" for j in numbers), *lines])


def _within(low: float, high: float) -> tuple[float, float]:
    """Ends that are surely in OpenMM's table: it computes its last node anew, maybe a rounding below `high`, and ends
    the process where a point lies beyond."""
    rounding = 8 * float(np.spacing(max(abs(low), abs(high))))
    return low + rounding, high - rounding


def _table(values: np.ndarray, ends: Sequence[tuple[float, float]]) -> openmm.TabulatedFunction:
    kinds = openmm.Continuous1DFunction, openmm.Continuous2DFunction, openmm.Continuous3DFunction
    return kinds[values.ndim - 1](*_arguments(values, ends))


def _arguments(values: np.ndarray, ends: Sequence[tuple[float, float]]) -> list[Any]:
    sizes = values.shape if values.ndim > 1 else ()
    return [*sizes, values.ravel(order="F").tolist(), *(end for pair in ends for end in pair)]
