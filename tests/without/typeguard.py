"""Stands before typeguard on the path of what tests start.

With it Parsl rewrites its own functions wherever it is imported, half of that import's processor time in each of a
campaign's nine processes. The tests' own process has the real one.
"""

from typing import TypeVar

T = TypeVar("T")


class TypeCheckError(Exception):
    """What Parsl names; nothing raises it here."""


def typechecked(target: T) -> T:
    """Leave it as it is."""
    return target
