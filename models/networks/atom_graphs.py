"""All that is asked of graph-pes: networks of atoms by name, graphs of structures, and a committee as ASE wants it."""

from __future__ import annotations

import logging
import warnings
from typing import Any, ClassVar, Protocol

import numpy as np
import torch
from torch import nn

from steersman.system.errors import MissingExtra, UnknownName

try:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import ase
        from ase.calculators.calculator import Calculator, all_changes
        from ase.stress import full_3x3_to_voigt_6_stress
        from graph_pes.atomic_graph import AtomicGraph, to_batch
        from graph_pes.models import ALL_PES_MODELS, AdditionModel, FixedOffset, LearnableOffset
        from graph_pes.models.components.distances import PolynomialEnvelope
        from graph_pes.models.schnet import CFConv
        from graph_pes.utils.nn import HaddamardProduct
except ImportError:
    raise MissingExtra("graph-pes", "potentials") from None

logging.getLogger("graph-pes").setLevel(logging.ERROR)  # it warns of structures of one composition, each time
warnings.filterwarnings("ignore", module="graph_pes")  # of a cutoff that is another by rounding
SKIN = 0.8  # angstrom beyond the cutoff; neighbours are found anew when an atom has moved half of it


class OfGraphs(Protocol):
    """What a calculator asks of a `Potential`."""

    config: dict[str, Any]

    @property
    def device(self) -> torch.device: ...
    def of_graph(self, graph: Any, *more: str) -> dict[str, Any]: ...


def network(name: str, cutoff: float, settings: dict[str, Any]) -> nn.Module:
    """A network of the library, with an energy of each element added. Raises: UnknownName: it has no such network."""
    kinds = {kind.__name__: kind for kind in ALL_PES_MODELS}
    if name not in kinds:
        raise UnknownName("network of a potential", name, kinds)
    made = kinds[name](cutoff=cutoff, **settings)
    for each in made.modules():
        if isinstance(each, CFConv):  # SchNet's own jumps where a neighbour comes in, so its energy would not be kept
            falling = PolynomialEnvelope(cutoff)
            each.filter_generator = HaddamardProduct(each.filter_generator, falling, left_aligned=True)
    model: nn.Module = AdditionModel(offset=LearnableOffset(), network=made)
    return model


def with_offset(model: nn.Module, energy: float, numbers: np.ndarray) -> nn.Module:
    """A network with an energy of each atom added, of any of these elements, eV."""
    offset = FixedOffset(**{ase.data.chemical_symbols[number]: energy for number in np.unique(numbers)})
    added: nn.Module = AdditionModel(reference=offset, model=model)
    return added


def graph_of(numbers: np.ndarray, positions: np.ndarray, cell: np.ndarray, cutoff: float) -> Any:
    """One graph of several structures (n, A, 3) with cells (n, 3, 3), periodic along vectors that are not 0."""
    graphs = []
    for one, box in zip(positions, cell, strict=True):
        atoms = ase.Atoms(numbers, one, cell=box, pbc=np.abs(box).sum(axis=1) > 0)
        graphs.append(AtomicGraph.from_ase(atoms, cutoff=cutoff))
    return to_batch(graphs) if len(graphs) > 1 else graphs[0]


class PotentialCalculator(Calculator):  # type: ignore[misc]  # ASE has no types
    """Energy and forces of a committee, and its `spread`; its stress from where on it is asked for."""

    implemented_properties: ClassVar[list[str]] = ["energy", "forces", "spread", "stress"]

    def __init__(self, potential: OfGraphs) -> None:
        super().__init__()
        self.potential = potential
        self._graph: Any = None
        self._at = np.empty(0)
        self._more: tuple[str, ...] = ()

    def calculate(self, atoms: Any = None, properties: Any = None, system_changes: Any = all_changes) -> None:
        super().calculate(atoms, properties, system_changes)
        positions = self.atoms.get_positions()
        changed = set(system_changes) - {"positions"} or self._graph is None
        if changed or (((positions - self._at) ** 2).sum(axis=1) > (SKIN / 2) ** 2).any():
            self._graph = AtomicGraph.from_ase(self.atoms, cutoff=self.potential.config["cutoff"] + SKIN)
            self._at = positions
        graph = self._graph._replace(R=torch.tensor(positions, dtype=self._graph.R.dtype))
        if "stress" in (properties or ()):
            self._more = ("stress",)
        self.results = self.potential.of_graph(graph.to(self.potential.device), *self._more)
        if self._more:
            self.results["stress"] = full_3x3_to_voigt_6_stress(self.results["stress"])
