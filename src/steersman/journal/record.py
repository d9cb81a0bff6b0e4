"""What all records of a journal have, and the types of their fields."""

from __future__ import annotations

from typing import Annotated, ClassVar, NamedTuple

from msgspec import Meta, Struct

from steersman.store.names import SegmentName, walker_name

Number = Annotated[int, Meta(ge=0, lt=2**40)]
Amount = Annotated[float, Meta(ge=0, lt=1e15)]  # of time; neither infinite nor NaN
Text = Annotated[str, Meta(max_length=2**14)]
Name = Annotated[str, Meta(max_length=256)]


class FrameId(NamedTuple):
    """A stored frame: its walker, its row in the walker's group, and the segment that made it."""

    walker: Number
    row: Number
    segment: Number

    def __str__(self) -> str:
        return (
            f"row {self.row} of walker {walker_name(self.walker)}, of segment {SegmentName(self.walker, self.segment)}"
        )


class Record(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind"):
    """What all records have."""

    format: ClassVar[int] = 2  # the oldest version of the journal that has such records

    t: float = 0.0  # when it was written, seconds since 1970
    more: Number = 0  # how many records follow that belong to this one: all of them survive a crash, or none

    @property
    def kind(self) -> str:
        return str(self.__struct_config__.tag)
