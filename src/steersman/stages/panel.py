"""What a panel of a workflow file returned -> what the page shows."""

from __future__ import annotations

from typing import Any

import numpy as np

from steersman.stages.errors import BadPanel


def shown(made: Any) -> tuple[Any, str]:
    """A matplotlib Figure, or an array of (n,) or (n, m) float32, and its caption.

    Raises: BadPanel: it is neither.
    """
    what, caption = made if isinstance(made, tuple) and len(made) == 2 else (made, "")
    if callable(getattr(what, "savefig", None)):
        return what, str(caption)
    try:
        given = np.asarray(what)
        values = np.asarray(given, np.float32)
    except (TypeError, ValueError):
        raise BadPanel(f"{made!r:.60}") from None
    if given.dtype.kind == "c":
        raise BadPanel("complex numbers")
    if values.ndim not in (1, 2):
        raise BadPanel(f"an array of shape {values.shape}")
    return values, str(caption)
