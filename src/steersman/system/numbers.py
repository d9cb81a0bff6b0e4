"""Numbers and truth values that somebody wrote as arguments, checked where they are written."""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Integral, Real

import numpy as np


def whole(where: str, least: int = 1, **given: int) -> None:
    """Raises: ValueError: one of these is no whole number, or a smaller one."""
    for name, value in given.items():
        if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
            raise ValueError(f"{where}({name}={value!r:.60}): give a whole number of {least} or more")


def above_zero(where: str, **given: float) -> None:
    """Raises: ValueError: one of these is no number, or 0 or less."""
    for name, value in given.items():
        if isinstance(value, bool) or not isinstance(value, Real) or not float(value) > 0:
            raise ValueError(f"{where}({name}={value!r:.60}): give a number above 0")


def share(where: str, **given: float) -> None:
    """Raises: ValueError: one of these is no number from 0 to 1."""
    for name, value in given.items():
        if isinstance(value, bool) or not isinstance(value, Real) or not 0 <= float(value) <= 1:
            raise ValueError(f"{where}({name}={value!r:.60}): a share is a number from 0 to 1")


def boolean(where: str, **given: bool) -> None:
    """Raises: ValueError: one of these is neither True nor False; a text that says "no" would be taken for True."""
    for name, value in given.items():
        if not isinstance(value, bool | np.bool_):
            raise ValueError(f"{where}({name}={value!r:.60}): give True or False")


def finite(where: str, **given: float | Sequence[float]) -> None:
    """Raises: ValueError: one of these is no finite number, or holds what is none."""
    for name, value in given.items():
        for each in np.atleast_1d(np.asarray(value, object)).ravel():
            if isinstance(each, bool) or not isinstance(each, Real) or not math.isfinite(each):
                raise ValueError(f"{where}({name}={value!r:.60}): give finite numbers")
