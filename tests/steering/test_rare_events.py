"""Estimates of rare events: unbiased whatever the surrogate says, and better when it is right."""

from __future__ import annotations

import functools
import math
import time
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lab.rare_events import population, replayed
from steersman.steering import DRAWN, NEW, Candidate, Decider, Importance, Random, Scores, Steering
from steersman.steering.rare_events import (
    DEFENSIVE,
    Estimate,
    Surrogate,
    guided,
    plain,
    shares,
    weighted,
    weighted_so_far,
)

TRUTH = 0.02
THRESHOLD = 2.0537489106318225  # of a normal distribution, exceeded with that probability
RUNS = 200


def draw(rng: np.random.Generator) -> np.ndarray:
    return rng.standard_normal((3000, 2))


def simulate(parameters: np.ndarray) -> np.ndarray:
    return np.asarray(0.8 * parameters[:, 0] + 0.6 * parameters[:, 1])


def known(parameters: np.ndarray, quantities: np.ndarray, candidates: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return simulate(candidates), np.full(len(candidates), 0.3)


def reversed_(parameters: np.ndarray, quantities: np.ndarray, candidates: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return -simulate(candidates), np.full(len(candidates), 0.3)


def ignorant(parameters: np.ndarray, quantities: np.ndarray, candidates: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return np.zeros(len(candidates)), np.ones(len(candidates))


@functools.cache
def estimates(surrogate: Surrogate, loops: int = 1000) -> list[Estimate]:
    rng = np.random.default_rng(7)
    return [guided(draw, simulate, THRESHOLD, rng, surrogate=surrogate) for _ in range(loops)]


@pytest.mark.slow
@pytest.mark.parametrize("surrogate", [known, reversed_, ignorant])
def test_no_surrogate_biases_the_estimate(surrogate: Surrogate) -> None:
    """Not even one that sends every run to where no extreme is."""
    found = np.array([estimate.probability for estimate in estimates(surrogate)])
    assert abs(found.mean() - TRUTH) < 3 * found.std(ddof=1) / np.sqrt(len(found))


def test_in_what_units_a_quantity_is_does_not_matter() -> None:
    mean, spread, unit = np.linspace(-3, 3, 20), np.linspace(0, 1, 20), 2.0**-80
    assert (shares(mean, spread, 1.5) == shares(mean * unit, spread * unit, 1.5 * unit)).all()
    assert np.isfinite(shares(np.ones(5), np.zeros(5), 1.0)).all()


def test_a_good_surrogate_saves_runs_and_a_bad_one_costs_at_most_its_share() -> None:
    """Each run is drawn without the surrogate in one case of five, so it can count at most five times."""
    plain_variance = TRUTH * (1 - TRUTH) / RUNS
    good, bad = (np.var([e.probability for e in estimates(each)]) for each in (known, reversed_))
    assert plain_variance / good > 10
    assert bad / plain_variance < 1.8 / DEFENSIVE  # 1.6 for the weights of the rounds, and what 1,000 loops scatter


def test_the_error_that_is_told_is_the_error_that_is_made() -> None:
    found = estimates(known)
    told = np.sqrt(np.mean([estimate.error**2 for estimate in found]))
    assert told == pytest.approx(np.std([estimate.probability for estimate in found]), rel=0.1)


@pytest.mark.parametrize("rounds", [(60, 35, 35, 35, 35), (100, 10), (50, 20)])
def test_intervals_hold_the_truth_as_often_as_they_say(rounds: tuple[int, ...]) -> None:
    """Also if most runs were not guided, and met few extremes or none."""
    rng = np.random.default_rng(8)
    found = [guided(draw, simulate, THRESHOLD, rng, rounds=rounds, surrogate=known) for _ in range(600)]
    held = [low <= TRUTH <= high for low, high in (e.interval for e in found)]
    assert 0.92 < np.mean(held) < 0.985


def test_the_interval_of_plain_runs_is_wilson_s() -> None:
    """10 of 100: 5.52 % to 17.44 % (Brown, Cai and DasGupta, 2001, give the formula)."""
    assert plain(np.arange(100), 89).interval == pytest.approx((0.0552, 0.1744), abs=1e-4)
    assert plain(np.zeros(100), 1).interval == pytest.approx((0, 0.0370), abs=1e-4)
    assert str(plain(np.arange(100), 89)) == "0.1 (95 %: 0.0552 to 0.174), 100 runs, 10 extremes"


def test_the_stored_population_is_one_of_storms() -> None:
    parameters, quantities = population()
    assert parameters.shape == (2560, 8)
    assert np.isfinite(quantities).all()
    assert np.abs(parameters.mean(axis=0)).max() < 0.1
    assert np.abs(parameters.std(axis=0) - 1).max() < 0.1


@pytest.mark.slow
def test_a_few_replayed_loops_are_close() -> None:
    """The whole replay is the slow test below; this one tells at once when the Gaussian process is broken."""
    found = replayed(5)
    assert found["rare_event_extremes"] > 10, "plain sampling meets 2"
    assert abs(found["rare_event_bias"]) < 0.5


@pytest.mark.slow
def test_on_stored_storms_guided_sampling_is_unbiased_and_saves_simulations() -> None:
    found = replayed(25)
    assert abs(found["rare_event_bias"]) < 2 * found["rare_event_bias_error"]
    assert found["rare_event_gain"] > 6


def as_scores(quantities: np.ndarray, drawn: list[Candidate]) -> Scores:
    """Whole runs of so many members, a segment and a frame each."""
    n = len(quantities)
    columns = {name: np.array([each.draw[name] for each in drawn]) for name in DRAWN}
    values = {"storm": quantities, "whole": np.ones(n)} | columns if n else {}
    return Scores(np.zeros(n, int), np.arange(n), np.arange(n), np.zeros(n, int), np.zeros(n, bool), values)


def loop(policy: Importance, rng: np.random.Generator) -> Estimate:
    """Members as a run draws them: some at a time, each knowing those before."""
    quantities, drawn = np.empty(0), list[Candidate]()
    while len(quantities) < RUNS:
        more = policy.rank(as_scores(quantities, drawn), rng)[: int(rng.integers(5, 40))]
        drawn += more
        quantities = np.concatenate([quantities, simulate(np.array([each.draw["point"] for each in more]))])
    return policy.estimate(as_scores(quantities, drawn))


def test_of_no_whole_member_nothing_is_known_and_that_none_will_be_is_said() -> None:
    policy, rng = Importance("storm", THRESHOLD, 2), np.random.default_rng(0)
    scores = as_scores(np.zeros(3), policy.rank(as_scores(np.empty(0), []), rng)[:3])
    never = {"whole": np.zeros(3), **{name: each for name, each in scores.values.items() if name != "whole"}}
    ended = replace(scores, ends=np.ones(3, bool), values=never)
    found = policy.estimate(ended)
    assert math.isnan(found.probability)
    assert found.interval == (0, 1)
    assert "0 runs" in str(found)
    assert policy.warning(ended)
    assert not policy.warning(replace(ended, values=scores.values))
    assert not policy.warning(replace(ended, ends=np.zeros(3, bool))), "they may be whole when they end"


def test_a_run_counts_once_at_the_last_of_the_frames_where_it_is_whole() -> None:
    """Members of four frames, of two walkers that publish in turns; before its last frame a quantity is another one."""
    policy, rng = Importance("storm", THRESHOLD, 2, surrogate=known), np.random.default_rng(6)
    once = as_scores(quantities := 2 * rng.normal(size=80), policy.rank(as_scores(np.empty(0), []), rng)[:80])
    walker, segment = np.repeat(np.tile([1, 0], 40), 4), np.repeat(np.arange(80) // 2, 4)
    values = {name: np.repeat(each, 4, axis=0) for name, each in once.values.items()}
    values["storm"] = np.stack([quantities + 9, quantities - 9, quantities + 9, quantities], axis=1).ravel()
    row = np.tile(np.arange(4), 80) + 4 * segment
    for frames in (1, 2, 4):
        values["whole"] = np.tile(np.arange(4) >= 4 - frames, 80)
        scores = Scores(walker, row, segment, np.zeros(320, int), row % 4 == 3, values)
        assert policy.estimates(scores) == policy.estimates(once)
        one, other = (policy.rank(each, np.random.default_rng(0)) for each in (scores, once))
        assert [each.draw for each in one] == [each.draw for each in other]


@pytest.mark.slow
@pytest.mark.parametrize(("surrogate", "gain"), [(known, 5.0), (reversed_, 0.1)])
def test_members_drawn_one_after_another_are_unbiased_too(surrogate: Surrogate, gain: float) -> None:
    rng = np.random.default_rng(7)
    policy = Importance("storm", THRESHOLD, 2, points=3000, surrogate=surrogate)
    found = [loop(policy, rng) for _ in range(60)]
    p = np.array([estimate.probability for estimate in found])
    assert abs(p.mean() - TRUTH) < 3 * p.std(ddof=1) / np.sqrt(len(p))
    assert TRUTH * (1 - TRUTH) / RUNS / p.var() > gain


@pytest.mark.slow
def test_intervals_hold_the_truth_where_many_members_begin_before_new_scores_come() -> None:
    """Simulations of milliseconds: what is drawn from the same points shares what share of them is extreme."""
    rng, held = np.random.default_rng(5), 0
    policy = Importance("storm", THRESHOLD, 2, points=200, surrogate=known)
    for _ in range(100):
        quantities, drawn, decider = np.empty(0), list[Candidate](), Decider(Steering(policy))
        for _ in range(4):
            scores = as_scores(quantities, drawn)
            drawn += [each for _ in range(150) if (each := decider.choose(scores, rng).candidate)]
            quantities = simulate(np.array([each.draw["point"] for each in drawn]))
        low, high = policy.estimate(as_scores(quantities, drawn)).interval
        held += low <= TRUTH <= high
    assert held >= 90


def test_members_are_drawn_before_there_is_a_frame_and_none_twice() -> None:
    decider = Decider(Steering(Importance("storm", THRESHOLD, 2)))
    nothing = as_scores(np.empty(0), [])
    chosen = [decider.choose(nothing, np.random.default_rng(3)).candidate for _ in range(20)]
    assert len({str(each.draw["point"]) for each in chosen if each}) == 20
    assert {each.draw["weight"] for each in chosen if each} == {1.0}


def test_drawn_members_take_turns_with_frames() -> None:
    """Each draw is one of its own, though none has a frame."""
    quantities, rng = simulate(np.random.default_rng(1).standard_normal((50, 2))), np.random.default_rng(2)
    members = Importance("storm", THRESHOLD, 2).rank(as_scores(np.empty(0), []), rng)[:50]
    ranked = (Importance("storm", THRESHOLD, 2, first=100) | Random()).rank(as_scores(quantities, members), rng)
    drawn = [each.index == NEW for each in ranked[:6]]
    assert drawn == [drawn[0], not drawn[0]] * 3
    assert sum(each.index == NEW for each in ranked) == 256


def test_plain_members_count_alike() -> None:
    policy = Importance("storm", THRESHOLD, 2)
    drawn = [Candidate(0, "plain", 1.0, "", draw=policy.at_random(seed)) for seed in range(500)]
    quantities = simulate(np.array([each.draw["point"] for each in drawn]))
    found = policy.estimate(as_scores(quantities, drawn))
    assert found.probability == pytest.approx(np.mean(quantities > THRESHOLD))
    assert found.extremes > 0


@pytest.mark.parametrize("rounds", [(), (1,), (60, 1)])
def test_a_round_without_runs_is_refused(rounds: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="2 runs"):
        guided(draw, simulate, THRESHOLD, np.random.default_rng(), rounds=rounds)


def test_a_run_without_a_number_is_refused() -> None:
    with pytest.raises(ValueError, match="60 finite quantities"):
        guided(draw, lambda chosen: np.full(len(chosen), np.nan), THRESHOLD, np.random.default_rng())


def test_no_member_is_handed_out_twice() -> None:
    """More slots than a ranking holds, or a slow scoring: the same point again would be no other run."""
    none = np.empty(0, int)
    table = Scores(none, none, none, none, none.astype(bool))
    decider = Decider(Steering(Importance("storm", THRESHOLD, 2)))
    choices = [decider.choose(table, np.random.default_rng(i)) for i in range(600)]
    assert len({tuple(choice.candidate.draw["point"]) for choice in choices if choice.candidate}) == 600  # type: ignore[arg-type]


def test_runs_that_all_came_out_alike_are_as_sure_as_so_many_plain_runs() -> None:
    """Ten of ten: Wilson's interval begins at 1 / (1 + z^2 / 10), however the weights are rounded."""
    for trust in (np.ones(10), np.linspace(1.7755939721356633, 14.513525978413634, 10)):
        low, high = weighted(np.ones(10), np.ones(10), trust, 0.5).interval
        assert (low, high) == pytest.approx((1 / (1 + 1.959964**2 / 10), 1.0))


RUN = st.tuples(st.floats(-1, 1), st.just(1.0) | st.floats(1e-3, 1e3), st.floats(1e-2, 1e2))


@example([(1.0, 1.0, 1.7755939721356633), (1.0, 1.0, 14.513525978413634)])
@given(st.lists(RUN, min_size=1, max_size=40))
def test_estimates_after_each_run_are_those_of_the_runs_so_far(runs: list[tuple[float, float, float]]) -> None:
    quantities, weights, trust = np.array(runs).T
    found = weighted_so_far(quantities, weights, trust, 0.0)
    for n, estimate in enumerate(found, 1):
        alone = weighted(quantities[:n], weights[:n], trust[:n], 0.0)
        assert (estimate.runs, estimate.extremes) == (alone.runs, alone.extremes)
        assert estimate.probability == pytest.approx(alone.probability, rel=1e-9)
        assert estimate.error == pytest.approx(alone.error, rel=1e-6, abs=1e-9 * weights[:n].max())
        assert estimate.interval == pytest.approx(alone.interval, rel=1e-4, abs=1e-6)


def test_an_estimate_takes_time_in_proportion_to_the_runs() -> None:
    """It is made at every scoring; anew for each prefix of 100,000 runs it would take minutes."""
    rng = np.random.default_rng(1)
    n = 100_000
    values = {"storm": rng.normal(size=n)} | {name: np.ones(n) for name in ("whole", "weight", "trust")}
    scores = Scores(np.zeros(n, int), np.arange(n), np.arange(n), np.zeros(n, int), np.zeros(n, bool), values)
    policy = Importance("storm", 2.0, 1)
    began = time.process_time()
    assert policy.estimates(scores)[-1].probability == pytest.approx(policy.estimate(scores).probability)
    assert time.process_time() - began < 10, "s; it takes less than one"
