"""Policies -> the same campaign with each of them, several times -> which one pays."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any


class _Room(ModuleType):
    """`steersman.compare(...)` is a call, and `steersman.compare.arms` a file: this room has the name of its call."""

    def __call__(self, *args: Any, **options: Any) -> Any:
        from steersman.compare import calls

        return calls.compare(*args, **options)


sys.modules[__name__].__class__ = _Room
