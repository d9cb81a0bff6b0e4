"""How a segment learns that it is to end, and what its frames and its state may be."""

import re
from itertools import accumulate, pairwise, repeat, takewhile
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from steersman.stages.segment import Segment, look_every_s
from steersman.store import Frames, GroupWriter, Span, StoreError
from steersman.store.errors import BadVariable


def test_a_stop_is_late_by_a_tenth_and_a_long_segment_asks_seldom() -> None:
    """Ten thousand walkers share a server that answers some ten thousand questions a second."""
    asked = list(takewhile(lambda t: t < 300, accumulate(repeat(0.0), lambda t, _: t + look_every_s(t))))
    assert all(later - t <= max(0.05, 0.1 * t) + 1e-9 for t, later in pairwise(asked))
    assert asked[1] == 0.05
    assert len(asked) / 300 < 0.3


def test_a_value_without_a_name_is_told(tmp_path: Path) -> None:
    segment = Segment("w0.0", 0, 1, GroupWriter(tmp_path / "w0"))
    with pytest.raises(BadVariable) as told:
        segment.append(1.0, x=2.0)
    assert told.value.variable == "1.0"
    assert segment.frames == 0


@pytest.mark.parametrize("first", [0.5, np.float16(0.5), np.float32(0.5), 1, np.int8(1), np.uint32(1)])
@pytest.mark.parametrize("later", [[1e7 + 0.25, 2e7 + 1, 2e7 + 2], [2**53 + 1, 2**53 + 2], [2**40, 2**40 + 0.5]])
def test_times_are_stored_as_they_are_or_refused(first: Any, later: list[float], tmp_path: Path) -> None:
    """Whatever the dtype of the first one: in a long segment the next ones may need another."""
    segment = Segment("w0.0", 0, 1, writer := GroupWriter(tmp_path / "w0"))
    given = [first, *later]
    try:
        for time in given:
            segment.append(time=time)
    except StoreError:
        assert not isinstance(first, float) or later[0] == 2**53 + 1
    writer.publish()
    stored = Frames(tmp_path).read("time", Span("w0", 0, segment.frames))
    assert [one.item() == other for one, other in zip(stored, given, strict=False)] == [True] * segment.frames


@pytest.mark.parametrize(
    ("frames", "told"),
    [
        ([{"x": 1.0}, {"y": 1.0}], "'x': some frames have it and others have not"),
        ([{"x": 1.0}, {"x": 1.0, "y": 1.0}], "'y': some frames have it and others have not"),
        ([{"x": 1.0}, {"x": [1.0, 2.0]}], "'x': a row of float64 () was expected"),
        ([{"x": "one"}], "'x': 'one' is no number"),
        ([{"x": None}], "'x': None is no number"),
        ([{"x": np.zeros(0)}], "'x': its shape is (0,), which holds nothing"),
        ([{"x": np.longdouble(1)}], "'x': its dtype is float128"),
        ([{"x": np.ma.masked_array([1.0, 1e20], [False, True])}], "'x': some of its values are masked"),
        ([{"a/b": 1.0}], "'a/b': this name cannot be used for a folder"),
        *(([{name: 1}], f"{name!r}: the engine uses this name") for name in ("segment", "walker", "row")),
        ([{"time": [1.0]}], "'time': it is [1.0]; it must be one number"),
        ([{"time": np.datetime64("2020")}], "'time': it is np.datetime64('2020'); it must be one number"),
        ([{"x": [[1.0], [1.0, 2.0]]}], "'x': [[1.0], [1.0, 2.0]] is no number"),
        ([{"x": np.array([1.0, "a"], object)}], "dtype is object"),
        ([{"x": 2**64}], "'x': 18446744073709551616 is no number of 64 bits"),
        ([{"x": torch.ones(2, dtype=torch.bfloat16)}], "give value.float()"),
        ([{"x": np.clongdouble(1)}], "'x': its dtype is complex256"),
        ([{"time": -1e-9}], "'time': it is -1e-09 after 0"),
        ([{"time": 2.0}, {"time": 2.0}, {"time": 1.0}], "'time': it is 1 after 2"),
    ],
)
def test_a_frame_that_cannot_be_stored_is_told_by_its_variable(
    frames: list[dict[str, Any]], told: str, tmp_path: Path
) -> None:
    """And nothing of it is stored, so that the next segment of the walker goes on."""
    out = Segment("w0.0", 0, 1, GroupWriter(tmp_path / "w0"))
    for frame in frames[:-1]:
        out.append(**frame)
    with pytest.raises(StoreError, match=re.escape(told)):
        out.append(**frames[-1])
    assert out.frames == len(frames) - 1


@pytest.mark.parametrize(
    "state",
    [
        {"rng": {"state": 1}},
        {"rng": "text"},
        {"wide": 2**128},
        {"ragged": [[1], [2, 3]]},
        {"x": np.ma.masked_equal([1, 2], 1)},
    ],
)
def test_a_state_that_cannot_be_stored_is_refused_where_it_is_given(state: dict[str, Any], tmp_path: Path) -> None:
    """Where the segment is closed, it would end its walker."""
    out = Segment("w0.1", 1, 1, GroupWriter(tmp_path / "w0"))
    out.append(x=1.0)
    with pytest.raises(StoreError):
        out.state(**state)
    out.state(velocities=np.ones(3))
    assert set(out.restart) == {"velocities"}


@given(st.integers(0, 2**63 - 1))
def test_a_seed_for_programs_that_take_an_int_is_one_and_a_function_of_the_seed(seed: int) -> None:
    with TemporaryDirectory() as name:
        writer = GroupWriter(Path(name) / "w0")
        first, again = (Segment("w0.0", 0, seed, writer).seed31 for _ in range(2))
    assert first == again
    assert 1 <= first <= 2**31 - 1


def test_a_long_long_of_c_is_an_int64(tmp_path: Path) -> None:
    writer = GroupWriter(tmp_path / "w0")
    out = Segment("w0.0", 0, 1, writer)
    for number in (np.arange(3, dtype=np.longlong), np.arange(3, dtype=np.int64)):
        out.append(x=number, y=np.ulonglong(2**63 + 5), z=2**63)
    writer.publish()
    found = Frames(tmp_path)
    assert found.read("x", Span("w0", 0, 2)).tolist() == [[0, 1, 2]] * 2
    assert found.read("x", Span("w0", 0, 2)).dtype == np.int64
    assert found.read("y", Span("w0", 0, 2)).tolist() == [2**63 + 5] * 2
    assert found.read("z", Span("w0", 0, 2)).tolist() == [2**63] * 2
