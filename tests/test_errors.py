"""An exception that cannot be unpickled kills the result thread of a Parsl executor: every class survives the way."""

import copy
import importlib
import inspect
import pickle
import pkgutil
from collections.abc import Callable, Collection
from dataclasses import fields
from typing import Any, get_type_hints

import pytest

from steersman.system.errors import EngineError, MissingExtra
from tests.test_layout import ROOMS

EXAMPLES: dict[object, Any] = {
    str: "text", float | str: "text", Any: 1,
    int: 3, float: 2.5, bytes: b"bytes", tuple[str, ...]: ("one", "two"), Collection[str]: ("one", "two"),
    tuple[int, ...]: (1, 2), tuple[float, ...]: (0.5,),
}  # fmt: skip
COPIES: dict[str, Callable[[EngineError], EngineError]] = {
    "pickle": lambda error: pickle.loads(pickle.dumps(error)),
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
}


def error_classes() -> list[type[EngineError]]:
    """Every class of exception that a file of ours defines, but warnings."""
    found: set[Any] = set()
    for room in set(ROOMS) - {"benchmarks", "cli"}:
        package = importlib.import_module(f"steersman.{room}")
        for info in pkgutil.walk_packages(package.__path__, f"{package.__name__}.", onerror=lambda _: None):
            if info.name == "steersman.apps.cosmology.particle_mesh":  # to import it starts JAX in this process
                continue
            try:
                module = importlib.import_module(info.name)
            except MissingExtra:  # as where the lowest versions are tested
                continue
            for value in vars(module).values():
                if inspect.isclass(value) and issubclass(value, Exception) and value.__module__ == info.name:
                    found.add(value)
    assert len(found) > 50
    found = {kind for kind in found if not issubclass(kind, Warning)}
    return sorted(found - {EngineError}, key=lambda kind: f"{kind.__module__}.{kind.__name__}")


def values(kind: type[EngineError]) -> dict[str, Any]:
    """An example for every field, by its type."""
    hints = get_type_hints(kind)
    return {field.name: EXAMPLES[hints[field.name]] for field in fields(kind)}  # type: ignore[arg-type]


@pytest.mark.parametrize("how", COPIES)
def test_every_error_survives_the_way_with_its_values_its_message_and_its_note(how: str) -> None:
    for kind in error_classes():
        error = kind(**values(kind))
        error.add_note("in segment w0.3")
        again = COPIES[how](error)
        assert (type(again), vars(again), again.args) == (kind, vars(error), error.args)
        assert (str(again), repr(again), again.__notes__) == (str(error), repr(error), ["in segment w0.3"])


def test_values_in_order_and_by_name_make_the_same_error_and_others_are_refused() -> None:
    for kind in error_classes():
        given = values(kind)
        error = kind(*given.values())
        assert (vars(error), str(error)) == (given, str(kind(**given)))
        assert repr(error) == f"{kind.__name__}({', '.join(f'{name}={value!r}' for name, value in given.items())})"
        with pytest.raises(TypeError):
            kind(*given.values(), "one more")
        with pytest.raises(TypeError):
            kind(**(given | {"unknown": 1}))
