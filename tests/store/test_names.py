"""A name that is printed is one that is taken, and nothing else is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steersman.store import number_of
from steersman.store.names import FrameName, SegmentName, walker_name

NUMBERS = st.integers(0, 10**12 - 1)


@given(NUMBERS, NUMBERS, NUMBERS)
def test_names_are_read_as_they_are_printed(walker: int, number: int, frame: int) -> None:
    segment = SegmentName(walker, number)
    of_frame = FrameName(segment, frame)
    assert SegmentName.parse(str(segment)) == SegmentName.parse(str(segment)[1:]) == segment, "the w may be left out"
    assert SegmentName.parse(str(of_frame)) == segment, "that of a frame names its segment, too"
    assert (FrameName.parse(str(of_frame)), FrameName.parse(str(segment))) == (of_frame, None)
    assert str(segment).partition(".")[0] == walker_name(walker)
    assert number_of(walker_name(walker)) == walker


@pytest.mark.parametrize(
    "text", ["", "w", "w1", "w1.", "w.1", "w1.2:", "W1.2", "w1.2 ", "w-1.2", "w1.2:-3", "w1.٣", "w" + "1" * 13 + ".2"]
)
def test_what_is_no_name_is_none(text: str) -> None:
    assert SegmentName.parse(text) is None
    assert FrameName.parse(text) is None
