"""Segments that one call of a simulate function makes together: what each appends waits until all are through.

A cheap solver takes several starts at once, for much less than one after another. A walker's group has the rows of one
segment after those of another, so they are written when the call returns.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from steersman.stages.segment import Enough, Segment
from steersman.store import FRAME, BadVariable, GroupWriter


class Waiting:
    """A group as one of these segments sees it: its rows are kept, and written by `pour`."""

    def __init__(self, group: GroupWriter) -> None:
        self._group, self._blocks, self.rows = group, list[dict[str, np.ndarray]](), dict(group.rows)
        self.missing = group.missing

    def names(self, dimension: str) -> set[str]:
        return self._group.names(dimension) or {name for blocks in self._blocks[:1] for name in blocks}

    def check(self, dimension: str, blocks: Mapping[str, np.ndarray]) -> None:
        self._group.check(dimension, blocks)

    def extend(self, dimension: str, blocks: Mapping[str, np.ndarray]) -> None:
        self._group.check(dimension, blocks)
        self._blocks.append({name: np.array(values) for name, values in blocks.items()})

    def pour(self) -> None:
        """Write the rows. Raises: BadVariable: they are not like those that were written meanwhile."""
        for blocks in self._blocks:
            self._group.extend(FRAME, blocks)


class OfBatch(Segment):
    """One of several segments: what is wrong with it ends no other."""

    error: BaseException | None = None
    _over = False

    def append(self, *unnamed: Any, **variables: Any) -> None:
        """Append one frame, see `Segment.append`; nothing once it has failed."""
        try:
            if self.error is None and not self._over:
                super().append(*unnamed, **variables)
        except BadVariable as error:
            self.fail(error)
        except Enough:
            self._over = True

    def state(self, **variables: Any) -> None:
        """Keep a state, see `Segment.state`; nothing once its frames are stored no more."""
        if not self._over:
            super().state(**variables)

    def fail(self, error: Exception) -> None:
        """It has failed, for this reason; the others go on."""
        self.error = self.error or error
