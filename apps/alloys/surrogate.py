"""Configurations with their energies -> a model that knows energies and how many configurations have each of them.

Axes: n frames, N sites, F kinds of clusters, B bins.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch
from torch import Tensor

from steersman.apps.alloys.flat import Bins, Energy, Flat, density
from steersman.apps.alloys.lattice import Lattice
from steersman.models.device import best
from steersman.models.model import Model
from steersman.models.networks.vectors import Vectors
from steersman.system.errors import BadValue

if TYPE_CHECKING:
    from ase import Atoms


WALKERS = 16  # that walk for each configuration that is drawn


class Surrogate(Model):
    """A committee's energies, and a density of states: what a chain needs to visit all energies alike.

    Args:
        inputs: F.
        members, width: of the committee, see `Vectors`.
        bins: B.
        raw: bins of equal width that these are made of.
        sites, walkers: (walkers, sites) configurations are kept to walk from.
    """

    ln_g: Tensor
    ln_error: Tensor
    grid: Tensor
    number: Tensor
    pool: Tensor
    facts: Tensor

    def __init__(
        self, inputs: int, members: int, width: int, bins: int = 1, raw: int = 1, sites: int = 1, walkers: int = 1
    ) -> None:
        super().__init__(inputs=inputs, members=members, width=width, bins=bins, raw=raw, sites=sites, walkers=walkers)
        self.committee = Vectors(inputs, 1, members, width)
        numbers = torch.zeros(bins, dtype=torch.float64)
        self.register_buffer("ln_g", numbers)
        self.register_buffer("ln_error", numbers.clone())
        self.register_buffer("grid", torch.tensor([0.0, 1.0], dtype=torch.float64))  # where bins begin, their width
        self.register_buffer("number", torch.zeros(raw, dtype=torch.int64))
        self.register_buffer("pool", torch.zeros((walkers, sites), dtype=torch.int64))
        self.register_buffer("facts", torch.zeros(2, dtype=torch.int64))  # version, steps

    @classmethod
    def fit(
        cls,
        lattice: Lattice,
        frames: Mapping[str, np.ndarray],
        *,
        last: Surrogate | None,
        bin_eV: float = 0.025,
        walkers: int = 512,
        measure: int = 16_000,
        members: int = 3,
        width: int = 0,
        epochs: int = 200,
        seed: int = 0,
    ) -> Self:
        """Fit the committee to all frames, then count the configurations of each of its energies.

        Args:
            frames: `correlations` (n, F), `truth` (n,) and `failed` (n,).
            last: the model before, whose version this one follows.
            bin_eV: width of a bin; about kT where something happens. What lies above the mean of random configurations
                is one bin.
            walkers, measure: see `density`, which learns for an eighth as long. The first model only finds what the
                second one is fitted to: it measures a sixteenth of this.
            members, width, epochs, seed: see `Vectors.fit`. Planes are cluster expansions; what a network puts far too
                high because it has seen nothing like it, no audit may meet.
        Raises: as `Vectors.fit`.
        """
        known = np.asarray(frames["failed"]) == 0
        committee = Vectors.fit(
            np.asarray(frames["correlations"])[known], np.asarray(frames["truth"])[known, None], members=members,
            width=width, epochs=epochs, seed=seed,
        )  # fmt: skip
        states = lattice.random(walkers, seed).to(best())

        energy = energies(committee, lattice)
        with torch.no_grad():
            top = float(energy(states).mean())
        learned = density(
            states, energy, lattice.swapped, width=bin_eV, learn=measure // 8, top=top, seed=seed,
            measure=measure if last is not None else measure // 16,
        )  # fmt: skip
        model = cls(lattice.kinds, members, width, len(learned.ln_g), len(learned.bins.number), len(lattice), walkers)
        model.committee.load_state_dict(committee.state_dict())
        version = 1 + (int(last.facts[0]) if last is not None else 0)
        for name, value in (
            ("ln_g", learned.ln_g), ("ln_error", learned.error), ("grid", [learned.bins.low, learned.bins.width]),
            ("number", learned.bins.number), ("pool", learned.states), ("facts", [version, learned.steps]),
        ):  # fmt: skip
            getattr(model, name).copy_(torch.as_tensor(value))
        model.history, model.card = committee.history, committee.card
        return model.eval()

    @property
    def version(self) -> int:
        """How many accepted models led to this one, itself counted."""
        return int(self.facts[0])

    def said(self, correlations: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Energies (n,), eV, and by how much members differ (n,), of correlations (n, F)."""
        each = self.committee.estimates(correlations)[:, :, 0]
        return each.mean(1), each.std(1)

    @torch.no_grad()
    def drawn(self, lattice: Lattice, number: int, steps: int, seed: int, first: int) -> tuple[Tensor, Tensor, int]:
        """Walk to new configurations, and take as many of one bin as of another.

        More walk than are taken, as many from each bin as can be. Those that are taken are chosen by their bins alone,
        so that of the configurations of a bin each is as likely.

        Args:
            number: of configurations.
            first: bin of the first one; the next is of the next bin in which there is a walker.
        Returns: (number, N) configurations, their bins, and how many the surrogate judged.
        """
        generator = torch.Generator().manual_seed(seed % 2**63)
        bins = Bins(float(self.grid[0]), float(self.grid[1]), self.number)
        energy = energies(self.committee, lattice)
        home = bins(energy(self.pool))
        alike = 1 / torch.bincount(home, minlength=len(self.ln_g)).double()[home]
        picked = torch.multinomial(alike, WALKERS * number, replacement=True, generator=generator)
        chain = Flat(self.pool[picked], energy, lattice.swapped, bins, self.ln_g, generator)
        for _ in range(steps):
            chain.step()
        lap = (chain.bin[:, None] == chain.bin).tril(-1).sum(1)  # walkers of its bin before it
        taken = (lap * len(self.ln_g) + (chain.bin - first) % len(self.ln_g)).argsort(stable=True)[:number]
        return chain.states[taken], chain.bin[taken], len(self.pool) + chain.steps


def energies(committee: Vectors, lattice: Lattice) -> Energy:
    """What a committee says of configurations (W, N): (W,), the mean of its members."""
    return lambda configurations: committee(lattice.correlations(configurations)).mean(0)[:, 0]


def audits(
    lattice: Lattice,
    model: Surrogate | None,
    energy: Callable[[Atoms], float],
    *,
    seed: int,
    after: Mapping[str, Any] | None = None,
    number: int = 8,
    steps: int = 500,
) -> Iterator[dict[str, Any]]:
    """Draw configurations, and ask the expensive energy once for each of them; gives frames of `VARIABLES`.

    Which ones are asked is settled before any answer is known. An energy that fails, or that is not finite, is a frame,
    too: to leave it out would be to choose by the answer.

    Args:
        model: whose chain draws them; None: they are random.
        energy: of atoms at rest, eV.
        after: the frame that these follow: the first one is of the bin after its, so that all bins get their turn.
        steps: of the chain of each walker.
    Raises: what the energy raises, when it fails for every one of them.
    """
    version, last = (int(after["version"]), int(after["bin"])) if after else (0, 0)
    if model is None:
        configurations, where, asked = lattice.random(number, seed), torch.zeros(number), 0
    else:
        first = last + 1 if version == model.version else seed % len(model.ln_g)
        configurations, where, asked = model.drawn(lattice, number, steps, seed, first)
    correlations = lattice.correlations(configurations).numpy()
    said, spread = model.said(correlations) if model else (np.zeros(number), np.zeros(number))
    order = lattice.order(configurations)
    waiting, worked, failure = list[dict[str, Any]](), False, None
    for i, configuration in enumerate(configurations.numpy()):
        try:
            truth = float(energy(lattice.atoms(configuration)))
            if not np.isfinite(truth):
                raise BadValue("the energy", truth, "give a finite number of eV")
        except Exception as error:  # a user's energy may raise anything
            truth, failure = float(said[i]), error  # nothing reads this energy
            print(f"no energy: {type(error).__name__}: {error}", file=sys.stderr)
        else:
            worked, failure = True, None
        waiting.append({
            "configuration": configuration.astype(np.int16), "correlations": correlations[i], "order": order[i],
            "truth": truth, "said": float(said[i]), "spread": float(spread[i]), "bin": int(where[i]),
            "version": model.version if model else 0, "steps": asked * (i + 1) // len(said) - asked * i // len(said),
            "trained_steps": int(model.facts[1]) if model else 0, "failed": failure is not None,
        })  # fmt: skip
        if worked:
            yield from waiting
            waiting.clear()
    if failure is not None and not worked:
        raise failure


def judged(model: Surrogate | None, frames: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Give the scores of frames that `steersman.audits` looks at, and the error of this model, eV."""
    names = ("truth", "said", "spread", "order", "version", "bin", "steps", "trained_steps", "failed")
    scores = {name: np.asarray(frames[name]) for name in names}
    if model is None:
        return scores
    here = np.clip(scores["bin"], 0, len(model.ln_g) - 1)  # of frames of other versions nothing is said
    ln_g, ln_error = model.ln_g.numpy(force=True), model.ln_error.numpy(force=True)
    error = np.abs(model.said(np.asarray(frames["correlations"]))[0] - scores["truth"])
    return scores | {
        "error": np.where(scores["failed"], 0.0, error),
        "scored_by": np.full(len(here), model.version),
        "bins": np.full(len(here), len(ln_g)),
        "ln_size": ln_g[here],
        "ln_error": ln_error[here],
    }
