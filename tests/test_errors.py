"""An exception that cannot be unpickled kills the result thread of a Parsl executor: every class survives the way."""

import importlib
import inspect
import pickle
import pkgutil
import re

import pytest

import steersman

ROOMS = (
    "apps",
    "bus",
    "dashboard",
    "engine",
    "executors",
    "journal",
    "models",
    "stages",
    "steering",
    "store",
    "system",
    "worker",
)
EXAMPLES = {"str": "text", "int": 3, "float": 2.5, "bool": True}


def error_classes() -> list[type[Exception]]:
    found: dict[str, type[Exception]] = {}
    for room in ROOMS:
        package = importlib.import_module(f"steersman.{room}")
        for info in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            for value in vars(importlib.import_module(info.name)).values():
                if (
                    inspect.isclass(value)
                    and issubclass(value, Exception)
                    and value.__module__.startswith("steersman.")
                ):
                    found[f"{value.__module__}.{value.__qualname__}"] = value
    assert len(found) > 20, steersman
    return [found[name] for name in sorted(found)]


@pytest.mark.parametrize("kind", error_classes(), ids=lambda kind: kind.__name__)
def test_an_error_survives_pickling_with_its_message(kind: type[Exception]) -> None:
    error = kind(*arguments(kind))
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is kind
    assert str(copy) == str(error)
    assert vars(copy) == vars(error)


def arguments(kind: type[Exception]) -> list[object]:
    """An example for every argument, by its annotation."""
    if kind.__init__ in (Exception.__init__, ValueError.__init__) or "__init__" not in _own(kind):
        return ["text"]
    parameters = list(inspect.signature(kind.__init__).parameters.values())[1:]
    return [
        _example(inspect.formatannotation(parameter.annotation).strip("'"))
        for parameter in parameters
        if parameter.kind != parameter.VAR_KEYWORD
    ]


def _own(kind: type[Exception]) -> set[str]:
    return {name for each in kind.__mro__ if each.__module__.startswith("steersman.") for name in vars(each)}


def _example(annotation: str) -> object:
    for name, example in EXAMPLES.items():
        if re.fullmatch(rf"{name}( \| None)?", annotation):
            return example
    if annotation.startswith(("tuple", "Collection", "Sequence", "list", "Iterable")):
        return ("one", "two")
    return "text"
