"""A node's own disk -> a folder for its ranks, which goes with them.

Whoever makes one holds its lock, which the kernel takes back however that process ends; so who comes next on the node
knows what a dead one has left, and removes it. The node's name is part of the folder's, since another node need not
see a lock where a "node's own" disk is shared.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import mkdtemp

from steersman.models.errors import StagingFailed
from steersman.system.files import take_lock


@contextmanager
def scratch(disk: str, node: str) -> Iterator[dict[str, str]]:
    """Make a folder while a node's ranks run; gives the variable that names it to them.

    Args:
        disk: a folder on the node's own disk, "" for none; may hold $TMPDIR and the like.
        node: its name.
    Raises: StagingFailed: none can be made there.
    """
    if not disk:
        yield {}
        return
    expanded = os.path.expandvars(disk)
    if "$" in expanded:
        raise StagingFailed("the window", disk, f"{node}: not all of its variables are set")
    try:
        here, lock = _made(Path(expanded), f"steersman-ranks-{node}-")
    except OSError as error:
        raise StagingFailed("the window", disk, f"{node}: {error}") from error
    try:
        yield {"STEERSMAN_SCRATCH": str(here)}
    finally:
        shutil.rmtree(here, ignore_errors=True)
        os.close(lock)


def _made(disk: Path, prefix: str) -> tuple[Path, int]:
    """Make a folder and lock it; those of processes that have died, whose locks went with them, are removed."""
    disk.mkdir(parents=True, exist_ok=True)
    for left in disk.glob(f"{prefix}*"):
        _remove_if_left(left)
    new = Path(mkdtemp(prefix="steersman-", dir=disk))
    lock = os.open(new, os.O_RDONLY)
    take_lock(lock)
    return new.rename(disk / (prefix + new.name.removeprefix("steersman-"))), lock  # found under this name once locked


def _remove_if_left(folder: Path) -> None:
    with suppress(OSError):  # another user's, or gone meanwhile
        handle = os.open(folder, os.O_RDONLY)
        try:
            if take_lock(handle):
                shutil.rmtree(folder, ignore_errors=True)
        finally:
            os.close(handle)
