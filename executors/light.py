"""Parsl's programs, without what its packages import for others: every executor, the Globus SDK, SQLAlchemy.

That is a second of processor time in each of a run's processes, which need none of it.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from types import ModuleType
from typing import Any

PACKAGES = "parsl", "parsl.app", "parsl.executors", "parsl.executors.high_throughput", "parsl.monitoring"


class Hollow(ModuleType):
    """A package that is not executed before it is asked for a name that is none of its modules."""

    def __getattr__(self, name: str) -> Any:
        module = f"{self.__name__}.{name}"
        if module in sys.modules or importlib.util.find_spec(module):
            return importlib.import_module(module)
        fill(self)
        return getattr(self, name)


class Filler:
    """A finder of modules that fills the packages when one of Parsl's modules is imported that was not there."""

    def find_spec(self, name: str, *_: object) -> None:
        if name.startswith("parsl."):
            sys.meta_path.remove(self)
            for package in PACKAGES:
                fill(sys.modules[package])


def hollow() -> None:
    """Let only those modules of Parsl be imported that are asked for, unless it is imported already."""
    if "parsl" in sys.modules:
        return
    for name in PACKAGES:
        spec = importlib.util.find_spec(name)
        assert spec is not None
        sys.modules[name] = package = importlib.util.module_from_spec(spec)
        package.__class__ = Hollow
        parent, _, last = name.rpartition(".")
        if parent:
            setattr(sys.modules[parent], last, package)


def fill(package: ModuleType) -> None:
    """Execute a package that is hollow yet."""
    if isinstance(package, Hollow):
        package.__class__ = ModuleType  # type: ignore[assignment]  # from now on it is as any other
        assert package.__spec__ is not None
        assert package.__spec__.loader is not None
        package.__spec__.loader.exec_module(package)


def fill_when_needed() -> None:
    """From now on, let user code that imports Parsl find it whole."""
    sys.meta_path.insert(0, Filler())
