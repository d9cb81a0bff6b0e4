"""Do weighted ensembles agree with what is exactly true, and what do they cost? `python -m lab.weighted_ensemble`.

Twenty seeds of three problems, by the policy itself, in one process: particles of all seeds move together. The truth is
computed without trajectories. Of each problem: how many of the 20 intervals (95 %) hold the truth, the root mean square
error relative to the truth, the simulated time of one ensemble, and the error that one plain trajectory of the same
length would have.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse.linalg import spsolve

from steersman.apps import double_well, six_wells
from steersman.apps.six_wells import exact
from steersman.benchmarks.three_figures import rounded
from steersman.steering import NEW, Scores, WeightedEnsemble
from steersman.steering.weighted_ensemble import Mean, arrivals, averages, mean_of_rounds, passage

SEEDS = 20
FAR = 3  # the well that is hardest to reach
THERE = 0.8  # of x: the second of two wells
BARRIER_KT = 12.0
_NONE = np.empty(0, np.int32)
NOTHING = Scores(_NONE, _NONE, _NONE, _NONE, ends=np.empty(0, bool))
WELLS_STEP, WELLS_REPORT = 2e-3, 25  # as the apps have them
DOUBLE_STEP, DOUBLE_REPORT = 1e-3, 5


@dataclass(frozen=True)
class Problem:
    """Particles with a known answer.

    Args:
        start: (d,) where members begin.
        step: (n, d) -> (n, d), one time step.
        scores: (n, d) -> name -> (n,).
        timestep, report, frames: simulated time of a step, steps between frames, frames of a segment.
    """

    policy: WeightedEnsemble
    start: np.ndarray
    step: Callable[[np.ndarray, np.random.Generator], np.ndarray]
    scores: Callable[[np.ndarray], dict[str, np.ndarray]]
    timestep: float
    report: int
    frames: int

    @property
    def segment(self) -> float:
        """Simulated time."""
        return self.timestep * self.report * self.frames

    def simulate(self, x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """(n, d) -> (n, frames, d)."""
        found = []
        for _ in range(self.frames):
            for _ in range(self.report):
                x = self.step(x, rng)
            found.append(x)
        return np.stack(found, axis=1)


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(prog="python -m lab.weighted_ensemble", description=__doc__)
    parser.add_argument("--rounds", type=int, default=2000, help="of each ensemble")
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--json", action="store_true", help="the only format there is")
    chosen = parser.parse_args(list(arguments))
    found = {}
    for name, measure in {"double well": two, "six wells, rate": rate, "six wells, populations": populations}.items():
        print(name, file=sys.stderr)
        found[name] = measure(chosen.seeds, chosen.rounds)
    print(json.dumps(found))


def two(seeds: int, rounds: int) -> dict[str, Any]:
    """Mean first passage time over a barrier of 12 kT."""
    # A member that comes from the bin before must not outweigh the whole bin that it comes to: bins of 0.1 differ by up
    # to a factor of 6, so 4 members are too few and 10 are enough.
    edges = tuple(np.round(np.arange(-1.0, THERE + 0.05, 0.1), 2).tolist())
    problem = Problem(
        WeightedEnsemble("x", edges, members=10, target="there"), double_well.LEFT,
        lambda x, rng: _kicked(x, double_well.force(x, BARRIER_KT), DOUBLE_STEP, rng),
        lambda x: {"x": x[:, 0], "there": x[:, 0] > THERE}, DOUBLE_STEP, DOUBLE_REPORT, frames=1,
    )  # fmt: skip
    return _passages(problem, seeds, rounds, double_well_passage(BARRIER_KT))


def rate(seeds: int, rounds: int) -> dict[str, Any]:
    """Mean first passage time from well 0 to well 3."""
    problem = _wells(WeightedEnsemble("cell", members=4, target="there"), frames=20)
    return _passages(problem, seeds, rounds, float(exact.first_passage_times(FAR, 120)[0]))


def populations(seeds: int, rounds: int) -> dict[str, Any]:
    """The share of time in each of six wells."""
    problem = _wells(WeightedEnsemble("cell", members=2), frames=20)

    def look(scores: Scores) -> np.ndarray:
        return np.array([averages(scores, scores.values["well"] == well)[0] for well in range(len(six_wells.CENTRES))])

    (shares, cost), truth = ensembles(problem, seeds, rounds, look), exact.populations()
    plain = plain_errors(cost)
    found = {}
    for well, share in enumerate(truth):
        means = [mean_of_rounds(each[:, well]) for each in shares]
        found[f"well {well}"] = _agreement(means, float(share)) | {"plain_error": rounded(plain[well] / share)}
    return {"simulated_time": rounded(cost), **found}


def ensembles(
    problem: Problem, seeds: int, rounds: int, look: Callable[[Scores], np.ndarray]
) -> tuple[np.ndarray, float]:
    """Run the same ensemble with each seed; their particles move together, and each seed chooses for itself.

    Args:
        look: scores of one round, which has the number 1 -> what is kept of it.
    Returns: (seeds, rounds, ...) what was kept, and the simulated time of one ensemble, on average.
    """
    dynamics, choices = np.random.default_rng(0), [np.random.default_rng([1, seed]) for seed in range(seeds)]
    newest, places = [NOTHING] * seeds, [np.empty((0, len(problem.start)))] * seeds
    kept: list[list[np.ndarray]] = [[] for _ in range(seeds)]
    members = 0
    for _ in range(rounds):
        chosen = [problem.policy.rank(scores, rng) for scores, rng in zip(newest, choices, strict=True)]
        begin = [
            [problem.start if each.index == NEW else x[each.index] for each in candidates]
            for candidates, x in zip(chosen, places, strict=True)
        ]
        counts = [len(candidates) for candidates in chosen]
        members += sum(counts)
        moved = problem.simulate(np.concatenate([np.array(each) for each in begin]), dynamics)
        for seed, x in enumerate(np.split(moved, np.cumsum(counts)[:-1])):
            places[seed] = x.reshape(-1, x.shape[-1])
            newest[seed] = _scored(problem, places[seed], np.array([each.weight for each in chosen[seed]]))
            kept[seed].append(look(newest[seed]))
    return np.array(kept), members * problem.segment / seeds


def double_well_passage(barrier_kT: float, cells: int = 1500) -> float:
    """The exact mean first passage time in x of the discrete dynamics, seen at its frames, by a fine transfer matrix.

    The two directions do not depend on each other, so x alone counts.
    """
    x = np.linspace(-1.9, 1.9, cells)
    middle = x - 4 * barrier_kT * x * (x * x - 1) * DOUBLE_STEP
    once = np.exp(-((x[None] - middle[:, None]) ** 2) / (4 * DOUBLE_STEP))
    once /= once.sum(axis=1, keepdims=True)
    outside = np.flatnonzero(x <= THERE)
    between = np.linalg.matrix_power(once, DOUBLE_REPORT)[np.ix_(outside, outside)]
    times = np.linalg.solve(np.eye(len(outside)) - between, np.full(len(outside), DOUBLE_REPORT * DOUBLE_STEP))
    return float(np.interp(double_well.LEFT[0], x[outside], times))


def plain_errors(time: float, grid: int = 120) -> np.ndarray:
    """(6,) float: the standard error of each well's population by one plain trajectory, from the transfer matrix."""
    points = exact._points(grid)
    weight = np.exp(-six_wells.energy(points))
    weight /= weight.sum()
    inside = np.stack([six_wells.wells(points) == well for well in range(len(six_wells.CENTRES))], axis=1).astype(float)
    fluctuation = inside - weight @ inside
    keep = np.arange(1, len(points))  # the rates are singular: the answer is fixed up to a constant
    solved = np.zeros_like(fluctuation)
    solved[1:] = spsolve(-exact.transfer(grid)[keep][:, keep].tocsc(), fluctuation[1:])
    variance = 2 * (weight @ (fluctuation * (solved - weight @ solved)))
    return np.asarray(np.sqrt(variance / time))


def _passages(problem: Problem, seeds: int, rounds: int, truth: float) -> dict[str, Any]:
    target = problem.policy.target
    made, cost = ensembles(problem, seeds, rounds, lambda scores: arrivals(scores, scores.values[target] > 0)[:, 0])
    means = [passage(each.T) for each in made]
    scaled = [Mean(*(each * problem.segment for each in m)) for m in means]
    return {
        "simulated_time": rounded(cost),
        **_agreement(scaled, truth),
        "plain_error": rounded((truth / cost) ** 0.5),
        "each": [[rounded(m.low), rounded(m.value), rounded(m.high)] for m in scaled],
    }


def _agreement(means: Sequence[Mean], truth: float) -> dict[str, Any]:
    values = np.array([mean.value for mean in means])
    hold = sum(mean.low <= truth <= mean.high for mean in means)
    error = float(np.sqrt(np.mean((values / truth - 1) ** 2)))
    return {
        "exact": rounded(truth), "mean": rounded(float(values.mean())), "hold": hold, "seeds": len(means),
        "error": rounded(error),
    }  # fmt: skip


def _wells(policy: WeightedEnsemble, frames: int) -> Problem:
    def step(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return _kicked(x, six_wells.force(x), WELLS_STEP, rng)  # angles are periodic for all that looks at them

    def scores(x: np.ndarray) -> dict[str, np.ndarray]:
        well = six_wells.wells(x)
        return {"cell": six_wells.grid_cells(x, 8), "well": well, "there": well == FAR}

    return Problem(policy, six_wells.CENTRES[0], step, scores, WELLS_STEP, WELLS_REPORT, frames)


def _kicked(x: np.ndarray, force: np.ndarray, timestep: float, rng: np.random.Generator) -> np.ndarray:
    return np.asarray(x + timestep * force + np.sqrt(2 * timestep) * rng.standard_normal(x.shape))


def _scored(problem: Problem, x: np.ndarray, weights: np.ndarray) -> Scores:
    rows, members = np.arange(len(x)), np.repeat(np.arange(len(weights)), problem.frames)
    zeros = np.zeros(len(x), np.int32)
    return Scores(
        zeros, rows, members, zeros, rows % problem.frames == problem.frames - 1, problem.scores(x),
        weight=weights[members], round=zeros + 1,
    )  # fmt: skip


if __name__ == "__main__":
    main(sys.argv[1:])
