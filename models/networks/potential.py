"""Atoms -> energy and forces, and how unsure they are: a committee of graph networks, by graph-pes.

Axes: n structures, A atoms, M members. Angstrom, eV.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn

from steersman.models.errors import at_least
from steersman.models.fitting.fit import Record, fit, seeded
from steersman.models.fitting.schedule import Schedule
from steersman.models.model import Model
from steersman.models.networks.atom_graphs import PotentialCalculator, graph_of, with_offset
from steersman.models.networks.atom_graphs import network as network_of
from steersman.system.errors import BadValue

SMALL = {"channels": 48, "layers": 3, "expansion_features": 24}  # a SchNet of 40,000 numbers, for one core
PER_ATOM = 10.0  # weight of the square error of the energy of an atom beside that of a component of a force


class Potential(Model):
    """A learned force field: members that learn the same labels, each from weights of its own.

    Args:
        numbers: atomic number of each of the A atoms.
        cutoff: beyond which atoms do not see each other, angstrom.
        members: M; one alone has nobody to disagree with.
        network: one of graph-pes: "SchNet", "PaiNN", "TensorNet", "NequIP", "MACE", ...
        settings: of the network; None: a small SchNet's, or the library's own of others.
    Raises: BadValue: a number below 1. UnknownName: another network. MissingExtra: graph-pes is not installed.
    Source: Gardner et al. (2024), graph-pes; Schuett et al. (2017), SchNet.
    """

    def __init__(
        self,
        numbers: Sequence[int],
        cutoff: float = 4.0,
        members: int = 2,
        network: str = "SchNet",
        settings: dict[str, Any] | None = None,
    ) -> None:
        at_least(1, members=members, atoms=len(numbers))
        config = {"numbers": [int(each) for each in numbers], "cutoff": float(cutoff), "members": members,
                  "network": network, "settings": settings}  # fmt: skip
        super().__init__(**config)
        chosen = SMALL if settings is None and network == "SchNet" else settings or {}
        self.numbers = np.array(config["numbers"])
        self.members = nn.ModuleList(network_of(network, cutoff, chosen) for _ in range(members))
        self.to(torch.float32)
        self.reference: Tensor  # eV; float32, as the members have it, has no meV of an energy of all electrons
        self.register_buffer("reference", torch.zeros((), dtype=torch.float64))

    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """Weights alone: modules of graph-pes add their version, which is no tensor."""
        state = super().state_dict(*args, **kwargs)
        return type(state)((name, each) for name, each in state.items() if isinstance(each, Tensor))

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> Any:
        return super().load_state_dict({**super().state_dict(), **state_dict}, strict, assign)

    def fits(self, other: Model) -> bool:
        """Also of one cutoff: graph-pes keeps it among the weights."""
        alike = all(self.config[name] == other.config.get(name) for name in ("cutoff", "network", "settings"))
        return alike and super().fits(other)

    @property
    def _each(self) -> Iterator[Any]:
        """The members."""
        yield from self.members

    @classmethod
    def fit(
        cls,
        positions: np.ndarray,
        cell: np.ndarray,
        energy: np.ndarray,
        forces: np.ndarray,
        *,
        numbers: Sequence[int],
        cutoff: float = 4.0,
        members: int = 2,
        network: str = "SchNet",
        settings: dict[str, Any] | None = None,
        init: Model | None = None,
        epochs: int = 120,
        batch: int = 2,
        lr: float = 3e-3,
        seed: int = 0,
        report: Callable[[Record], object] | None = None,
        **others: Any,
    ) -> Self:
        """Fit to labels; the rate falls to nothing.

        Args:
            positions: (n, A, 3), angstrom.
            cell: (n, 3, 3), angstrom; 0 of molecules in free space.
            energy: (n,), eV.
            forces: (n, A, 3), eV/angstrom.
            numbers, cutoff, members, network, settings: see the class.
            init: a potential to go on from, left as it is; when its architecture differs the fit begins anew.
            epochs, batch, lr, seed, report, and others: see `steersman.models.fitting.fit.fit`.
        Returns: a new potential in eval mode. Its `history` has per epoch `loss`, and `force`, the mean absolute error
            of a component of a force, eV/angstrom.
        Raises: BadValue: shapes that do not fit, or NaN. TrainingDiverged: the loss is not finite.
        """
        wanted = {"positions": (len(energy), len(numbers), 3), "cell": (len(energy), 3, 3),
                  "energy": (len(energy),), "forces": (len(energy), len(numbers), 3)}  # fmt: skip
        given = {"positions": positions, "cell": cell, "energy": energy, "forces": forces}
        for name, shape in wanted.items():
            if np.shape(given[name]) != shape or not np.isfinite(given[name]).all():
                raise BadValue(name, np.shape(given[name]), f"give finite numbers of shape {shape}")
        with seeded(seed):
            model = cls(numbers, cutoff, members, network, settings)
            if model.warm_start(init):  # another version of the expensive code may have another zero
                model.reference += float(np.mean(energy - model.said(positions, cell)[0]))
            else:
                model.reference.fill_(float(np.mean(energy)))
                model._scale(positions, cell, energy - np.mean(energy), forces)
        data = tuple(torch.from_numpy(np.asarray(each, np.float64)) for each in given.values())
        others = {"schedule": Schedule(decay_epochs=epochs)} | others
        return fit(model, data, cls.loss, epochs=epochs, batch=batch, lr=lr, seed=seed, report=report, **others)

    def loss(self, positions: Tensor, cell: Tensor, energy: Tensor, forces: Tensor) -> dict[str, Tensor]:
        """Means over members and structures; "loss" is the one to lower."""
        graph = self._graph(positions.detach().cpu().numpy(), cell.detach().cpu().numpy())
        wanted, errors, mean = forces.reshape(-1, 3).float(), [], []
        for member in self._each:
            said = member.predict(graph, ["energy", "forces"])
            per_atom = (said["energy"] - (energy - self.reference).float()) / len(self.numbers)
            errors.append(((said["forces"] - wanted) ** 2).mean() + PER_ATOM * (per_atom**2).mean())
            mean.append((said["forces"].detach() - wanted).abs().mean())
        return {"loss": torch.stack(errors).mean(), "force": torch.stack(mean).mean()}

    def said(self, positions: np.ndarray, cell: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """What the committee says of structures (n, A, 3) with cells (n, 3, 3).

        Returns: (n,) energy; (n, A, 3) forces, the means of the members; (n,) spread, the largest standard deviation
            of a force among the atoms, as the deviation of DP-GEN, eV/angstrom; 0 of one member alone.
        """
        each = [self.of_graph(self._graph(x[None], box[None])) for x, box in zip(positions, cell, strict=True)]
        energy, forces, spread = (np.array([one[name] for one in each]) for name in ("energy", "forces", "spread"))
        return energy, forces, spread

    def of_graph(self, graph: Any, *more: str) -> dict[str, Any]:
        """Energy, forces (A, 3), spread, and more of what the library can say, of one structure, as a graph of it."""
        said = [member.predict(graph, ["energy", "forces", *more]) for member in self._each]
        each = {name: np.stack([one[name].detach().cpu().double().numpy() for one in said]) for name in said[0]}
        deviation = np.sqrt((each["forces"].std(axis=0) ** 2).sum(axis=-1))
        results = {name: values.mean(axis=0) for name, values in each.items()}
        zero = float(self.reference) * len(deviation) / len(self.numbers)
        return results | {"energy": float(results["energy"]) + zero, "spread": float(deviation.max())}

    def calculator(self) -> PotentialCalculator:
        """A calculator of ASE: energy, forces, stress and `spread`, see `said`. It is kept, for neighbours are."""
        return PotentialCalculator(self)

    def write(self, file: str | Path, member: int = 0) -> None:
        """Write one member as a file of graph-pes, which ASE and LAMMPS load: `load_model(file).ase_calculator()`.

        It is of single precision. Where that has no meV an atom of the labels' energies, as of all electrons, they are
        written relative to their mean, and a warning says so.
        """
        zero = float(self.reference)
        if abs(zero) * torch.finfo(torch.float32).eps > 1e-3 * len(self.numbers):
            warnings.warn(f"{file}: energies are relative to {zero} eV, for they are of single precision", stacklevel=2)
            zero = 0.0
        torch.save(with_offset(self.members[member], zero / len(self.numbers), self.numbers), file)

    def _graph(self, positions: np.ndarray, cell: np.ndarray) -> Any:
        return graph_of(self.numbers, positions, cell, self.config["cutoff"]).to(self.device)

    def _scale(self, positions: np.ndarray, cell: np.ndarray, energy: np.ndarray, forces: np.ndarray) -> None:
        """Begin with the mean energy of an atom, and the spread of energies."""
        graphs = []
        for i in range(len(energy)):
            graph = self._graph(positions[i : i + 1], cell[i : i + 1])
            graph.properties.update(energy=torch.tensor(energy[i], dtype=torch.float32),
                                    forces=torch.tensor(forces[i], dtype=torch.float32))  # fmt: skip
            graphs.append(graph)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for member in self._each:
                member.pre_fit_all_components(graphs)
