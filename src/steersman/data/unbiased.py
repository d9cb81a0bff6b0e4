"""A biased run -> what its frames say of the unbiased system: averages and free energies with intervals."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas

from steersman.data import tables
from steersman.data.history import History
from steersman.journal import published
from steersman.journal.modes.biases import Biases
from steersman.steering.reweighting import Reweighted
from steersman.steering.weighted_ensemble import Mean
from steersman.store import Window
from steersman.system.errors import BadInput

BINS = 50
FEW = 0.25  # of the frames: when fewer count, the interval may be too narrow


class FewPassages(UserWarning):
    """So few frames count, or walkers went from one state to another so seldom, that an interval may be too narrow."""


@dataclass(frozen=True)
class Unbiased:
    """Results of the unbiased system, in kT, with 95 % intervals from blocks of time of each lineage.

    Quantities and states are columns of `Run.scores` ("phi"), stored variables of one number a frame ("energy"),
    expressions of columns ("phi > 0 and z_1 < 1"), or arrays (n,) along `Run.scores`.

    Warns: FewPassages: an interval may be too narrow.
    Raises: BadInput: the run has no bias, or too few frames of it. BadScores: the stored energies are not the bias's.
    """

    history: History

    def __post_init__(self) -> None:
        if not self.history.state.mode(Biases).versions:
            raise BadInput("this run has no bias; `steersman analyse RUN` makes a Markov state model of such a run")

    @cached_property
    def table(self) -> pandas.DataFrame:
        """`Run.scores`."""
        return tables.scores(self.history)

    @cached_property
    def weights(self) -> Reweighted:
        """Weights of the frames, along `table`."""
        return tables.reweighted(self.history, self.table)

    def values(self, of: str | np.ndarray) -> np.ndarray:
        """(n,) of a quantity or state along `table`. Raises: BadInput: it is none."""
        array = self._found(of) if isinstance(of, str) else np.asarray(of)
        if array.shape != (len(self.table),) or array.dtype.kind not in "biuf":
            raise self._bad(of, f"it is not one number for each of {len(self.table):,} frames")
        return array

    def _found(self, of: str) -> np.ndarray:
        if of in self.table:
            return np.asarray(self.table[of])
        window = Window(self.history.directory.frames, published.spans(self.history.state))
        if of in list(window):
            return window[of]
        try:
            return np.asarray(self.table.eval(of))
        except Exception as error:  # whatever pandas makes of what a person wrote
            raise self._bad(of, str(error)) from None

    def _bad(self, of: str | np.ndarray, problem: str) -> BadInput:
        text = of if isinstance(of, str) else f"an array of shape {np.shape(of)}"
        return BadInput(f"{text!r}: {problem}; write an expression of these columns: {', '.join(self.table)}")

    def state(self, of: str | np.ndarray) -> np.ndarray:
        """(n,) bool, whether a frame is in a state. Raises: BadInput."""
        inside = self.values(of)
        if inside.dtype != bool:
            raise self._bad(of, "it is not true or false, as 0 < phi < 2 is")
        return inside

    def difference(self, state: str | np.ndarray, other: str | np.ndarray) -> Mean:
        """Free energy of a state less that of another, in kT."""
        self._check()
        one, two = self.state(state), self.state(other)
        self._warn(one, two)
        return self.weights.difference(one, two)

    def average(self, of: str | np.ndarray) -> Mean:
        """Average of a quantity; of a state its population."""
        self._check()
        values = self.values(of)
        if values.dtype == bool:
            self._warn(values, ~values)
        return self.weights.population(values) if values.dtype == bool else self.weights.average(values)

    def free_energy(self, *along: str | np.ndarray, bins: int = BINS) -> pandas.DataFrame:
        """Free energy in kT above the lowest bin, along one or two quantities.

        Returns: by the middles of the bins, one index for each quantity: `free_energy`, `low` and `high` (95 %, of the
            bin against all others); NaN where no frame is. `found["free_energy"].unstack()` is the map of two.
        """
        self._check()
        values = np.stack([np.asarray(self.values(each), float) for each in along], axis=1)
        counted = values[self.weights.order]
        edges = [np.linspace(low, high, bins + 1) for low, high in zip(counted.min(0), counted.max(0), strict=True)]
        energies = self.weights.free_energy(values, edges).reshape(-1, 3)
        names = [each if isinstance(each, str) else f"quantity {i + 1}" for i, each in enumerate(along)]
        index = pandas.MultiIndex.from_product([(each[1:] + each[:-1]) / 2 for each in edges], names=names)
        if len(along) == 1:
            index = index.get_level_values(0)
        return pandas.DataFrame(energies, index, columns=["free_energy", "low", "high"])

    def _warn(self, state: np.ndarray, other: np.ndarray) -> None:
        left, entered = self.weights.passages_apart(state, other)
        if min(left, entered) < (enough := self.weights.enough_passages):
            seen = f"the state was entered {entered} and left {left} times that lie apart, and {enough} are enough"
            warnings.warn(f"few passages: {seen}; the interval may be too narrow", FewPassages, stacklevel=3)

    def _check(self) -> None:
        try:
            self.weights.check()
        except ValueError as error:
            raise BadInput(f"{self.history.directory.path}: {error}; simulate more") from None
        if len(self.weights) < FEW * len(self.table):
            counted = f"{len(self.weights)} of {len(self.table)} frames count: others are controls, or of older models"
            warnings.warn(f"{counted}; the interval knows of these alone", FewPassages, stacklevel=3)
