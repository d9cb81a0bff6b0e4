"""What a workflow file may bring of its own to `wf.steer` and `Workflow(stop=...)`: policies, prune rules, stop rules.

All are pure functions of scores and progress. Two more kinds of a user's own stand elsewhere: a model is a subclass of
`Model` (models/model.py), a scheduler one of `Scheduler` (executors/schedulers/scheduler.py).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from numbers import Integral, Real
from typing import Annotated, NoReturn

import numpy as np

from steersman.steering.scores import Scores

NEW = -1  # in place of a frame's position
LONGEST = 256  # a ranking is used until the next scores come, which is sooner than this many starts
AT_RANDOM = "at random"  # stands in a start's record where a policy drew without looking at scores: these are too few


ScoreName = Annotated[str, "the name of a score"]


def named_scores(part: object) -> tuple[str, ...]:
    types = {name: field.type for name, field in getattr(part, "__dataclass_fields__", {}).items()}
    return tuple(getattr(part, n) for n, kind in types.items() if kind is ScoreName or str(kind).endswith("ScoreName"))


@dataclass(frozen=True)
class Candidate:
    """One frame that could be started from, or one new member that was drawn, and why.

    Args:
        index: position in the scores; NEW of a member, which begins at the prepared start.
        policy: name of the policy that proposes it.
        value: what the policy measured there.
        reason: the sentence that `why` shows.
        exact: continue with the full restart state, not with new velocities.
        draw: what was drawn for a new member, by name; its simulation finds it as `start.draw`.
        weight: of a member of a weighted ensemble; 0 of other starts.
    """

    index: int
    policy: str
    value: float
    reason: str
    exact: bool = False
    draw: Mapping[str, float | Sequence[float]] = field(default_factory=dict)
    weight: float = 0.0

    def __post_init__(self) -> None:
        """What is written into the journal can be read there. Raises: TypeError, ValueError."""
        for name, kind in _KINDS.items():
            if not isinstance(given := getattr(self, name), kind):
                raise TypeError(f"Candidate({name}={given!r:.60}): {name} is a {kind.__name__}")
        if not 0 <= self.weight < math.inf:
            raise ValueError(f"Candidate(weight={self.weight!r}): a weight is a finite number of 0 or more")


_KINDS: dict[str, type] = {
    "index": Integral,
    "policy": str,
    "value": Real,
    "reason": str,
    "weight": Real,
    "draw": Mapping,
}


class Alternatives:
    """What `|` joins. Python's `or` would drop all but the first without a word."""

    def __bool__(self) -> NoReturn:
        raise TypeError(f"{type(self).__name__} is neither true nor false: write a | b, not `a or b`")


class Policy(Alternatives):
    """Ranks frames. A subclass gives `rank`, and of the properties what differs, as a property or a plain attribute.

    Attributes:
        example: arguments with which the tests try the laws of all policies, of scores "z" (n, 2), "x" and "deviation"
            (n,); what is in the unit of a score is 0.
    """

    example = "()"

    @property
    def name(self) -> str:
        return type(self).__name__

    @property
    def needs(self) -> tuple[str, ...]:
        """Names of the scores it looks at: those of fields that are a `ScoreName`."""
        return named_scores(self)

    @property
    def guided(self) -> bool:
        """It knows where to go, so the run is marked."""
        return False

    @property
    def draws(self) -> bool:
        """It proposes new members, so it is asked before there are frames, too."""
        return False

    @property
    def patient(self) -> bool:
        """It goes on from the newest ends, so a start is chosen when a slot is free and not one ahead."""
        return False

    @property
    def rounds(self) -> bool:
        """Its ranking is a whole round: all of it is started, and the next one is asked for when all have ended."""
        return False

    def load(self) -> None:
        """Import what ranking needs: slow at the first time, and a slot must not wait for it."""

    def rank(self, scores: Scores, rng: np.random.Generator) -> list[Candidate]:
        """Order frames, best first; `scores` holds at least one frame unless the policy draws.

        An empty list means: no opinion.
        """
        raise NotImplementedError

    def proposals(self, scores: Scores, rng: np.random.Generator) -> list[Candidate]:
        """Its ranking; nothing while it lacks its scores, but a policy that draws is asked without any then."""
        lacks = not all(name in scores.values for name in self.needs)
        if not self.draws and (lacks or not len(scores)):
            return []
        return self.rank(replace(scores, values={}) if lacks else scores, rng)

    def warning(self, scores: Scores) -> str:
        """What a person should know of these scores; "" is nothing. A policy of rounds is asked before each of them."""
        return ""

    def __or__(self, other: Policy) -> Turns:
        if not isinstance(other, Policy):
            return NotImplemented
        return Turns((*members(self), *members(other)))

    def candidates(self, scores: Scores, order: np.ndarray, values: np.ndarray, reason: str) -> list[Candidate]:
        """Frames not started from come first; `reason` is a format string of `value`."""
        order = scores.startable(order)
        fresh = np.argsort(scores.starts[order], kind="stable")[:LONGEST]
        return [
            Candidate(int(i), self.name, float(values[i]), reason.format(value=float(values[i]))) for i in order[fresh]
        ]


@dataclass(frozen=True)
class Turns(Policy):
    """Several policies, each proposing in its turn, the first drawn at random; a frame is proposed once."""

    policies: tuple[Policy, ...]

    def __post_init__(self) -> None:
        if alone := [policy.name for policy in self.policies if policy.rounds]:
            raise ValueError(f"{alone[0]} takes no turns: its weights are those of all starts")

    @property
    def name(self) -> str:
        return " | ".join(policy.name for policy in self.policies)

    @property
    def needs(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(chain.from_iterable(policy.needs for policy in self.policies)))

    @property
    def guided(self) -> bool:
        return any(policy.guided for policy in self.policies)

    @property
    def draws(self) -> bool:
        return any(policy.draws for policy in self.policies)

    @property
    def patient(self) -> bool:
        return all(policy.patient for policy in self.policies)

    def load(self) -> None:
        for policy in self.policies:
            policy.load()

    def proposals(self, scores: Scores, rng: np.random.Generator) -> list[Candidate]:
        """Those that draw do so while the others lack their scores."""
        return self.rank(scores, rng) if self.draws else super().proposals(scores, rng)

    def rank(self, scores: Scores, rng: np.random.Generator) -> list[Candidate]:
        rankings = [iter(policy.proposals(scores, rng)) for policy in self.policies]
        turn = int(rng.integers(len(rankings)))  # the first may be the only one that is used before new scores come
        rankings = rankings[turn:] + rankings[:turn]
        proposed, taken = list[Candidate](), set[int]()
        while rankings:
            for ranking in tuple(rankings):
                candidate = next((each for each in ranking if each.index not in taken), None)
                if candidate is None:
                    rankings.remove(ranking)
                    continue
                proposed.append(candidate)
                if candidate.index != NEW:  # every draw is one of its own
                    taken.add(candidate.index)
        return proposed


class ByAnother(Policy):
    """Ranks by another policy of frames, `policy`, and needs what that one needs."""

    policy: Policy

    def __post_init__(self) -> None:
        """Raises: ValueError: the other one does not rank frames."""
        if self.policy.rounds or self.policy.draws:
            how = "chooses all starts of a round" if self.policy.rounds else "draws new members"
            raise ValueError(f"{self.name}: it needs a policy that ranks frames, and this one {how}")

    @property
    def name(self) -> str:
        return f"{type(self).__name__}({self.policy.name})"

    @property
    def needs(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self.policy.needs, *super().needs)))

    @property
    def guided(self) -> bool:
        return self.policy.guided

    def load(self) -> None:
        self.policy.load()


def members(policy: Policy) -> tuple[Policy, ...]:
    """The policies that take turns, or the one alone."""
    return policy.policies if isinstance(policy, Turns) else (policy,)


class SegmentRule:
    """Judges one running segment by the scores of its frames so far."""

    @property
    def needs(self) -> tuple[str, ...]:
        """As those of a policy."""
        return named_scores(self)

    def reason(self, scores: Scores, rows: np.ndarray) -> str | None:
        """Why the segment should end; `rows` are its frames in the scores, oldest first, one at least."""
        raise NotImplementedError


@dataclass(frozen=True)
class Progress:
    """How far a run has come.

    Args:
        frames: published frames.
        simulated_s: simulated time in all, in seconds of the simulated system; NaN: the unit of `time` is no known one.
        hours: wall time since the run began, over all its sessions.
        gpu_hours: GPUs held times wall time.
        metrics: name -> its value after each scoring so far.
        begins: name -> positions in it from which on another model scored.
        measured_at: name -> how many frames had scores at each of its values.
        labels: answers of the label function.
        bound: on the error of the newest model, in 95 % of the frames that it visits; inf: unknown.
    """

    frames: int = 0
    simulated_s: float = 0.0
    hours: float = 0.0
    gpu_hours: float = 0.0
    metrics: Mapping[str, Sequence[float]] = field(default_factory=dict)
    begins: Mapping[str, Sequence[int]] = field(default_factory=dict)
    measured_at: Mapping[str, Sequence[int]] = field(default_factory=dict)
    labels: int = 0
    bound: float = math.inf


class StopRule(Alternatives):
    """Says why a run should end."""

    @property
    def goal(self) -> bool:
        """It is what the run is for; the other rules only bound its cost."""
        return False

    @property
    def needs(self) -> tuple[str, ...]:
        """Names of the metrics it looks at."""
        return ()

    @property
    def counts_simulated(self) -> bool:
        """It looks at simulated time in seconds, so that the unit of `time` must be a known one."""
        return False

    @property
    def counts_labels(self) -> bool:
        """It looks at labels, so that there must be a label stage."""
        return False

    def reason(self, progress: Progress) -> str | None:
        """Why the run is to end now; None: it goes on."""
        raise NotImplementedError(f"{type(self).__name__} has no method reason(self, progress)")

    def reached(self, progress: Progress) -> bool:
        """Whether it ends the run, and what it ends it by is what the run is for."""
        return self.goal and bool(self.reason(progress))

    def share(self, progress: Progress) -> float:
        """Share of the way to the end, 0 to 1; 0 when it is not known."""
        return 0.0

    def room(self, progress: Progress) -> float:
        """How much of what was simulated so far, in frames or time, may follow: 1 is as much again; inf: no limit."""
        return math.inf

    @property
    def either(self) -> tuple[StopRule, ...]:
        """Rules of which one ends the run."""
        return (self,)

    def __or__(self, other: StopRule) -> AnyOf:
        if not isinstance(other, StopRule):
            return NotImplemented
        return AnyOf((*self.either, *other.either))

    def __and__(self, other: StopRule) -> AllOf:
        return AllOf((self, other)) if isinstance(other, StopRule) else NotImplemented


@dataclass(frozen=True)
class _Several(StopRule):
    rules: tuple[StopRule, ...]

    @property
    def goal(self) -> bool:
        return any(rule.goal for rule in self.rules)

    @property
    def counts_simulated(self) -> bool:
        return any(rule.counts_simulated for rule in self.rules)

    @property
    def counts_labels(self) -> bool:
        return any(rule.counts_labels for rule in self.rules)

    @property
    def needs(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for rule in self.rules for name in rule.needs))


class AllOf(_Several):
    """`a & b`: ends a run when all of them would."""

    def __str__(self) -> str:
        return ", and ".join(map(str, self.rules))

    def reason(self, progress: Progress) -> str | None:
        reasons = [rule.reason(progress) for rule in self.rules]
        return "; ".join(map(str, reasons)) if all(reasons) else None

    def reached(self, progress: Progress) -> bool:
        return bool(self.reason(progress)) and any(rule.reached(progress) for rule in self.rules)

    def share(self, progress: Progress) -> float:
        return min(rule.share(progress) for rule in self.rules)

    def room(self, progress: Progress) -> float:
        return max(rule.room(progress) for rule in self.rules)


class AnyOf(_Several):
    """`a | b`: ends a run when one of them would."""

    @property
    def either(self) -> tuple[StopRule, ...]:
        return self.rules

    def __str__(self) -> str:
        return ", or ".join(map(str, self.rules))

    def reason(self, progress: Progress) -> str | None:
        """A goal before a budget that is spent at the same moment."""
        goals_first = sorted(self.rules, key=lambda rule: not rule.reached(progress))
        return next(filter(None, (rule.reason(progress) for rule in goals_first)), None)

    def reached(self, progress: Progress) -> bool:
        return any(rule.reached(progress) for rule in self.rules)

    def share(self, progress: Progress) -> float:
        return max(rule.share(progress) for rule in self.rules)

    def room(self, progress: Progress) -> float:
        return min(rule.room(progress) for rule in self.rules)
