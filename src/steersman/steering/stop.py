"""Progress -> reason to stop, or None. Rules combine: `budget(sim_ns=100) | plateau("coverage")`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from steersman.steering.protocols import Progress, StopRule
from steersman.system.numbers import Finite, Positive, Seconds, Whole, check, checked

_PREFIXES = {
    ("", ""): 1.0, ("m", "milli"): 1e-3, ("u", "micro"): 1e-6, ("µ", "micro"): 1e-6, ("\u03bc", "micro"): 1e-6,
    ("n", "nano"): 1e-9, ("p", "pico"): 1e-12, ("f", "femto"): 1e-15, ("a", "atto"): 1e-18,
}  # fmt: skip
_YEAR_S = 3.15569259747e7
_LONGER = {
    ("min", "minute", "minutes"): 60.0, ("h", "hr", "hour", "hours"): 3600.0, ("d", "day", "days"): 86400.0,
    ("week", "weeks"): 604800.0, ("year", "years", "yr"): _YEAR_S, ("kyr",): 1e3 * _YEAR_S, ("Myr",): 1e6 * _YEAR_S,
    ("Gyr",): 1e9 * _YEAR_S,
}  # fmt: skip
# Units of simulated time as UDUNITS names them, in seconds; a year is its tropical one.
SECONDS = {
    **{unit: seconds for (symbol, name), seconds in _PREFIXES.items()
       for unit in (f"{symbol}s", f"{symbol}sec", f"{name}second", f"{name}seconds")},
    **{unit: seconds for names, seconds in _LONGER.items() for unit in names},
}  # fmt: skip


ROUNDING = 1e-9  # of a limit: times of many segments, which a computer adds


@dataclass(frozen=True)
class Budget(StopRule):
    limits: Mapping[str, float]

    @property
    def counts_simulated(self) -> bool:
        return any(name.startswith("sim_") for name in self.limits)

    @property
    def counts_labels(self) -> bool:
        return "labels" in self.limits

    def reason(self, progress: Progress) -> str | None:
        spent = _spent(progress)
        for name, limit in self.limits.items():
            if spent[name] >= limit * (1 - ROUNDING):
                return f"the budget of {limit:g} {_LABEL[name]} is spent"
        return None

    def __str__(self) -> str:
        return "budget of " + " or ".join(f"{limit:g} {_LABEL[name]}" for name, limit in self.limits.items())

    def share(self, progress: Progress) -> float:
        return min(1.0, self.spent(progress))

    def spent(self, progress: Progress) -> float:
        """As the share, and above 1 where the last segments brought more."""
        spent = _spent(progress)
        return max(0.0, *(spent[name] / limit for name, limit in self.limits.items()))  # NaN is passed over

    def room(self, progress: Progress) -> float:
        spent = _spent(progress)
        simulated = ("frames", "sim_ns", "sim_days")  # what segments bring
        counted = {name: limit for name, limit in self.limits.items() if name in simulated and spent[name] > 0}
        room = (limit * (1 - ROUNDING) / spent[name] - 1.0 for name, limit in counted.items())
        return max(0.0, min(room, default=math.inf))


@checked
class Plateau(StopRule):
    metric: str
    last: Whole
    rise: Positive
    goal = True

    @property
    def needs(self) -> tuple[str, ...]:
        return (self.metric,)

    def __str__(self) -> str:
        return f"{self.metric} rises by less than {100 * self.rise:g} % over {self.last} scorings"

    def reason(self, progress: Progress) -> str | None:
        values = progress.metrics.get(self.metric, ())
        window = len(values) - self.last
        if window < 1:
            return None
        begins = (0, *progress.begins.get(self.metric, ()), len(values))
        rises = [_rise(values[first:end], window - first) for first, end in pairwise(begins) if end > window]
        if not sum(rises) < self.rise:  # NaN ends nothing
            return None
        return f"{self.metric} rose by less than {100 * self.rise:g} % over the last {self.last} scorings"


@checked
class Reached(StopRule):
    metric: str
    value: Finite
    below: bool
    goal = True

    @property
    def needs(self) -> tuple[str, ...]:
        return (self.metric,)

    def __str__(self) -> str:
        return f"{self.metric} is {'at most' if self.below else 'at least'} {self.value:g}"

    def reason(self, progress: Progress) -> str | None:
        values = progress.metrics.get(self.metric)
        if not values or not (values[-1] <= self.value if self.below else values[-1] >= self.value):
            return None
        return f"{self.metric} reached {values[-1]:.4g} ({'at most' if self.below else 'at least'} {self.value:g})"


@checked
class Trusted(StopRule):
    below: Positive
    goal = counts_labels = True

    def __str__(self) -> str:
        return f"the error of the model is at most {self.below:g} in 95 % of the frames that it visits"

    def reason(self, progress: Progress) -> str | None:
        if not progress.bound <= self.below:
            return None
        return f"the error is at most {progress.bound:.4g} in 95 % of the frames that the model visits"


def trusted(*, below: float) -> Trusted:
    """Stop when audits bound the error of the newest model: in 95 % of the frames that it visits it is at most `below`,
    in the unit of `@wf.label(error=...)`.

    The bound is known from 19 audits of one model on, so the model must stay as it is for so many.
    Raises: BadValue: it is no number above 0.
    """
    return Trusted(below)


def budget(**limits: float) -> Budget:
    """Stop when any of these is spent: frames, labels, sim_ns, sim_days, hours, gpu_hours. Simulated time counts those
    that are published, and needs the unit of `time` by a UDUNITS name (`ps`, `nanosecond`, `days`).

    Raises: ValueError: an unknown name, none at all, or a limit that is not positive.
    """
    unknown = limits.keys() - _LABEL.keys()
    if unknown or not limits:
        given = f"not {', '.join(sorted(unknown))}" if unknown else "at least one of them"
        raise ValueError(f"budget() takes {', '.join(_LABEL)}; {given}")
    for name, limit in limits.items():
        check("budget", Seconds, **{name: limit})
    return Budget(limits)


def plateau(metric: str, *, last: int = 20, rise: float = 0.01) -> Plateau:
    """Stop when a metric has risen by less than `rise` (a share) over the last `last` scorings. A step from one model
    to the next does not count, up or down.

    The number of visited cells of a latent space, say, is another one in another space.

    Raises: ValueError: `last` is no whole number of 1 or more, or `rise` no number above 0.
    """
    return Plateau(metric, last, rise)


def reached(metric: str, value: float, *, below: bool = False) -> Reached:
    """Stop when a metric is at least `value`, or with `below` at most.

    Raises: ValueError: it is no finite number.
    """
    return Reached(metric, value, below)


def _rise(values: Sequence[float], known: int) -> float:
    """By which share the best value is above the best of the first `known`, at least one; NaN is passed over."""
    before, now = np.fmax.reduce(values[: max(known, 1)]), np.fmax.reduce(values)
    return float((now - before) / max(abs(before), 1e-300))


_LABEL = {
    "frames": "frames", "labels": "labels", "hours": "hours", "gpu_hours": "GPU hours",
    "sim_ns": "simulated ns", "sim_days": "simulated days",
}  # fmt: skip


def _spent(progress: Progress) -> dict[str, float]:
    return {
        "frames": progress.frames,
        "labels": progress.labels,
        "hours": progress.hours,
        "gpu_hours": progress.gpu_hours,
        "sim_ns": progress.simulated_s * 1e9,
        "sim_days": progress.simulated_s / 86400.0,
    }
