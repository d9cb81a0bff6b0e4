"""A workflow file of a comparison -> its folder, once."""

from __future__ import annotations

from pathlib import Path

from steersman.system.errors import BadValue


def write_once(file: Path, text: str) -> None:
    """A comparison that goes on runs what it began with.

    Raises: BadValue: the folder holds another comparison.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    if file.exists() and file.read_text() != text:
        raise BadValue("--out", str(file.parent), f"{file.name} was made of another workflow or budget; take another")
    file.write_text(text)
