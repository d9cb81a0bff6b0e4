"""Scores -> new members that a generator suggests which speaks the ecosystem's standard, as those of Xopt, libEnsemble
and Optimas do (gest-api 0.2: `suggest`, `ingest`, `finalize`, and a VOCS that names what goes in and comes out).

    vocs = VOCS(variables={"x": [-2.0, 2.0]}, objectives={"f": "MINIMIZE"})
    wf.steer(Ask(vocs, lambda vocs, seed: UniformSample(vocs, random_seed=seed)))

    @wf.score()
    def place(p, model, frames): return {"x": frames["x"], "f": frames["f"]}

The simulation finds what was suggested as `start.draw["x"]` and stores it with its frames; the score function returns
it again, beside the objectives.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from steersman.steering.protocols import AT_RANDOM, NEW, Candidate, Policy
from steersman.steering.scores import Scores
from steersman.system.errors import told
from steersman.system.numbers import Whole, checked
from steersman.system.random_numbers import drawing

ID = "_id"  # a generator's own, of this life of it
ROUNDING = 1e-6  # of single precision, relative: some generators compute in it


@checked
class Ask(Policy):
    """New members that a generator of another library suggests.

    Each time, a new generator is told everything that was scored, and then asked: so it has nothing to lose when the
    driver is killed, and the same scores and seed give the same members. Where a generator suggests nothing, as some do
    before they were told a result, members are drawn evenly. A member counts when its segment has ended, by the scores
    of its last frame.

    Args:
        vocs: names of variables, constants, objectives, constraints and observables.
        make: called with it and a seed, gives a generator.
        batch: number of members to ask for at once: as many as there are slots, in a run with `--rounds`. Without, the
            generator is asked again at each new result, and does not know of the members that still run.
    Source: gest-api, https://github.com/campa-consortium/gest-api.
    """

    vocs: Any
    make: Callable[[Any, int], Any]
    batch: Whole = 1

    draws = True

    def __post_init__(self) -> None:
        if not hasattr(self.vocs, "variable_names") or not callable(self.make):
            raise TypeError(f"Ask({self.vocs!r:.60}, {self.make!r:.60}): give a VOCS, and a function of it and a seed")

    @property
    def needs(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self.vocs.all_names))

    def rank(self, scores: Scores, rng: np.random.Generator) -> list[Candidate]:
        """Tell and ask.

        Raises: ValueError: a suggestion has no number for a variable, or one outside its bounds. TypeError: it is none.
        """
        seed, results = int(rng.integers(2**31)), self._results(scores)
        with drawing(seed):
            generator = self.make(self.vocs, seed)
            if results:
                generator.ingest(results)
            why = f"{type(generator).__name__} suggests it, having been told {len(results)} results"
            nothing = f"drawn evenly: {type(generator).__name__} suggests nothing"
            try:
                suggested = generator.suggest(self.batch)
            except Exception as error:  # of Xopt's, those that learn want a result before they suggest anything
                if results:
                    raise
                suggested, nothing = [], f"{nothing} yet ({told(error)})"
            if not isinstance(suggested, Iterable):
                raise TypeError(
                    f"{type(generator).__name__}.suggest returns {suggested!r:.60}, which is no list of points"
                )
            if drawn := not (suggested := list(suggested)):
                suggested, why = [self._evenly(rng) for _ in range(self.batch)], nothing
            if finalize := getattr(generator, "finalize", None):
                finalize()
        name = AT_RANDOM if drawn else self.name
        return [Candidate(NEW, name, 0.0, why, draw=self._draw(point)) for point in suggested]

    def _evenly(self, rng: np.random.Generator) -> dict[str, float]:
        """Between the bounds of each variable, or one of its values."""
        return {
            name: rng.choice(sorted(each.values)) if hasattr(each, "values") else rng.uniform(*each.domain)
            for name, each in self.vocs.variables.items()
        }

    def _draw(self, point: Mapping[str, Any]) -> dict[str, float]:
        try:
            given = {name: each.value for name, each in self.vocs.constants.items()} | dict(point)
            draw = {name: float(value) for name, value in given.items() if name != ID}
        except (AttributeError, TypeError, ValueError):
            draw = {}
        names = [*self.vocs.variable_names, *self.vocs.constants]
        if not draw.keys() >= set(names) or not all(map(math.isfinite, draw.values())):
            raise ValueError(f"the generator suggests {point!r:.200}; it is a finite number for each of {names}")
        for name, each in self.vocs.constants.items():
            if draw[name] != float(each.value):
                raise ValueError(
                    f"the generator suggests {name}={draw[name]:g}; its VOCS has the constant {each.value}"
                )
        for name, each in self.vocs.variables.items():
            if not _allowed(draw[name], bounds := getattr(each, "values", None) or each.domain):
                raise ValueError(f"the generator suggests {name}={draw[name]:g}; its VOCS has {bounds} for {name}")
        return draw

    def _results(self, scores: Scores) -> list[dict[str, float]]:
        """A mapping for each member that has ended, in the order in which they were published."""
        if not scores.values:
            return []
        names = list(self.needs)
        return [dict(zip(names, row, strict=True)) for row in self._table(scores, names)[scores.ends].tolist()]

    def _table(self, scores: Scores, names: list[str]) -> np.ndarray:
        columns = [scores.matrix(name) for name in names]
        for name, column in zip(names, columns, strict=True):
            if column.shape[1] != 1:
                raise ValueError(f"the score {name!r} has {column.shape[1]} numbers a frame; the VOCS needs one")
        return np.hstack(columns)


def _allowed(value: float, bounds: set[float] | list[float]) -> bool:
    """Whether it is one of a set, or between two ends, up to the rounding of single precision."""
    if isinstance(bounds, set):
        return any(math.isclose(value, each, rel_tol=ROUNDING) for each in bounds)
    low, high = bounds
    slack = ROUNDING * max((abs(end) for end in bounds if math.isfinite(end)), default=0.0)
    return low - slack <= value <= high + slack
