"""A simulate function called by hand -> its frames: the `out` of a test, checked and stored as in a run."""

from __future__ import annotations

import shutil
import tempfile
import time
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from steersman.stages.segment import Enough, Segment
from steersman.store import Frames, GroupWriter, Span, Variable, Window

MOST_FRAMES, MOST_S = 25, 10.0
MOST_BYTES = 2**28  # of its frames, which are in memory here


class Out(Segment):
    """One segment without an engine, in the real store, in a folder that goes with this object.

    Args:
        seed: 63-bit seed, the segment's `out.seed`.
        frames: after so many frames, or `seconds`, or two frames and MOST_BYTES, `stopped` is true; after twice that
            `append` ends the segment, but never before its first frame.
        after: the segment before it, whose frames have the same names, shapes and dtypes; None for the first one.
        variables: meaning of the stored variables, as `@wf.simulate(variables=...)` has it.
    """

    def __init__(
        self,
        seed: int = 0,
        *,
        frames: int = MOST_FRAMES,
        seconds: float = MOST_S,
        after: Out | None = None,
        variables: Mapping[str, Variable] | None = None,
    ) -> None:
        self._stored: Frames = after._stored if after else _temporary()
        self._group: GroupWriter = after._group if after else GroupWriter(self._stored.path / "w0", variables=variables)
        self._most, self._seconds, self._since, self._bytes = frames, seconds, time.monotonic(), 0
        number = after.number + 1 if after else 0
        super().__init__(f"w0.{number}", number, seed, self._group)

    @property
    def stopped(self) -> bool:
        """Whether this segment is to end."""
        self.was_stopped = self._reached(1)
        return self.was_stopped

    @property
    def outdated(self) -> bool:
        """Whether this segment may end, for a newer model: with `stopped`."""
        return self._reached(1)

    def append(self, *unnamed: Any, **variables: Any) -> None:
        """Append one frame, see `Segment.append`. Raises: Enough: the segment does not look at `stopped`."""
        if self.frames and self._reached(2):  # the first may come late, after imports and compilations
            raise Enough
        super().append(*unnamed, **variables)
        self._bytes += sum(np.asarray(value).nbytes for value in variables.values())

    @property
    def stored(self) -> Window:
        """Its frames so far, as a train or score function gets them. Raises: StoreError: there are none."""
        self._group.publish()
        return Window(self._stored, [Span("w0", self.first_row, self.first_row + self.frames)])

    def frame(self, number: int = -1) -> dict[str, np.ndarray]:
        """One of its frames, by default the last, as `start.frame` of a segment that begins there.

        Raises: StoreError: there is none of this number.
        """
        self._group.publish()
        row = number + self.frames if number < 0 else number
        return dict(self._stored.row("w0", self.first_row + row))

    def _reached(self, times: int) -> bool:
        large = self.frames > 1 and self._bytes >= times * MOST_BYTES
        return self.frames >= times * self._most or time.monotonic() - self._since >= times * self._seconds or large


def _temporary() -> Frames:
    """Frames in a folder that goes with them."""
    frames = Frames(Path(tempfile.mkdtemp(prefix="steersman-out-")))
    weakref.finalize(frames, shutil.rmtree, frames.path, ignore_errors=True)
    return frames
