"""History -> columns of a table, as plain values: for pandas and for the page alike."""

from __future__ import annotations

from typing import Any

from steersman.data.history import History

JUDGED = ("held_out", "predecessor")  # what the gate looked at, of a model and of the one before
FLOATS = ("epochs", "seconds", "loss", *JUDGED)


def models(history: History) -> dict[str, list[Any]]:
    """Every training: `model` is the version, `began` in seconds since 1970; None while it goes on."""
    of = history.state.models
    return {
        "model": [each.version for each in of],
        "began": [each.at for each in of],
        "accepted": [each.accepted for each in of],
        "reason": [each.reason for each in of],
        **{name: [getattr(each.fit, name, None) for each in of] for name in ("frames", "ranks", *FLOATS)},
    }
