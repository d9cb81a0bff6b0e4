"""Scores -> starts: the choice of the next segments with its reason and the alternatives refused."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from typing import Any

import numpy as np

from steersman.steering.draws import HELD_OUT
from steersman.steering.labelling import LabelRule
from steersman.steering.opes import GROWTH, HOT, Opes
from steersman.steering.policies import Random, Unsteered
from steersman.steering.protocols import AT_RANDOM, NEW, Candidate, Policy, SegmentRule, members
from steersman.steering.scores import Scores
from steersman.system.calls import called
from steersman.system.numbers import Share, checked

SHOWN_ALTERNATIVES = 3
NO_POLICY = (
    "explore",
    "prepared",
    "continue",
    "pin",
    HELD_OUT,
    AT_RANDOM,
)  # stand in starts in place of a policy's name
CHOSE_NONE = (
    "the policy chose no start: until the budget was spent too little was scored, or all scores were alike; try a "
    "larger budget or --rounds"
)
PUSHED_NONE = (
    "no segment was pushed: the budget was spent before a model was used and had a bias; `status` says why models were "
    "not used; else try a larger budget or --rounds"
)
PRUNES_NONE = "the prune rule ends nothing: in rounds, frames are scored when their segments have ended"
STAGES = ("train", "score", "steer", "bias", "label")  # that steering needs
UNITY = 1e-9  # by which weights may miss 1: rounding errors of a million rounds


@dataclass(frozen=True)
class Choice:
    """One chosen start; `candidate` is None for the prepared start with nothing drawn."""

    candidate: Candidate | None
    reason: str
    policy: str
    refused: tuple[Candidate, ...] = ()


@checked
class Steering:
    """How a workflow steers.

    Args:
        policy: ranks the scored frames; by default every segment is continued.
        explore: share of starts drawn at random instead, 0 to 1.
        fallback: used until the scores that the policy needs exist, unless it draws members, and when the policy fails.
        prune: ends running segments early; None never does.
        bias: pushes every segment along a score; None: nothing does.
        label: chooses frames to be labelled; None: none are.
    """

    policy: Policy = field(default_factory=Unsteered)
    explore: Share = 0.0
    fallback: Policy = field(default_factory=Unsteered)
    prune: SegmentRule | None = None
    bias: Opes | None = None
    label: LabelRule | None = None

    def __post_init__(self) -> None:
        if self.policy.rounds and (self.explore or self.prune):
            raise ValueError(f"{self.policy.name} chooses every start, to its end: take explore and prune away")
        if self.bias and (self.explore or self.prune or not isinstance(self.policy, Unsteered)):
            raise ValueError(
                f"bias={self.bias.name}: the weights of frames hold while each segment is continued to its end: take "
                "Unsteered() as the policy, and explore and prune away"
            )
        if self.fallback.rounds:
            raise ValueError(f"{self.fallback.name} is no fallback: its weights are those of all starts")

    @property
    def guided(self) -> bool:
        return self.policy.guided or self.fallback.guided

    @property
    def needs(self) -> tuple[str, ...]:
        """Names of the scores that policy, rules and bias look at, without which the fallback chooses."""
        each = (self.policy, self.prune, self.bias, self.label)
        return tuple(chain.from_iterable(one.needs for one in each if one is not None))

    @property
    def growth(self) -> float:
        """Scores are wanted at once when there are so many times the frames; infinity: nobody wants them then."""
        return GROWTH if self.bias else math.inf

    @property
    def adds(self) -> tuple[str, ...]:
        """Columns of `run.scores` that come of how it steers, so that no score can have their names."""
        return ("weight",) if self.bias else ()

    @property
    def no_pins(self) -> str:
        """Why no frame can be pinned, or ""."""
        if self.policy.rounds:
            return "this run is a weighted ensemble, and a pinned start would have no weight"
        return "this run has a bias, and a pinned start would break the weights of its frames" if self.bias else ""

    @property
    def pushed(self) -> str:
        """What pushes every segment, in words, or ""."""
        return str(self.bias or "")

    @property
    def continues(self) -> bool:
        """Whether each segment is continued to its end, whatever a policy would choose."""
        return self.bias is not None

    def lacks(self, names: Collection[str]) -> str:
        """What to do about the first score that a bias needs and that is not among these, or ""."""
        return self.bias.lacks(names) if self.bias else ""

    @property
    def seen(self) -> set[str]:
        """Variables that must be scores, too, where frames have them."""
        return {HOT} if self.bias else set()

    def unused(self, chosen: Mapping[str, int], *, weighs: bool, rounds: bool) -> str:
        """Why it changed nothing, of a run whose budget is spent, or "".

        Args:
            chosen: how many starts each policy chose.
            weighs: frames count by weights, as those of a bias do.
            rounds: of a run in rounds, which is not told to try them.
        """
        sees = self.policy.needs or self.policy.draws
        why = PUSHED_NONE if self.bias and not weighs else CHOSE_NONE if sees and not self.own(chosen) else ""
        return why.removesuffix(" or --rounds") if rounds else why

    def deciding(self, known: Collection[str]) -> Policy:
        """Which policy chooses, when all goes well. Args: known: names of the scores that there are."""
        return self.policy if self.policy.draws or set(self.policy.needs).issubset(known) else self.fallback

    def own(self, chosen: Mapping[str, int]) -> int:
        """How many starts the policy itself chose, of those that each name chose."""
        others = {each.name for each in members(self.fallback)} - {each.name for each in members(self.policy)}
        return sum(number for name, number in chosen.items() if name not in {*NO_POLICY, *others})


def steered(
    policy: Policy | None = None,
    *,
    explore: float = 0.0,
    fallback: Policy | None = None,
    prune: SegmentRule | None = None,
    bias: Opes | None = None,
    label: LabelRule | None = None,
) -> Steering:
    """What `wf.steer` makes of its arguments. Raises: TypeError: it would change nothing."""
    if policy is None and bias is None and label is None:
        raise TypeError('give a policy or a bias: wf.steer(Novelty("z")), or wf.steer(bias=Opes("z", barrier_kT=14))')
    policy, fallback = (Unsteered() if each is None else each for each in (policy, fallback))
    return Steering(policy, explore, fallback, prune, bias, label)


class Decider:
    """Hands out starts from one ranking until the scores change.

    Args:
        misses: (walker, row) -> whether a variable of this frame is missing, so that only its segment goes on from it.
    Attributes:
        trouble: what the policy raised at the last ranking, if anything.
        ranked_s: how long ranking took since this was last set to 0.
    """

    def __init__(self, steering: Steering, misses: Callable[[int, int], bool] = lambda walker, row: False) -> None:
        self.steering, self._misses = steering, misses
        self.trouble: Exception | None = None
        self.ranked_s = 0.0
        self._scores: Scores | None = None
        self._ranking: deque[Candidate] = deque()
        for policy in (steering.policy, steering.fallback):
            policy.load()

    def forget(self) -> None:
        """Rank anew at the next choice, so that it depends on scores and random numbers alone."""
        self._scores = None

    def choose_round(self, scores: Scores, rng: np.random.Generator) -> list[Choice]:
        """Choose all starts of the next round, by a policy of rounds.

        Raises: ValueError: the weights of the round before do not sum to 1. Whatever the policy raises.
        """
        began = time.monotonic()
        ranking = _checked(called(self.steering.policy.rank, scores, rng), scores)
        self.ranked_s += time.monotonic() - began
        total = math.fsum(candidate.weight for candidate in ranking)
        if abs(total - 1) > UNITY:
            raise ValueError(
                f"the members of the newest round weigh {total:.6g} together and not 1: some were given up, set aside "
                "or not scored, see the notes before. It cannot go on; its rounds can be read, and another run begun"
            )
        return [Choice(candidate, candidate.reason, candidate.policy) for candidate in ranking]

    def choose(self, scores: Scores, rng: np.random.Generator, blamed: Collection[tuple[int, int]] = ()) -> Choice:
        """Choose one start.

        Args:
            blamed: (walker, row) of frames that made every segment fail.
        """
        if scores is not self._scores:
            began = time.monotonic()
            self._scores, self._ranking = scores, deque(self._rank(scores, rng))
            self.ranked_s += time.monotonic() - began
        explores = len(scores) > 0 and rng.random() < self.steering.explore
        ranking = deque(Random().rank(scores, rng)) if explores else self._ranking
        for _ in range(len(ranking)):
            candidate = ranking[0]
            ranking.rotate(-1)  # a ranking that is used up before new scores come is used again from its best on
            if candidate.index == NEW:
                ranking.pop()  # a member is drawn once: the same again would be no other run
                if all(left.index != NEW for left in ranking):
                    self.forget()
                return Choice(candidate, candidate.reason, candidate.policy)
            frame = int(scores.walker[candidate.index]), int(scores.row[candidate.index])
            if frame not in blamed and (candidate.exact or not self._misses(*frame)):
                policy = "explore" if explores else candidate.policy
                refused = tuple(islice(ranking, min(SHOWN_ALTERNATIVES, len(ranking) - 1)))
                if candidate.exact:
                    ranking.pop()  # nor is a segment continued twice from one ranking
                candidate = replace(candidate, exact=candidate.exact or scores.exact)
                return Choice(candidate, candidate.reason, policy, refused)
        return Choice(None, "the prepared start: there is no better one yet", "prepared")

    def _rank(self, scores: Scores, rng: np.random.Generator) -> list[Candidate]:
        self.trouble = None
        for policy in (self.steering.policy, self.steering.fallback):
            try:
                ranking = _checked(called(policy.proposals, scores, rng), scores)
            except Exception as error:  # a user's policy may raise anything; the run goes on and says so
                self.trouble = self.trouble or error
            else:
                if ranking:
                    return ranking
        return []


def _checked(given: Any, scores: Scores) -> list[Candidate]:
    """What a policy, which may be a user's own, gave as its ranking."""
    n, ranking = len(scores), list(given if isinstance(given, Iterable) else [given])
    for candidate in ranking:
        if not isinstance(candidate, Candidate):
            raise TypeError(f"the ranking holds {candidate!r:.60}; return a list of candidates, best first")
        if not 0 <= candidate.index < n and not (candidate.index == NEW and (candidate.draw or candidate.weight)):
            raise ValueError(f"policy {candidate.policy} proposed frame {candidate.index} of {n}")
    kept = [each for each in ranking if each.index == NEW or not scores.exact or scores.ends[each.index]]
    if ranking and not kept and scores.ends.any():
        raise ValueError(
            f"policy {ranking[0].policy} proposed no frame that a segment can begin at, which are those of scores.ends "
            "in this workflow; let it choose among them, or return self.candidates(...)"
        )
    return kept
