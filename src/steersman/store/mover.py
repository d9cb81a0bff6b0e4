"""A group on a node's own storage -> the same group where all nodes read it: files move whole, the row counts last.

A program by itself, `python mover.py HERE THERE`, so that it outlives the walker whose group it moves. It moves at each
line of standard input and answers with one, empty or what went wrong; at the end of its input, which comes with the
walker's death too, it moves what is left and removes HERE. One runs for each walker: it imports nothing large.
"""

from __future__ import annotations

import errno
import json
import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

GROUP = "zarr.json"
PARTIAL, TAKEN = ".partial", ".taken"


def move(here: Path, there: Path) -> None:
    """Move what lies here. A group can be read at any moment, here by its mover, there by everybody.

    A writer writes each file whole, and an open shard again from memory: so files are taken away from under it.
    """
    if not there.is_dir():  # the walker was taken for dead, and its group was merged with others
        raise FileNotFoundError(errno.ENOENT, "the group was removed", str(there))
    described = (here / GROUP).read_bytes()  # before the files: the rows that it counts are in them by now, or there
    arrays = json.loads(described)["consolidated_metadata"]["metadata"]
    for file in _waiting(here):
        taken = file if file.suffix == TAKEN else file.rename(f"{file}{TAKEN}")
        _copy(taken, there / taken.relative_to(here).with_suffix(""))
        taken.unlink()
    for name, array in arrays.items():  # those on the node may be newer than the rows that came along
        _write(there / name / GROUP, json.dumps(array).encode())
    _write(there / GROUP, described)


def _waiting(here: Path) -> Iterator[Path]:
    """Files to move; first those that were taken when a move failed, for there may be newer ones of the same name."""
    files = [file for file in here.rglob("*") if file.is_file() and file.suffix != PARTIAL and file.name != GROUP]
    return iter(sorted(files, key=lambda file: file.suffix != TAKEN))


def _write(target: Path, content: bytes) -> None:
    target.parent.mkdir(exist_ok=True)
    partial = target.with_name(f"{GROUP}{PARTIAL}")
    partial.write_bytes(content)
    partial.replace(target)


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f"{target.name}{PARTIAL}")
    shutil.copyfile(source, partial)
    partial.replace(target)


def main(here: Path, there: Path) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):  # a block that ends says so to all; what is here is to be moved then
        signal.signal(number, signal.SIG_IGN)
    for _ in sys.stdin:
        try:
            move(here, there)
            print(flush=True)
        except OSError as error:
            print(json.dumps([error.errno, error.strerror, str(error.filename)]), flush=True)
    move(here, there)
    shutil.rmtree(here)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
