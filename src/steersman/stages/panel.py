"""What a figure or a panel of a workflow file returned -> what report and page show."""

from __future__ import annotations

from typing import Any

import numpy as np

from steersman.system.errors import BadInput


def drawn(returned: Any) -> tuple[Any, str]:
    """A matplotlib Figure and its caption. Raises: BadInput: it is none."""
    what, caption = _captioned(returned)
    if not callable(getattr(what, "savefig", None)):
        raise BadInput(
            f"it returned {returned!r:.60}; a figure function returns a Figure, alone or with a caption, or None"
        )
    return what, caption


def shown(returned: Any) -> tuple[Any, str]:
    """A matplotlib Figure, or an array of (n,) or (n, m) float32, and its caption.

    Raises: BadInput: it is neither.
    """
    what, caption = _captioned(returned)
    if callable(getattr(what, "savefig", None)):
        return what, caption
    try:
        given = np.asarray(what)
        values = np.asarray(given, np.float32)
    except (TypeError, ValueError):
        raise _bad_panel(f"{returned!r:.60}") from None
    if given.dtype.kind == "c":
        raise _bad_panel("complex numbers")
    if values.ndim not in (1, 2):
        raise _bad_panel(f"an array of shape {values.shape}")
    return values, caption


def _bad_panel(returned: str) -> BadInput:
    return BadInput(
        f"it returned {returned}; a panel returns a matplotlib Figure or an array of shape (n,) or (n, m), alone or "
        "with a caption, or None"
    )


def _captioned(returned: Any) -> tuple[Any, str]:
    what, caption = returned if isinstance(returned, tuple) and len(returned) == 2 else (returned, "")
    return what, str(caption)
