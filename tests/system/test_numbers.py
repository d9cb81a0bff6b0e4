"""A number that is none is refused where it is written, by the argument's name."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from steersman.steering import Importance, Opes, Target, WeightedEnsemble


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: Opes("z", barrier_kT="5"), "barrier_kT"),  # type: ignore[arg-type]
        (lambda: Opes("z", barrier_kT=np.nan), "barrier_kT"),
        (lambda: Opes("z", barrier_kT=5, lost=np.nan), "lost"),
        (lambda: Opes("z", barrier_kT=5, width=(0.1, None)), "width"),  # type: ignore[arg-type]
        (lambda: Opes("z", barrier_kT=5, controls="1"), "controls"),  # type: ignore[arg-type]
        (lambda: Importance("storm", threshold="high", dimensions=3), "threshold"),  # type: ignore[arg-type]
        (lambda: Target("x", "1"), "reference"),  # type: ignore[arg-type]
        (lambda: Target("x", (1.0, np.nan)), "reference"),
        (lambda: WeightedEnsemble("x", ("a",)), "edges"),  # type: ignore[arg-type]
    ],
)
def test_what_is_no_number_is_refused_by_its_name(make: Callable[[], object], name: str) -> None:
    with pytest.raises(ValueError, match=name):
        make()


@pytest.mark.parametrize("reference", [1, 1.0, np.float32(1), (1.0, 2), np.array([1.0, 2.0])])
def test_numbers_of_all_kinds_are_taken(reference: float) -> None:
    assert Target("x", reference).reference is reference
