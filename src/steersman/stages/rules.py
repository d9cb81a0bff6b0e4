"""When to train, and the rules of a workflow, which may be given as functions of its parameters."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from typing import Any, TypeVar

from steersman.stages.kinds import KINDS
from steersman.system.calls import called
from steersman.system.errors import BadValue

R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., Any])
TAKEN = ("time", "elapsed_s", "simulated", "scored")  # columns of `run.metrics`
NOT_PLAIN = inspect.isgeneratorfunction, inspect.iscoroutinefunction, inspect.isasyncgenfunction
EXAMPLES = {
    "stop": "budget(frames=10_000)", "when": "every(frames=1000)", "policy": 'Novelty("z")', "fallback": "Random()",
    "explore": "0.1", "bias": 'Opes("z", barrier_kT=14)', "label": 'Doubtful("spread", above=0.1)',
    "prune": 'Redundant("z")',
}  # what to write, for example  # fmt: skip


@dataclass(frozen=True)
class Every:
    """When to train: each time a number of frames is new, and not before there are `first` frames; or of labels."""

    frames: int
    first: int
    last: float = math.inf
    counts: str = "frames"

    def __str__(self) -> str:
        until = f", until {self.last:g}" if self.last < math.inf else ""
        return f"first at {self.first} {self.counts}, then {self._then}{until}"

    @property
    def _then(self) -> str:
        return f"every {self.frames}"

    def due(self, frames: int, trained_at: int | None, *, used: bool = False) -> bool:
        """Whether so many frames are enough, after a training at so many (None: there was none yet).

        Args:
            used: there is a model that is used.
        """
        if trained_at is None:
            return frames >= self.first
        return trained_at < self.last and frames >= self.next(trained_at)

    def next(self, trained_at: int) -> int:
        """How many frames there are at the next training."""
        return trained_at + self.frames


class Doubling(Every):
    """When to train: each time there are twice as many frames as at the last training."""

    @property
    def _then(self) -> str:
        return "at twice as many each time"

    def next(self, trained_at: int) -> int:
        """How many frames there are at the next training."""
        return 2 * trained_at


class UntilUsed(Doubling):
    """When to train: as `Doubling`, and at the last number of frames, until a model is used."""

    @property
    def _then(self) -> str:
        return f"{super()._then} until a model is used"

    def due(self, frames: int, trained_at: int | None, *, used: bool = False) -> bool:
        return not used and frames >= (self.first if trained_at is None else self.next(trained_at))

    def next(self, trained_at: int) -> int:
        """How many frames there are at the next training."""
        return int(min(2 * trained_at, self.last)) if trained_at < self.last else 2 * trained_at


def every(
    *, frames: int | None = None, labels: int | None = None, first: int | None = None, last: float = math.inf
) -> Every:
    """Train when `frames` new frames have come since the last training; the first time at `first` frames.

    Frames of `@wf.held_out` do not count.

    Args:
        labels: in place of frames: answers of `@wf.label` are counted, in `first` and `last` too.
        last: once a training began with so many frames or more, the model stays as it is.
    Raises: ValueError: a count below 1. BadValue: frames and labels, or neither.
    """
    if (frames is None) == (labels is None):
        raise BadValue("every", f"frames={frames}, labels={labels}", "give one of them")
    number = frames or labels or 0
    first = number if first is None else first
    _count("every", **{"frames" if frames is not None else "labels": number}, first=first, last=last)
    return Every(number, first, last, "frames" if labels is None else "labels")


def doubling(*, first: int, last: float = math.inf) -> Every:
    """Train at `first` frames, and each time there are twice as many, until `last`; then the model stays as it is.

    What is concluded from a bias converges while its model does not change.

    Raises: ValueError: a count below 1.
    """
    _count("doubling", first=first, last=last)
    return Doubling(first, first, last)


def until_used(*, first: int, last: float = math.inf) -> Every:
    """Train at `first` frames, each time there are twice as many, and at `last`, until a model is used, which stays.

    With `@wf.train(most=)`, which trainings at `last` frames or more do not have to reach.

    Raises: ValueError: a count below 1. BadValue: the first training is after the last, so that no model is judged.
    """
    _count("until_used", first=first, last=last)
    if first > last:
        raise BadValue("until_used(first)", first, f"at most last={last:g}, from which on any model is used")
    return UntilUsed(first, first, last)


def _count(rule: str, **counts: float) -> None:
    for name, value in counts.items():
        if not isinstance(value, Real) or not value >= 1:  # NaN is none
            raise ValueError(f"{rule}({name}={value!r:.60}): counts are numbers of at least 1")


def check(name: str, given: object, kind: type[R]) -> None:
    """Raises: TypeError: it is neither a rule nor a function of the parameters."""
    if not (isinstance(given, kind) or callable(given)):
        raise TypeError(f"{name}={given!r:.60}: give a rule, e.g. {EXAMPLES[name]}, or a function of the parameters")


def depends(given: object, kind: type) -> bool:
    """Whether a rule is given as a function of the parameters."""
    return callable(given) and not isinstance(given, (kind, type))


def chosen(name: str, given: Any, kind: type[R], params: object) -> R:
    """The rule, or what a function of the parameters gives. Raises: TypeError: it gives something else."""
    rule = given if isinstance(given, kind) else called(given, params)
    if not isinstance(rule, kind):
        raise TypeError(f"it returned {rule!r:.60}; return a rule, e.g. {EXAMPLES[name]}")
    return rule


def stage(kind: str, function: F, workflow: object) -> F:
    """Check that a stage can be called with its positional arguments, and does not replace another, see `_only`."""
    if not callable(function) or not hasattr(function, "__name__"):
        raise TypeError(f"@wf.{kind}({function!r:.60}): it decorates a function, and its own arguments have names")
    arguments, known = KINDS[kind].arguments, getattr(workflow, KINDS[kind].kept)
    name = _only(kind, function, known)
    if kind == "metric" and name in TAKEN:
        raise TypeError(f"@wf.metric {name}: `run.metrics` has a column of this name; take another")
    if any(is_such(function) for is_such in NOT_PLAIN):
        raise TypeError(
            f"@wf.{kind} {name}: a call of it does nothing, as it has a `yield` or is `async`; write neither"
        )
    if arguments is None:
        return function
    try:
        inspect.signature(function).bind(*arguments)
    except TypeError as error:
        raise TypeError(f"@wf.{kind} {name}: it is called as {kind}({', '.join(arguments)}); {error}") from None
    return function


def _only(kind: str, function: Callable[..., Any], known: object) -> str:
    """The name of a function that a workflow is given, and that is not to replace one of the same file without a word.

    A file may replace what a workflow has that it imports, each time that it is itself imported anew.

    Args:
        known: what the workflow has in its place, or None; or those of this kind, by name.
    """
    known = known.get(function.__name__) if isinstance(known, dict) else known
    first = known[1] if isinstance(known, tuple) else getattr(known, "function", known)
    if first is not None and _module(first) is _module(function):
        raise TypeError(
            f"@wf.{kind} {function.__name__}: the workflow has such a function already, which this one would replace"
        )
    return function.__name__


def _module(function: Any) -> object:
    """What stands for the module that defines a function, whatever wraps it: another one when it is imported again."""
    return getattr(inspect.unwrap(function), "__globals__", None) or object()
