"""A workflow file of a comparison, and the modules that it imports -> its folder, once."""

from __future__ import annotations

from pathlib import Path

from steersman.stages.modules import imported
from steersman.system.errors import BadValue


def write_variant(file: Path, content: bytes, source: Path) -> None:
    """Write a variant of a workflow file, and beside it what the file imports from its own folder.

    Raises: BadValue: the folder holds another comparison.
    """
    for module in sorted(imported(source)):
        write_once(file.parent / module.relative_to(source.parent), module.read_bytes())
    write_once(file, content)


def write_once(file: Path, content: bytes) -> None:
    """A comparison that goes on runs what it began with.

    Raises: BadValue: the folder holds another comparison.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    if file.exists() and file.read_bytes() != content:
        words = f"its {file.name} is of a comparison with another workflow, budget or settings; take another folder"
        raise BadValue("--out", str(file.parent), words)
    file.write_bytes(content)
