"""An exception that cannot be unpickled kills the result thread of a Parsl executor: every class survives the way."""

import ast
import copy
import importlib
import inspect
import pickle
import pkgutil
import re
from collections.abc import Callable, Collection
from dataclasses import fields, is_dataclass
from pathlib import Path
from string import Formatter
from typing import Any, get_type_hints

import pytest

from steersman.system.errors import EngineError, MissingExtra
from tests.test_layout import ROOMS

EXAMPLES: dict[object, Any] = {
    str: "text", float | str: "text", Any: 1, object: 1,
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
    """An example for every field, by its type; of a general class a text with values."""
    if not is_dataclass(kind):
        return {"text": "{path} has {rows} rows", "path": "a{0}", "rows": 3}
    hints = get_type_hints(kind)
    return {field.name: EXAMPLES[hints[field.name]] for field in fields(kind)}


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
        if not is_dataclass(kind):
            continue
        given = values(kind)
        error = kind(*given.values())
        assert (vars(error), str(error)) == (given, str(kind(**given)))
        assert (
            repr(error) == f"{type(error).__name__}({', '.join(f'{name}={value!r}' for name, value in given.items())})"
        )
        with pytest.raises(TypeError):
            kind(*given.values(), "one more")
        with pytest.raises(TypeError):
            kind(**(given | {"unknown": 1}))


def test_a_text_names_each_of_its_values_and_no_other() -> None:
    """A text that has its values already is not read as a template again: a user's braces stand in it."""
    assert str(EngineError("{path}: {rows:g} rows", path="a{0}", rows=3.0)) == "a{0}: 3 rows"
    assert str(EngineError("a{0}")) == "a{0}"
    general = {"EngineError", "BadInput", "DamagedFile", "StoreError", "BusError"}
    calls = 0
    for path in (path for room in ROOMS for path in Path("src/steersman", room).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in general and node.keywords:
                text = ast.literal_eval(*node.args)  # no f-string
                named = {re.split(r"\W", name)[0] for _, name, *_ in Formatter().parse(text) if name}
                assert named == {keyword.arg for keyword in node.keywords}, f"{path}:{node.lineno}"
                calls += 1
    assert calls
