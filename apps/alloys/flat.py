"""A cheap energy -> how many configurations have each energy, and configurations of every energy alike.

W walkers in one tensor share one estimate of ln g. While it is learned (Wang-Landau) all bins come to be visited alike;
then it is frozen, and counted is from which bin to which the moves were proposed: g is what they leave unchanged.

Axes: W walkers, N sites, B bins.
Source: Wang and Landau (2001), Phys. Rev. Lett. 86, 2050; Wang, Tay and Swendsen (1999), Phys. Rev. Lett. 82, 476.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

RAW = 4096  # bins to begin with; those that nothing is in go
UNSEEN = 1e-9  # of a move, for each that was proposed the other way round
FAST = 0.1  # share of the learning steps before it slows down

Energy = Callable[[Tensor], Tensor]
Propose = Callable[[Tensor, torch.Generator], Tensor]


@dataclass
class Bins:
    """Bins of equal width; the first holds what lies below, too, and the last what lies above.

    Args:
        low: where the first begins.
        width: of each, in the unit of the energy.
        number: (K,) int64, of each bin of this width the one that it is part of, 0 to B - 1.
    """

    low: float
    width: float
    number: Tensor

    def __call__(self, energies: Tensor) -> Tensor:
        """Give the bin (W,) of each energy (W,)."""
        raw = ((energies - self.low) / self.width).floor().long()
        return self.number[raw.clamp_(0, len(self.number) - 1)]


class Flat:
    """A chain that visits every bin alike, as far as its ln g is right; what it visits has weights g in any case.

    Args:
        states: (W, ...) configurations to begin with; left as they are.
        energy: of configurations, (W,).
        propose: gives a neighbour of each configuration; from there the way back is as likely.
        bins: of the energies.
        ln_g: (B,) float64; -inf where nothing is known, and what comes there stays.
        generator: of torch, on the device of the states.
    Attributes:
        bin: (W,) int64, where each walker is.
        steps: energies computed so far, over all walkers.
    """

    def __init__(
        self, states: Tensor, energy: Energy, propose: Propose, bins: Bins, ln_g: Tensor, generator: torch.Generator
    ) -> None:
        self.states, self.energy, self.propose, self.bins, self.ln_g = states, energy, propose, bins, ln_g
        self.generator = generator
        self.bin = bins(energy(states))
        self.steps = len(states)

    @torch.no_grad()
    def step(self) -> Tensor:
        """Move every walker, or leave it. Returns: (W,) int64, the bin that each was to go to."""
        proposed = self.propose(self.states, self.generator)
        there = self.bins(self.energy(proposed))
        chance = torch.rand(len(there), generator=self.generator, device=there.device, dtype=torch.float64)
        taken = chance.log() < self.ln_g[self.bin] - self.ln_g[there]
        shape = (-1, *(1,) * (self.states.ndim - 1))
        self.states = torch.where(taken.view(shape), proposed, self.states)
        self.bin = torch.where(taken, there, self.bin)
        self.steps += len(there)
        return there

    def learn(self, steps: int) -> None:
        """Raise ln g where walkers are, slower and slower, so that they spread over all bins.

        A bin that is found late begins at the least of the others: from 0 it would stay behind for good.
        """
        for step in range(steps):
            self.step()
            least = torch.where(self.ln_g.isinf(), torch.inf, self.ln_g).min()
            least = torch.where(least.isinf(), 0.0, least)
            self.ln_g[self.bin] = self.ln_g[self.bin].clamp_min(least)
            rise = min(1.0, FAST * steps / (step + 1)) / len(self.bin)
            self.ln_g.index_add_(0, self.bin, torch.full_like(self.bin, rise, dtype=torch.float64))

    def measure(self, steps: int, parts: int) -> np.ndarray:
        """Walk with ln g as it is. Returns: (parts, B, B) float64, moves proposed from bin to bin, by parts of W."""
        many = len(self.ln_g)
        counts = torch.zeros(parts * many * many, dtype=torch.float64, device=self.bin.device)
        one = torch.ones(len(self.bin), dtype=torch.float64, device=self.bin.device)
        part = torch.arange(len(self.bin), device=self.bin.device) % parts
        for _ in range(steps):
            here = part * many + self.bin
            counts.index_add_(0, here * many + self.step(), one)
        return counts.view(parts, many, many).cpu().numpy()


@dataclass(frozen=True)
class Density:
    """How many configurations each bin has.

    Args:
        bins: of the energy; each of the B has been visited.
        ln_g: (B,) float64; of their sum over all bins e to the power is 1.
        error: (B,) float64, standard error of it, from how parts of the walkers differ.
        states: (W, ...) configurations that visit all bins alike.
        steps: energies that were computed.
    """

    bins: Bins
    ln_g: np.ndarray
    error: np.ndarray
    states: Tensor
    steps: int


@torch.no_grad()
def density(
    states: Tensor, energy: Energy, propose: Propose, *, width: float, learn: int, measure: int, seed: int,
    top: float | None = None, parts: int = 8,
) -> Density:  # fmt: skip
    """Count the configurations of each energy.

    Args:
        states: (W, ...) at random.
        energy, propose: see `Flat`.
        width: of a bin.
        learn, measure: steps of each walker, to learn where to walk, and to count.
        top: all energies above it are one bin: what is rare at every temperature need not be told apart. None: the
            highest that is met.
        parts: of the walkers, for the error.
    """
    generator = torch.Generator(states.device).manual_seed(seed)
    first = energy(states)
    low = float(first.mean() if top is None else top) - RAW * width * (0.5 if top is None else 1.0)
    bins = Bins(low, width, torch.arange(RAW, device=states.device))
    unknown = torch.full((RAW,), -torch.inf, dtype=torch.float64, device=states.device)
    chain = Flat(states, energy, propose, bins, unknown, generator)
    chain.learn(learn)
    seen = ~chain.ln_g.isinf()
    frozen = _joined(bins, seen)
    again = Flat(chain.states, energy, propose, frozen, chain.ln_g[seen], generator)
    counts = again.measure(measure, parts)
    met = (counts.sum((0, 1)) + counts.sum((0, 2))) > 0  # others were left for good while ln g was learned
    counts = counts[:, met][:, :, met]
    whole = counts.sum(0)
    ln_g = stationary(whole)
    each = np.array([stationary(whole - part + UNSEEN * whole) for part in counts])  # all but one: the jackknife
    error = np.sqrt((parts - 1) / parts * ((each - each.mean(0)) ** 2).sum(0))
    kept = _joined(frozen, torch.from_numpy(met).to(seen.device))
    return Density(kept, ln_g, error, again.states, chain.steps + again.steps)


def _joined(bins: Bins, kept: Tensor) -> Bins:
    """Make bins that are not kept part of the one below, those below all others part of the first."""
    number = (kept.cumsum(0) - 1).clamp_min(0)[bins.number]
    first, last = int(kept[bins.number].int().argmax()), int((number == number[-1]).int().argmax())
    return Bins(bins.low + first * bins.width, bins.width, number[first : last + 1])


def stationary(counts: np.ndarray) -> np.ndarray:
    """ln of the distribution that a chain with these moves leaves unchanged, (B,), by elimination without subtractions.

    Source: Grassmann, Taksar and Heyman (1985), Operations Research 33, 1107.
    """
    moves = counts + UNSEEN * counts.T  # a bin that was never left within the walk
    moves /= moves.sum(1, keepdims=True)
    for last in range(len(moves) - 1, 0, -1):
        moves[:last, last] /= moves[last, :last].sum()
        moves[:last, :last] += np.outer(moves[:last, last], moves[last, :last])
    g = np.ones(len(moves))
    for k in range(1, len(moves)):
        g[k] = g[:k] @ moves[:k, k]
    return np.asarray(np.log(g / g.sum()))
