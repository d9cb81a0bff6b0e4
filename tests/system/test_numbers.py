"""What is not as its annotation says is refused where it is written, by the names of class and argument."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest

from steersman.steering import (
    Hopeless,
    Importance,
    LatinHypercube,
    Opes,
    Redundant,
    Steering,
    Target,
    Unsure,
    WeightedEnsemble,
    plateau,
    reached,
)  # fmt: skip
from steersman.system.errors import BadValue
from steersman.system.numbers import Whole, check
from tests.steering.examples import POLICIES, RANKING

RULES = [
    *POLICIES[: len(RANKING)], Hopeless("x"), Importance("x", 1.0, 2), LatinHypercube(2, 3), Opes("z", 5.0),
    Redundant("z"), Steering(), Unsure("x", 2), WeightedEnsemble("x"), plateau("q"), reached("q", 1),
]  # fmt: skip


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: type(rule).__name__)
def test_an_object_that_is_no_value_is_refused_in_every_field(rule: Any) -> None:
    for field in fields(rule):
        with pytest.raises(BadValue) as refused:
            replace(rule, **{field.name: object()})
        assert refused.value.name == f"{type(rule).__name__}({field.name})"


def test_words_are_no_truth_and_truth_is_no_number() -> None:
    """A text that says "no" would be taken for True."""
    with pytest.raises(BadValue):
        Opes("z", barrier_kT=5, exploring="no")  # type: ignore[arg-type]
    with pytest.raises(BadValue):
        check("f", Whole, count=True)


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
