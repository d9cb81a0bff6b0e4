"""Names of walkers, segments and frames: as they are printed everywhere, and as `why` and `tell` take them."""

from __future__ import annotations

import re
from typing import NamedTuple

_NAME = re.compile(r"w?([0-9]{1,12})\.([0-9]{1,12})(?::([0-9]{1,12}))?")


def walker_name(number: int) -> str:
    """Of its frames in the store: w3. `number_of` gives the number back."""
    return f"w{number}"


class SegmentName(NamedTuple):
    """w3.17 is segment 17 of walker 3."""

    walker: int
    number: int

    def __str__(self) -> str:
        return f"w{self.walker}.{self.number}"

    @classmethod
    def parse(cls, text: str) -> SegmentName | None:
        """Of a name, with or without its w, or of that of one of its frames; None: it is none."""
        match = _NAME.fullmatch(text)
        return cls(int(match[1]), int(match[2])) if match else None


class FrameName(NamedTuple):
    """w3.17:4 is the fifth frame of its segment."""

    segment: SegmentName
    frame: int

    def __str__(self) -> str:
        return f"{self.segment}:{self.frame}"

    @classmethod
    def parse(cls, text: str) -> FrameName | None:
        """None: it is no name of a frame."""
        match = _NAME.fullmatch(text)
        return cls(SegmentName(int(match[1]), int(match[2])), int(match[3])) if match and match[3] else None
