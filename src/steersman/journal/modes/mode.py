"""A way of running -> what it adds to a run: to its state, its starts, its scores, and to what is said of them.

A run has all modes at once. One that does not apply to it adds nothing, so nobody needs to ask which do: the state, the
bag of starts, the scoreboard, `why`, `replay` and `verify` go over all of them and name none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, Protocol, TypeVar

import numpy as np

from steersman.journal.records import Ended, Record, Run, Start, Tell
from steersman.journal.run_directory import RunDirectory
from steersman.journal.trainings import Trainings
from steersman.journal.walkers import Walker
from steersman.steering import Scores, Steering
from steersman.store.names import SegmentName

Check = tuple[str, str, int, Iterator[str]]  # what, where, version, and what is wrong with it


M = TypeVar("M", bound="Mode")


class Known(Protocol):
    """What modes read of a run's state."""

    run: Run
    walkers: dict[int, Walker]
    unsound: set[tuple[str, int]]
    last_cause: str
    known_labels: int

    @property
    def slots(self) -> int: ...

    @property
    def models(self) -> Trainings: ...

    def mode(self, kind: type[M]) -> M: ...


class Remaking:
    """Makes again what a mode made during a run, as a replay passes by, and counts what is as it was recorded."""

    kind: ClassVar[type[Record]]

    def take(self, record: Any, scores: Scores) -> None:
        """A record of `kind`, and the scores that the engine knew."""
        raise NotImplementedError

    def as_plain(self) -> dict[str, int]:
        raise NotImplementedError


class Mode:
    """See above. Every method has a default that adds nothing.

    Args:
        state: that this is a part of.
    """

    def __init__(self, state: Known) -> None:
        self.state = state

    @property
    def takes(self) -> Mapping[type[Record], Callable[[Any], None]]:
        """Kinds of records that it alone understands, and what takes them in."""
        return {}

    def chosen(self, start: Start) -> None:
        """Take in the record of a start."""

    def ended(self, record: Ended) -> None:
        """Take in the record of the end of a segment."""

    def told(self, record: Tell) -> None:
        """Take in what a person said."""

    @property
    def weighs(self) -> bool:
        """Whether frames of this run count by weights."""
        return False

    def columns(self, starts: np.ndarray) -> dict[str, np.ndarray]:
        """Columns of `Scores` for frames of segments with these starts, (n,) int, -1: nobody knows."""
        return {}

    def of_segments(self, starts: np.ndarray, given: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Columns of the table of segments, by their starts and what these were given, see `Given`."""
        return {}

    def learned(self, start: Start) -> dict[str, Any]:
        """Fields of `Start`: which versions of what was learned a start is given."""
        return {}

    @staticmethod
    def loaded(run: str, start: Start) -> dict[str, Any]:
        """Fields of `stages.start.Start`: the same, as a simulation in a walker gets it."""
        return {}

    def first_share(self, start: Start, steering: Steering) -> float:
        """Field `share` of a start that was just chosen, if this mode says it."""
        return 1.0

    def softer(self, start: Start) -> tuple[Start, str]:
        """A start that failed, as it is tried again, and what is noted of that."""
        return start, ""

    def files(self, directory: RunDirectory) -> Iterator[Check]:
        """What `verify` looks at."""
        yield from ()

    @property
    def in_use(self) -> dict[str, int]:
        """Versions in use of what it learns, by name; 0: there is none yet."""
        return {}

    @property
    def counts(self) -> dict[str, dict[str, int]]:
        """What it counts, by the word for it, and by how these stand."""
        return {}

    def explained(self, segment: SegmentName, frame: int | None) -> dict[str, Any]:
        """What `why` says of a segment, or of one of its frames."""
        return {}

    @staticmethod
    def explained_lines(found: Mapping[str, Any]) -> list[str]:
        """The same for a terminal, of all that `why` says."""
        return []

    def traced(self, starts: list[Start]) -> dict[str, Any]:
        """What `why --tree` says of a lineage with these starts."""
        return {}

    @staticmethod
    def traced_lines(found: Mapping[str, Any]) -> list[str]:
        """The same for a terminal, of all that `why --tree` says."""
        return []

    def remaking(self, steering: Steering) -> Remaking | None:
        """What makes its work again in a replay of a run that steers so."""
        return None
