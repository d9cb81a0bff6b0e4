"""Space -> table: what `steersman bus RUN` shows, one row a name, and the text of a tuple on one line."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from steersman.bus.space import TupleSpace
from steersman.bus.statistics import Statistics

LONGEST = 60  # characters of one field


@dataclass(frozen=True)
class Row:
    """One name as a colleague wants to see it.

    Attributes:
        last: the newest tuples of any length that are free to be taken, on one line each, the newest first.
    """

    name: str
    statistics: Statistics
    last: tuple[str, ...] = ()

    COLUMNS = (
        "name", "ready", "leased", "blocked takers", "blocked puts", "put/s", "done/s", "put", "done", "oldest s",
        "dead", "damaged",
    )  # fmt: skip

    @property
    def cells(self) -> tuple[str, ...]:
        """The columns as text."""
        s = self.statistics
        counts = (s.ready, s.leases, s.blocked, s.blocked_puts)
        rates = (f"{s.put_per_s:.1f}", f"{s.done_per_s:.1f}")
        return (
            self.name,
            *map(str, counts),
            *rates,
            str(s.put),
            str(s.done),
            f"{s.oldest_s:.1f}",
            str(s.dead),
            str(s.damaged),
        )


def rows(space: TupleSpace, *, last: int = 0) -> list[Row]:
    """All names in use, in alphabetical order. Called again on the same space, rates are those since the last call.

    Args:
        last: how many of the newest tuples to show of each name.
    """
    looked = space.statistics()
    tuples = {name: space.last(name, last) if last else [] for name in looked}
    return [Row(name, looked[name], tuple(map(line, tuples[name]))) for name in sorted(looked)]


def follow(space: TupleSpace, name: str) -> Iterator[str]:
    """Each tuple put under a name from now on, on one line, without taking it; forever."""
    for each in space.follow(name):
        if each is not None:
            yield f"{each.number}  {line(each)}"


def line(fields: tuple[Any, ...]) -> str:
    """A tuple on one line: arrays by dtype and shape, long values cut."""
    return "(" + ", ".join(_brief(value) for value in fields) + ")"


def _brief(value: Any) -> str:
    if isinstance(value, np.ndarray) or hasattr(value, "dtype"):
        return f"<{value.dtype} {tuple(value.shape)}>"
    text = repr(value[:LONGEST] if isinstance(value, bytes | str) else value)
    size = f" ({len(value)})" if isinstance(value, bytes | str | list | dict) else ""
    return text if len(text) <= LONGEST else text[:LONGEST] + "..." + size
