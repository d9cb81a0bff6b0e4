"""A workflow file of a comparison, and the modules that it imports -> its folder, once."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from steersman.stages.modules import beside
from steersman.system.errors import BadValue, EngineError


@contextlib.contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Have a folder, which is made, to this process. Raises: EngineError, BadValue: another has it, or it is a run."""
    if (folder / "journal.jsonl").exists():
        raise BadValue("--out", str(folder), "this is a run directory; take another folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise BadValue("--out", str(folder), "there is a file in its place; take another folder") from None
    with open(os.open(folder / ".lock", os.O_WRONLY | os.O_CREAT, 0o600), "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise EngineError(
                f"{folder} is in use by another `steersman compare` or `tune`; wait for it, or take another --out"
            ) from None
        except OSError:  # a file system without locks
            pass
        yield


def write_variant(file: Path, content: bytes, source: Path) -> None:
    """Write a variant of a workflow file, and beside it what the file imports from its own folder.

    Raises: BadValue: the folder holds another comparison.
    """
    for name, data in sorted(beside(source).items()):
        write_once(file.parent / name, data)
    write_once(file, content)


def write_once(file: Path, content: bytes) -> None:
    """A comparison that goes on runs what it began with.

    Raises: BadValue: the folder holds another comparison.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    if file.exists() and file.read_bytes() != content:
        words = f"its {file.name} is of a call with another workflow, budget or settings; give another --out FOLDER"
        raise BadValue("--out", str(file.parent), words)
    file.write_bytes(content)


def keep_results(folder: Path, arms: Sequence[str]) -> None:
    """Raises: BadValue: the folder holds the results of other arms, which those of these would replace."""
    try:
        rows = json.loads((folder / "comparison.json").read_bytes())["rows"]
    except (OSError, ValueError, KeyError, TypeError):  # none yet, or not whole
        return
    if lost := dict.fromkeys(str(row["arm"]) for row in rows if row["arm"] not in arms):
        words = f"it holds the results of {', '.join(lost)}, which this call would replace; give another --out FOLDER"
        raise BadValue("--out", str(folder), f"{words}, or compare these, too")
