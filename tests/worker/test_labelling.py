"""Answers of a label function: what can be kept, and what is refused."""

from typing import Any

import numpy as np
import pytest

from steersman.system.errors import BadValue
from steersman.worker.labelling import checked


@pytest.mark.parametrize(
    "answer",
    [
        None,
        3.0,
        {},
        {"y": np.nan},
        {"y": [1.0, np.inf]},
        {"y": "text"},
        {"y": np.ma.masked_equal([1, 2], 2)},
        {"y": {}},
    ],
    ids=["nothing", "a number", "no names", "NaN", "infinity", "text", "masked", "an object"],
)
def test_what_is_no_answer_is_refused(answer: Any) -> None:
    with pytest.raises(BadValue):
        checked(answer)


def test_numbers_of_any_shape_are_kept_as_they_are() -> None:
    kept = checked({"energy": 1.5, "forces": np.ones((3, 3), np.float32), "well": True})
    assert {name: (each.dtype.kind, each.shape) for name, each in kept.items()} == {
        "energy": ("f", ()), "forces": ("f", (3, 3)), "well": ("b", ()),
    }  # fmt: skip
