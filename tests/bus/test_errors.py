"""Every error of the bus survives a pickle, and says what, the value, and what to do."""

from __future__ import annotations

import inspect
import pickle
from collections.abc import Iterator

import pytest

import steersman.bus
from steersman.bus import BusError


def classes(root: type[BusError] = BusError) -> Iterator[type[BusError]]:
    for child in root.__subclasses__():
        yield child
        yield from classes(child)


def example(kind: type[BusError]) -> BusError:
    values = {"str": "x", "float": 1.5, "int": 3, "tuple[str, ...]": ("a", "b")}
    parameters = list(inspect.signature(kind).parameters.values())
    return kind(*(values[inspect.formatannotation(parameter.annotation)] for parameter in parameters))


@pytest.mark.parametrize("kind", list(classes()))
def test_an_error_pickles_with_its_parameters_and_its_text(kind: type[BusError]) -> None:
    error = example(kind)
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), again.args, str(again), vars(again)) == (kind, error.args, str(error), vars(error))
    assert str(error) != ""
    assert getattr(steersman.bus, kind.__name__) is kind
