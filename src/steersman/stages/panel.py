"""What a figure or a panel of a workflow file returned -> what report and page show."""

from __future__ import annotations

from typing import Any

import numpy as np

from steersman.stages.errors import BadFigure, BadPanel


def drawn(made: Any) -> tuple[Any, str]:
    """A matplotlib Figure and its caption. Raises: BadFigure: it is none."""
    what, caption = _captioned(made)
    if not callable(getattr(what, "savefig", None)):
        raise BadFigure(f"{made!r:.60}")
    return what, caption


def shown(made: Any) -> tuple[Any, str]:
    """A matplotlib Figure, or an array of (n,) or (n, m) float32, and its caption.

    Raises: BadPanel: it is neither.
    """
    what, caption = _captioned(made)
    if callable(getattr(what, "savefig", None)):
        return what, caption
    try:
        given = np.asarray(what)
        values = np.asarray(given, np.float32)
    except (TypeError, ValueError):
        raise BadPanel(f"{made!r:.60}") from None
    if given.dtype.kind == "c":
        raise BadPanel("complex numbers")
    if values.ndim not in (1, 2):
        raise BadPanel(f"an array of shape {values.shape}")
    return values, caption


def _captioned(made: Any) -> tuple[Any, str]:
    what, caption = made if isinstance(made, tuple) and len(made) == 2 else (made, "")
    return what, str(caption)
