"""Does a committor give rates cheaper than bins that are set by hand? `python -m lab.rates`.

The mean first passage time of a double well of 12 kT and of the Mueller-Brown surface, whose truth is computed without
trajectories, by ensembles of the policy itself: five sets of edges, the exact committor, and one that is learned while
the ensemble runs, from its own frames and some of the target. Of each: how many of the intervals (95 %) hold the truth,
the relative root mean square error of the rate, and its square times the simulated time: what it costs to know a rate.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.interpolate import RegularGridInterpolator
from scipy.sparse.linalg import spsolve

from lab.weighted_ensemble import (
    BARRIER_KT,
    DOUBLE_REPORT,
    DOUBLE_STEP,
    NOTHING,
    THERE,
    Problem,
    _kicked,
    _scored,
    double_well_passage,
)
from steersman.apps import double_well, mueller_brown
from steersman.benchmarks.three_figures import rounded
from steersman.models import Committor
from steersman.steering import NEW, Scores, WeightedEnsemble
from steersman.steering.weighted_ensemble import ENOUGH, arrivals, passage

LEARN = 20, 40, 80, 160, 320, 640, 1280  # rounds after which a model is fitted
MOST = 30_000  # pairs of a fit
NO_POLICY = WeightedEnsemble("x")  # each arm has its own
SEGMENT = 50  # steps on the Mueller-Brown surface
Score = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Passage:
    """A passage with a known answer, from the state in which members begin to a target.

    Args:
        states: (n, d) -> which points are in the beginning and which in the target.
        by_hand: a score that somebody would choose, and its bounds.
        exact: the committor.
        inside: (d,) a point of the target.
        rounds: of an ensemble.
        truth: mean first passage time.
    """

    problem: Problem
    states: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]
    by_hand: tuple[Score, float, float]
    exact: Score
    inside: np.ndarray
    rounds: int
    truth: float


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(prog="python -m lab.rates", description=__doc__)
    parser.add_argument("--seeds", type=int, default=24)
    parser.add_argument("--json", action="store_true", help="the only format there is")
    seeds = parser.parse_args(list(arguments)).seeds
    print(json.dumps({name: dict(arms(make(), seeds)) for name, make in PASSAGES.items()}))


def arms(passage_: Passage, seeds: int) -> Iterator[tuple[str, dict[str, Any]]]:
    score, low, high = passage_.by_hand
    for bins, members in ((8, 10), (8, 20), (16, 5), (16, 10), (32, 5)):
        edges = tuple(np.linspace(low, high, bins + 1)[1:].tolist())
        policy = WeightedEnsemble("x", edges, members=members, target="there")
        yield f"{bins} bins by hand, {members} members each", measured(passage_, policy, [score] * seeds)
    policy = WeightedEnsemble(chance="x", members=100, target="there")
    yield "exact committor, 100 members", measured(passage_, policy, [passage_.exact] * seeds)
    yield "learned committor, 100 members", measured(passage_, policy, [None] * seeds)


def measured(passage_: Passage, policy: WeightedEnsemble, scores: Sequence[Score | None]) -> dict[str, Any]:
    """Ensembles of each seed, whose particles move together. A score that is None is learned."""
    problem, seeds = replace(passage_.problem, policy=policy), range(len(scores))
    dynamics, choices = np.random.default_rng(0), [np.random.default_rng([1, seed]) for seed in seeds]
    learners = [None if score else Learner(passage_, seed) for seed, score in enumerate(scores)]
    newest, places = [NOTHING for _ in seeds], [np.empty((0, len(problem.start))) for _ in seeds]
    came: list[list[np.ndarray]] = [[] for _ in seeds]
    members, arrived = 0, [0 for _ in seeds]
    for number in range(1, passage_.rounds + 1):
        chosen = [policy.rank(newest[seed], choices[seed]) for seed in seeds]
        begin = [
            np.array([problem.start if c.index == NEW else places[seed][c.index] for c in chosen[seed]])
            for seed in seeds
        ]
        members += sum(map(len, chosen))
        moved = np.split(problem.simulate(np.concatenate(begin), dynamics), np.cumsum([len(b) for b in begin])[:-1])
        for seed in seeds:
            weights = np.array([c.weight for c in chosen[seed]])
            x = moved[seed][:, 0]
            score = scores[seed]
            if learner := learners[seed]:
                score = learner.seen(begin[seed], x, weights, number)
            values = {"there": passage_.states(x)[1]} | ({"x": score(x)} if score else {})
            places[seed] = x
            newest[seed] = replace(_scored(problem, x, weights), values=values)
            came[seed].append(arrivals(newest[seed], values["there"])[:, 0])
            arrived[seed] += int(values["there"].sum())
            if arrived[seed] >= ENOUGH:
                newest[seed] = with_arrivals(newest[seed])
    return agreement(passage_, np.array(came), members * problem.segment / len(scores))


def with_arrivals(scores: Scores) -> Scores:
    """Scores of the newest round, and frames of an earlier one that say that enough have arrived."""
    more = np.zeros(ENOUGH, int)
    values = {name: np.append(column, more + (name == "there")) for name, column in scores.values.items()}
    return replace(
        scores, values=values, walker=np.append(scores.walker, more), row=np.append(scores.row, more),
        segment=np.append(scores.segment, more), starts=np.append(scores.starts, more),
        ends=np.append(scores.ends, more > 0), weight=np.append(scores.weight, more + 1.0),
        round=np.append(scores.round, more),
    )  # fmt: skip


def agreement(passage_: Passage, came: np.ndarray, cost: float) -> dict[str, Any]:
    segment = passage_.problem.segment
    means = [passage(each.T) for each in came]
    rate = came[:, passage_.rounds // 2 :, 0].mean(axis=1) / segment * passage_.truth
    error = float(np.sqrt(np.mean((rate - 1) ** 2)))
    said = {
        "seeds": len(means), "hold": sum(m.low * segment <= passage_.truth <= m.high * segment for m in means),
        "mean rate": rounded(float(rate.mean())), "error": rounded(error), "simulated time": rounded(cost),
        "cost of a rate": rounded(error**2 * cost), "rates": [rounded(float(each)) for each in np.sort(rate)],
    }  # fmt: skip
    print(said, file=sys.stderr)
    return said


class Learner:
    """A committor from the moves of an ensemble, fitted anew now and then."""

    def __init__(self, passage_: Passage, seed: int) -> None:
        self._passage, self._seed = passage_, seed
        self._moves: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
        self._model: Committor | None = None
        self._target = target_frames(passage_)

    def seen(self, before: np.ndarray, after: np.ndarray, weights: np.ndarray, number: int) -> Score | None:
        """What the newest model says; None before the first."""
        self._moves.append((before, after, weights))
        if number in LEARN:
            self._fit()
        return self.chance if self._model else None

    def chance(self, x: np.ndarray) -> np.ndarray:
        assert self._model is not None
        begin, end = self._passage.states(x)
        return np.asarray(np.where(begin, 0.0, np.where(end, 1.0, self._model.chance(x))))

    def _fit(self) -> None:
        before, after, weights = (np.concatenate(each) for each in zip(*self._moves, strict=True))
        rows = np.random.default_rng(self._seed).permutation(len(before))[:MOST]
        data = np.concatenate([before[rows], after[rows], self._target])
        n = len(rows)
        pairs, weight = np.stack([np.arange(n), n + np.arange(n)], axis=1), np.zeros(len(data))
        weight[n : 2 * n] = weights[rows]
        begin, end = self._passage.states(data)
        self._model = Committor.fit(data, pairs, begin=begin, end=end, weights=weight, seed=self._seed)


def target_frames(passage_: Passage, moves: int = 300) -> np.ndarray:
    """Points of a simulation that begins in the target, in it."""
    rng, problem = np.random.default_rng(5), passage_.problem
    x, visited = passage_.inside[None], []
    for _ in range(moves):
        x = problem.simulate(x, rng)[:, -1]
        visited.append(x)
    points = np.concatenate(visited)
    return np.asarray(points[passage_.states(points)[1]])


def two_wells() -> Passage:
    x = np.linspace(-1.9, 1.9, 4000)
    height = np.exp(BARRIER_KT * ((x * x - 1) ** 2 - 1)) * (abs(x) < THERE)
    chance = np.cumsum(height) / height.sum()

    def step(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return _kicked(x, double_well.force(x, BARRIER_KT), DOUBLE_STEP, rng)

    return Passage(
        Problem(NO_POLICY, double_well.LEFT, step, lambda x: {}, DOUBLE_STEP, DOUBLE_REPORT, frames=1),
        states=lambda p: (p[:, 0] < -THERE, p[:, 0] > THERE),
        by_hand=(lambda p: p[:, 0], -1.0, THERE),
        exact=lambda p: np.interp(p[:, 0], x, chance),
        inside=-double_well.LEFT,
        rounds=1500,
        truth=double_well_passage(BARRIER_KT),
    )


def surface(spacing: float = 0.02) -> Passage:
    points, shape = mueller_brown._grid(spacing)
    well, rates = mueller_brown.wells(points), mueller_brown.transfer(spacing)
    free, chance = np.flatnonzero((well != 0) & (well != 1)), (well == 1).astype(float)
    chance[free] = spsolve(rates[free][:, free].tocsc(), -rates[free][:, np.flatnonzero(well == 1)].sum(axis=1))
    axes = [np.unique(points[:, axis].round(9)) for axis in (0, 1)]
    exact = RegularGridInterpolator(axes, chance.reshape(shape), bounds_error=False, fill_value=None)

    def step(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return _kicked(x, mueller_brown.force(x), mueller_brown.TIMESTEP, rng)

    return Passage(
        Problem(NO_POLICY, mueller_brown.MINIMA[0], step, lambda x: {}, mueller_brown.TIMESTEP, SEGMENT, frames=1),
        states=lambda p: (mueller_brown.wells(p) == 0, mueller_brown.wells(p) == 1),
        by_hand=(lambda p: p[:, 0] - p[:, 1], -2.0, 0.6),
        exact=lambda p: np.clip(exact(p), 0, 1),
        inside=mueller_brown.MINIMA[1],
        rounds=2000,
        truth=float(mueller_brown.first_passage_times(1, spacing)[0]),
    )


PASSAGES = {"double well": two_wells, "Mueller-Brown": surface}

if __name__ == "__main__":
    main(sys.argv[1:])
