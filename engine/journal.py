"""The truth of a run: an append-only file of records, each whole or absent.

A record is one line of JSON, {"v": 1, "t": unix time, "kind": ..., <fields>, "crc": "8 hex digits"}; the checksum is
the CRC-32 of the line before `,"crc"`. A torn last line (a crash in the middle of a write) is cut off when the journal
is opened for writing again.
"""

from __future__ import annotations

import json
import os
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from steersman.engine.errors import JournalDamaged

VERSION = 1
Record = dict[str, Any]


class Journal:
    """Appends records to a file.

    Args:
        path: the file; its torn last line, if there is one, is cut off.
        clock: seconds since 1970.
    Attributes:
        repaired: the torn text that was cut off, or "".
    """

    def __init__(self, path: Path, clock: Callable[[], float] = time.time) -> None:
        self.path, self._clock = Path(path), clock
        self.repaired = cut_torn_line(self.path)
        self._file = self.path.open("a", encoding="utf-8")

    def append(self, kind: str, fields: Mapping[str, Any]) -> Record:
        """Write one record and hand it to the operating system, so that it survives the death of this process."""
        record = {"v": VERSION, "t": round(self._clock(), 4), "kind": kind, **fields}
        self._file.write(encode(record))
        self._file.flush()
        return record

    def sync(self) -> None:
        """Wait until everything is on the disk, so that it survives the death of the machine."""
        os.fsync(self._file.fileno())

    def close(self) -> None:
        self.sync()
        self._file.close()


def encode(record: Record) -> str:
    body = json.dumps(record, separators=(",", ":"), default=_plain)[:-1]
    return f'{body},"crc":"{zlib.crc32(body.encode()):08x}"}}\n'


def decode(line: str) -> Record | None:
    """Read one line back; None when it is not whole."""
    body, mark, crc = line.rpartition(',"crc":"')
    if not mark or crc != f'{zlib.crc32(body.encode()):08x}"}}\n':
        return None
    record: Record = json.loads(body + "}")
    return record


def read(path: Path, *, offset: int = 0) -> Iterator[Record]:
    """Read the whole records of a journal, also while it is being written.

    Raises: JournalDamaged: a record that is not the last one is not whole.
    """
    for record, _ in follow(path, offset=offset):
        yield record


def follow(path: Path, *, offset: int = 0) -> Iterator[tuple[Record, int]]:
    """Records from a byte offset on, each with the offset behind it: a later call goes on from there."""
    with path.open("rb") as file:
        file.seek(offset)
        for number, line in enumerate(file, 1):
            record = decode(line.decode("utf-8", "replace"))
            if record is None:
                if file.read(1):
                    raise JournalDamaged(str(path), number)
                return
            offset += len(line)
            yield record, offset


def cut_torn_line(path: Path) -> str:
    """Cut a torn last line off; returns what it was."""
    if not path.exists():
        return ""
    whole = max((end for _, end in follow(path)), default=0)
    with path.open("r+b") as file:
        file.seek(whole)
        torn = file.read()
        file.truncate(whole)
    return torn.decode("utf-8", "replace")


def _plain(value: Any) -> Any:
    if hasattr(value, "item"):  # a numpy scalar
        return value.item()
    return str(value)
