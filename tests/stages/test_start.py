"""What a segment begins from."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from steersman import Start
from steersman.stages.start import WatchedMapping
from steersman.system.errors import BadValue, UnknownName


def test_a_point_is_the_drawn_one_or_a_random_one_of_the_seed() -> None:
    drawn = Start(draw={"point": np.array([0.25, 1.0])}).point(2, seed=1)
    np.testing.assert_array_equal(drawn, [0.25, 1.0])
    np.testing.assert_array_equal(Start().point(2, seed=1), Start().point(2, seed=1))
    assert Start().point(3, seed=1).shape == (3,)
    own = np.random.default_rng(1)  # of the simulation, which has the same seed
    assert not np.isin(Start().point(3, seed=1), [own.random(100), np.random.default_rng((1, 1)).random(100)]).any()


@pytest.mark.parametrize(
    "draw",
    [
        {"point": np.array([0.5, 0.5])},  # of another number of dimensions
        {"point": np.array(0.5)},
        {"point": np.array([0.5, -1.2, 0.5])},  # normal numbers, as of Importance
        {"depth": np.array(0.5)},  # of a generator's VOCS
    ],
)
def test_what_is_no_point_of_so_many_dimensions_is_refused(draw: dict[str, np.ndarray]) -> None:
    with pytest.raises(BadValue):
        Start(draw=draw).point(3, seed=1)


def test_a_default_is_for_the_prepared_start_and_not_for_a_name_that_frames_do_not_have() -> None:
    """A segment would begin at the prepared start for ever, without a word. Not all states have the same names."""
    assert Start().frame.get("x", 1.0) == 1.0
    start = Start(frame={"pos": np.zeros(2)}, state={"x": 1.0})
    for frame in (start.frame, pickle.loads(pickle.dumps(start.frame))):
        np.testing.assert_array_equal(frame.get("pos", 1.0), [0, 0])
        with pytest.raises(UnknownName):
            frame.get("x", 1.0)
        assert "x" not in frame
    assert start.state.get("v", 2.0) == 2.0


def test_a_stored_frame_is_not_changed_in_place() -> None:
    frame = WatchedMapping({"x": np.zeros(2)})
    with pytest.raises(TypeError):
        frame["x"] = np.ones(2)
    assert dict(frame)["x"].tolist() == [0, 0]
