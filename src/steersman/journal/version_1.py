"""A record of a journal of version 1 (Steersman 0.1) -> a record of today."""

from __future__ import annotations

import json
from typing import Any

from steersman.journal.records import Record, checked


def decode(text: bytes) -> Record:
    """Read one whole record. Raises: BadRecord: it fits no kind of today."""
    fields: dict[str, Any] = json.loads(text)
    kind = fields.pop("kind")
    if kind == "told":
        kind = "tell"
    elif kind == "frames":
        fields.pop("simulated", None)  # of all its segments then, of the one that runs now
    elif kind == "damaged":
        fields.setdefault("reason", "")
    known = {key: value for key, value in fields.items() if value is not None}
    return checked(kind, known)
