"""A committee of networks as a calculator of ASE."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from ase.calculators.calculator import Calculator, all_changes
from graph_pes.atomic_graph import AtomicGraph

if TYPE_CHECKING:
    from steersman.models import Potential

SKIN = 0.8  # angstrom beyond the cutoff; neighbours are found anew when an atom has moved half of it


class Committee(Calculator):  # type: ignore[misc]  # ASE has no types
    """Energy and forces of a `Potential`, and its `spread`."""

    implemented_properties: ClassVar[list[str]] = ["energy", "forces", "spread"]

    def __init__(self, potential: Potential) -> None:
        super().__init__()
        self.potential = potential.eval()
        self._graph: Any = None
        self._at = np.empty(0)

    def calculate(self, atoms: Any = None, properties: Any = None, system_changes: Any = all_changes) -> None:
        super().calculate(atoms, properties, system_changes)
        positions = self.atoms.get_positions()
        changed = set(system_changes) - {"positions"} or self._graph is None
        if changed or (((positions - self._at) ** 2).sum(axis=1) > (SKIN / 2) ** 2).any():
            self._graph = AtomicGraph.from_ase(self.atoms, cutoff=self.potential.config["cutoff"] + SKIN)
            self._at = positions
        graph = self._graph._replace(R=torch.tensor(positions, dtype=self._graph.R.dtype))
        energy, forces, spread = self.potential.of_graph(graph.to(self.potential.device))
        self.results = {"energy": energy, "forces": forces, "spread": spread}
