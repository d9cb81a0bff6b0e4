"""Where segments begin only at ends that left a state, nothing proposes another frame; and seeds are all different."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from steersman.steering import (
    Candidate,
    Dbscan,
    Decider,
    Policy,
    Random,
    Scores,
    Steering,
    Unsteered,
)
from steersman.steering.streams import decision_rng, start_seed
from tests.steering import examples

FRAMES, ENDS = 1000, (300, 700, 999)


def of_ends(*ends: int, started: int = 0) -> Scores:
    """Frames of which these alone are ends with a state; from the first so many of them a segment was started."""
    z, zeros = np.random.default_rng(1).normal(size=(FRAMES, 2)), np.zeros(FRAMES, int)
    starts, values = np.isin(np.arange(FRAMES), ends[:started]).astype(int), examples.values(z)
    return Scores(zeros, np.arange(FRAMES), zeros, starts, np.isin(np.arange(FRAMES), ends), values, 1, exact=True)


@pytest.mark.parametrize("policy", examples.POLICIES, ids=lambda policy: policy.name)
@pytest.mark.parametrize("explore", [0.0, 1.0])
def test_every_choice_continues_an_end_exactly(policy: Policy, explore: float) -> None:
    """Also of few among many frames, of which policies look at a sample."""
    decider = Decider(Steering(policy, explore))
    choices = [decider.choose(of_ends(*ENDS), decision_rng(1, n)) for n in range(4)]
    chosen = [choice.candidate for choice in choices]
    assert decider.trouble is None
    fallback = [choice.policy == "Unsteered" for choice in choices]  # where Dbscan proposes no end at all
    assert isinstance(policy, Unsteered | Dbscan) or not any(fallback)
    assert all(each is not None and each.index in ENDS and each.exact for each in chosen)


def test_at_random_every_end_is_as_likely_whether_or_not_it_was_gone_on_with() -> None:
    decider, scores = Decider(Steering(Random())), of_ends(*ENDS, started=2)
    chosen = [decider.choose(replace(scores), decision_rng(1, n)).candidate for n in range(300)]
    _, counts = np.unique([each.index for each in chosen if each], return_counts=True)
    assert counts.sum() == 300
    assert (abs(counts - 100) < 5 * np.sqrt(100)).all()


def test_a_ranking_that_is_used_up_is_used_again_and_without_ends_it_is_the_prepared_start() -> None:
    decider, scores = Decider(Steering(Random())), of_ends(*ENDS)
    assert all(decider.choose(scores, decision_rng(1, n)).candidate for n in range(10))
    assert decider.choose(of_ends(), decision_rng(1, 1)).candidate is None
    assert decider.trouble is None


class Middle(Policy):
    def rank(self, scores: Scores, rng: np.random.Generator) -> list[Candidate]:
        return [Candidate(FRAMES // 2, "Middle", 0.0, "in the middle")]


@pytest.mark.parametrize("exact", [True, False])
def test_a_policy_that_proposes_only_frames_where_nothing_can_begin_has_failed(exact: bool) -> None:
    decider, scores = Decider(Steering(Middle())), replace(of_ends(*ENDS), exact=exact)
    choice = decider.choose(scores, decision_rng(1, 1))
    assert (choice.policy, decider.trouble is None) == (("Unsteered", False) if exact else ("Middle", True))


def test_seeds_of_starts_are_different_and_fit_where_they_go() -> None:
    seeds = {start_seed(seed, number) for seed in (0, 1) for number in range(1000)}
    assert len(seeds) == 2000
    assert all(1 <= seed < 2**63 for seed in seeds)
    assert len({decision_rng(seed, number).random() for seed in (0, 1) for number in range(1000)}) == 2000
    drawn = {int(decision_rng(0, number).integers(1, 2**63 - 1)) for number in range(1000)}
    assert not drawn & seeds, "what a choice draws is not what its segment draws"
