"""Files of a run directory -> pieces that travel in tasks, each with its checksum; and the same way back.

A file is known by its inode and when it was written. Journals only grow: of them the inode says enough. A file that is
replaced while its pieces travel, such as the open shard of a walker, is held by a second link until the last piece.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from steersman.journal.run_directory import LEARNED
from steersman.remote.wire import MOST_BYTES

GROWING = ("journal.jsonl", "decisions.jsonl")  # in the order they are read: a decision is written before its start
PRIVATE = ("bus", "driver.json", ".lock", "aside")  # the bus's password, and what is of this machine alone
GROUPS = {
    "figures": ("report.html", "figures", "analysis"),
    "models": tuple(LEARNED),
    "frames": ("frames.zarr", "scores.zarr"),
}
REST = ("parsl", "checkpoints", "prepared.pkl", "manifest.sha256")  # in `all` alone
HELD_S = 3600.0

Piece = tuple[str, int, str]  # path, offset, and the file it is of; "": whichever has the path now


def group_of(path: str) -> str:
    """figures, models, frames, rest (in `all` alone), or "" for the small files that always come."""
    first = path.partition("/")[0]
    named = next((group for group, names in GROUPS.items() if first in names), "")
    return named or ("rest" if first in REST else "")


def listing(run: Path, groups: Sequence[str]) -> dict[str, tuple[int, str]]:
    """Size and identity of the files of a run that belong to groups, or to none, by path."""
    files = {}
    for path in _walk(run):
        name = str(path.relative_to(run))
        if group_of(name) in ("", *groups):
            with suppress(FileNotFoundError):  # replaced or moved meanwhile
                status = path.stat()
                files[name] = (status.st_size, identity(name, status))
    return files


def is_little(received: int) -> bool:
    """Whether an answer of so many bytes has room left: a file that it does not end would have filled it."""
    return received < MOST_BYTES // 2


def identity(name: str, status: os.stat_result) -> str:
    return f"{status.st_ino}" if name in GROWING else f"{status.st_ino}-{status.st_mtime_ns}"


def read(run: Path, held: Path, pieces: Sequence[Piece]) -> list[dict[str, Any]]:
    """Read pieces of files from their offsets on, until the answer is full.

    Returns: for each piece in order path, of, offset, size (of the file), data and sha256 (of the data); or path and
        gone, where the file is not what it was or not there; fewer than asked for when the answer is full.
    """
    answers: list[dict[str, Any]] = []
    room = MOST_BYTES
    for name, offset, of in pieces:
        if room <= 0:
            break
        answers.append(_piece(run, held, (name, offset, of), room))
        room -= len(answers[-1].get("data", b"")) + 300
    return answers


def _walk(run: Path) -> Iterator[Path]:
    for folder, folders, names in os.walk(run):
        folders[:] = [name for name in folders if name != "__pycache__" and not name.endswith(".partial")]
        if Path(folder) == run:
            folders[:] = [name for name in folders if name not in PRIVATE]
            names = [name for name in names if name not in PRIVATE]
        for name in sorted(names):
            if not name.endswith(".partial") and Path(folder, name).is_file():
                yield Path(folder, name)


def _piece(run: Path, held: Path, piece: Piece, room: int) -> dict[str, Any]:
    name, offset, of = piece
    path, kept = _inside(run, name), held / of
    if path is None:
        return {"path": name, "gone": True}
    try:
        with (kept if of and kept.exists() else path).open("rb") as file:
            status = os.fstat(file.fileno())
            current = identity(name, status)
            if of and current != of:
                return {"path": name, "gone": True}
            file.seek(offset)
            data = file.read(room)
    except OSError:
        return {"path": name, "gone": True}
    if offset + len(data) < status.st_size and name not in GROWING:
        _hold(path, held / current, name, current)
    else:
        kept.unlink(missing_ok=True) if of else None
    facts = {"path": name, "of": current, "offset": offset, "size": status.st_size}
    return facts | {"data": data, "sha256": hashlib.sha256(data).hexdigest()}


def _hold(path: Path, link: Path, name: str, wanted: str) -> None:
    """Keep a file that may be replaced; where the file system has no links, or it is gone, it is read again."""
    link.parent.mkdir(exist_ok=True)
    for old in link.parent.iterdir():
        if time.time() - old.lstat().st_ctime > HELD_S:
            old.unlink(missing_ok=True)
    with suppress(OSError):
        os.link(path, link)
        if identity(name, link.stat()) != wanted:
            link.unlink()


def _inside(run: Path, name: str) -> Path | None:
    """The path of a file of the run; None for one that is outside or private."""
    path = (run / name).resolve()
    parts = Path(name).parts
    return path if parts and parts[0] not in PRIVATE and path.is_relative_to(run.resolve()) else None
