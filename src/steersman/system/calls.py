"""A function that a user wrote -> what it gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from steersman.system.errors import EngineError

R = TypeVar("R")
P = ParamSpec("P")


def called(function: Callable[P, R], *args: P.args, **options: P.kwargs) -> R:
    """Call it. Raises: EngineError: it calls sys.exit(), which would end this process, with no cause left."""
    try:
        return function(*args, **options)
    except SystemExit as ended:
        raise EngineError(
            "it called sys.exit({code!r}); a stage must return, or raise an exception", code=ended.code
        ) from ended
