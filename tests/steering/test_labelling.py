"""Which frames are labelled: those in doubt, far apart, none twice; audits at random among all that were visited."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steersman import budget, reached, trusted
from steersman.steering import Doubtful, Progress, Scores
from steersman.steering.audits import coverage


def scores(doubt: np.ndarray, z: np.ndarray | None = None) -> Scores:
    n, row = len(doubt), np.arange(len(doubt))
    values = {"doubt": doubt, "z": row[:, None].astype(float) if z is None else z}
    return Scores(row * 0, row, row // 5, row * 0, row % 5 == 4, values, 3, given_model=np.full(n, 3))


@given(
    doubt=st.lists(st.floats(0, 2), min_size=1, max_size=40),
    asked=st.integers(0, 2**40 - 1),
    most=st.integers(1, 10),
    apart=st.sampled_from(["", "z"]),
    audits=st.sampled_from([0.0, 0.1, 1.0]),
)
def test_what_is_asked_for_is_in_doubt_and_new_and_no_more_than_may_wait(
    doubt: list[float], asked: int, most: int, apart: str, audits: float
) -> None:
    seen = scores(np.array(doubt))
    known = np.array([bool(asked >> i & 1) for i in range(len(doubt))])
    rule = Doubtful("doubt", above=1.0, most=most, apart=apart, audits=audits)
    chosen = rule.chosen(seen, known, most, np.random.default_rng(0), (0, 0), np.arange(len(doubt)))
    ranked = [each.at for each in chosen if not each.drawn]
    assert len(chosen) <= most
    assert len(set(ranked)) == len(ranked)
    assert all(doubt[at] > 1.0 and not known[at] for at in ranked)
    if audits == 0:
        assert len(ranked) == min(most, sum(value > 1.0 and not k for value, k in zip(doubt, known, strict=True)))
    else:
        assert any(each.drawn for each in chosen), "where nothing is in doubt, too"


def test_those_chosen_lie_far_from_each_other_and_from_what_has_a_label() -> None:
    z = np.array([[0.0], [0.1], [5.0], [5.1], [10.0]])
    rule = Doubtful("doubt", above=0.5, apart="z")
    known = np.array([True, False, False, False, False])
    assert [each.at for each in rule.rank(scores(np.ones(5), z), known, 2)] == [4, 2]
    twice = np.array([[0.0], [0.0], [1.0]])
    assert len(rule.rank(scores(np.ones(3), twice), np.zeros(3, bool), 3)) == 2, "one of two that are alike"


def test_before_its_scores_exist_frames_are_drawn_at_random() -> None:
    seen = Scores(*(np.zeros(50, int),) * 5)
    rule, rng = Doubtful("doubt", above=1.0), np.random.default_rng(1)
    chosen = rule.chosen(seen, np.arange(50) < 25, 10, rng, (0, 0), np.zeros(0, int))
    assert len({each.at for each in chosen}) == 10
    assert min(each.at for each in chosen) >= 25


def test_audits_get_their_share_where_there_is_nothing_to_audit_yet() -> None:
    """As in rounds when a model was just accepted: what is in doubt would fill the room up to the next training."""
    rule, rng = Doubtful("doubt", above=0.5, most=10, audits=0.5), np.random.default_rng(4)
    seen, nothing = scores(np.ones(100)), np.zeros(0, int)
    assert len(rule.chosen(seen, np.zeros(100, bool), 10, rng, (0, 0), nothing)) == 5
    assert len(rule.chosen(seen, np.zeros(100, bool), 5, rng, (0, 5), nothing)) == 1, "and training goes on"
    chosen = rule.chosen(seen, np.zeros(100, bool), 4, rng, (0, 6), np.arange(100))
    assert sum(each.drawn for each in chosen) == 4


def test_audits_hit_all_that_was_visited_alike() -> None:
    """Also what has a label, and what is in doubt: else the bound would hold for other frames than these."""
    rule, rng = Doubtful("doubt", above=0.5, most=1, audits=1.0), np.random.default_rng(2)
    seen, known, hits = scores(np.arange(10.0) > 6), np.arange(10) < 3, np.zeros(10)
    for _ in range(4000):
        (one,) = rule.chosen(seen, known, 1, rng, (0, 0), np.arange(10))
        hits[one.at] += one.drawn
    assert hits.sum() == 4000
    assert np.abs(hits - 400).max() < 5 * 19  # five standard deviations


def test_the_bound_of_audits_holds_in_nineteen_of_twenty_frames_whatever_the_errors() -> None:
    """A thousand runs of a potential of known error, each judged by 40 audits and a frame of another segment. Frames of
    a segment err alike, and audits are asked for as soon as a few segments are over."""
    rng, held, rule = np.random.default_rng(3), 0, Doubtful("doubt", above=0.5, most=10, audits=1.0)
    for _ in range(1000):
        error, judged, over = np.abs(rng.standard_t(3, 61)) * 0.05, list[int](), 3  # eV/angstrom; a few large ones
        seen = scores(np.zeros(300))
        while len(judged) < 40:
            visited = np.flatnonzero((seen.segment < over) & ~np.isin(seen.segment, judged))
            chosen = rule.chosen(seen, np.zeros(300, bool), 10, rng, (0, 0), visited, final=True)
            judged += seen.segment[[each.at for each in chosen]].tolist()
            over += 3
        audits = {"version": np.ones(40), "truth": error[judged[:40]], "said": np.zeros(40)}
        held += error[60] <= coverage(audits)[0].bound
    assert held >= 935, "95 %, and three standard deviations below"


@pytest.mark.parametrize(("labels", "bound", "ends"), [(5, 0.2, False), (5, 0.1, True), (50, 0.2, True)])
def test_a_run_ends_when_its_model_is_trusted_or_its_labels_are_spent(labels: int, bound: float, ends: bool) -> None:
    rule = trusted(below=0.1) | budget(labels=50)
    assert (rule.reason(Progress(labels=labels, bound=bound)) is not None) == ends


def test_and_of_stop_rules_holds_when_both_do() -> None:
    both = reached("x", 1.0) & budget(frames=10)
    for frames in (5, 10):
        for x in (0.5, 1.0):
            progress = Progress(frames=frames, metrics={"x": [x]})
            assert (both.reason(progress) is not None) == (frames == 10 and x == 1.0)
    assert (both | budget(frames=100)).reason(Progress(frames=100, metrics={"x": [0.0]}))
