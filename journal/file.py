"""The truth of a run: an append-only file of records, each whole or absent.

A record is one line of JSON, {"v": 1, "t": unix time, "kind": ..., <fields>, "crc": "8 hex digits"}; the checksum is
the CRC-32 of the line before `,"crc"`. Records that belong together carry "more", the number of them that follow: after
a crash all of them are there or none. What is torn is cut off when the journal is opened for writing again.
"""

from __future__ import annotations

import json
import os
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from steersman.journal.errors import JournalDamaged, JournalTooNew

VERSION = 1
CRC = b',"crc":"'
CRC_BYTES = len(CRC) + 8 + len(b'"}\n')
Record = dict[str, Any]


class Journal:
    """Appends records to a file.

    Args:
        path: the file; what is torn at its end is cut off.
        clock: seconds since 1970.
        replay: called with each record that is there.
    Attributes:
        repaired: the torn text that was cut off, or "".
    """

    def __init__(
        self, path: Path, clock: Callable[[], float] = time.time, replay: Callable[[Record], object] = lambda _: None
    ) -> None:
        self.path, self.clock = Path(path), clock
        self.repaired = cut_torn_end(self.path, replay)
        self._file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    def append(self, kind: str, fields: Mapping[str, Any]) -> Record:
        """Write one record and hand it to the operating system, so that it survives the death of this process."""
        return self.append_all(kind, [fields])[0]

    def append_all(self, kind: str, several: Iterable[Mapping[str, Any]]) -> list[Record]:
        """Write records of which all survive a crash, or none."""
        t = round(self.clock(), 4)
        records = [{"v": VERSION, "t": t, "kind": kind, **fields} for fields in several]
        for i, record in enumerate(records[:-1]):
            record["more"] = len(records) - 1 - i
        self._write(b"".join(map(encode, records)))
        return records

    def _write(self, data: bytes) -> None:
        whole = os.fstat(self._file).st_size
        written = 0
        try:
            while written < len(data):
                written += os.write(self._file, data[written:])
        except OSError:  # the disk is full, say: half a record must not stand before the next one
            os.ftruncate(self._file, whole)
            raise

    def sync(self) -> None:
        """Wait until everything is on the disk, so that it survives the death of the machine."""
        os.fsync(self._file)

    def close(self) -> None:
        self.sync()
        os.close(self._file)


def encode(record: Record) -> bytes:
    body = json.dumps(record, separators=(",", ":"), default=_plain)[:-1].encode()
    return b'%s%s%08x"}\n' % (body, CRC, zlib.crc32(body))


def decode(line: bytes) -> Record | None:
    """Read one line back; None when it is not whole."""
    body, tail = line[:-CRC_BYTES], line[-CRC_BYTES:]
    if tail != b'%s%08x"}\n' % (CRC, zlib.crc32(body)):
        return None
    record: Record = json.loads(body + b"}")
    return record


def read(path: Path, *, offset: int = 0) -> Iterator[Record]:
    """Read the whole records of a journal, also while it is being written.

    Raises: JournalDamaged: a record that is not the last one is not whole. JournalTooNew.
    """
    for record, _ in follow(path, offset=offset):
        yield record


def follow(path: Path, *, offset: int = 0) -> Iterator[tuple[Record, int]]:
    """Records from a byte offset on, each with the offset behind it: a later call goes on from there."""
    with path.open("rb") as file:
        file.seek(offset)
        for number, line in enumerate(file, 1):
            record = decode(line)
            if record is None:
                if line.endswith(b"\n") and file.read(1):  # else it is being written, and may be longer by now
                    raise JournalDamaged(str(path), number)
                return
            if record.get("v", VERSION) > VERSION:
                raise JournalTooNew(str(path), record["v"], VERSION)
            offset += len(line)
            yield record, offset


def cut_torn_end(path: Path, replay: Callable[[Record], object] = lambda _: None) -> str:
    """Cut off a torn last line, and records whose companions are missing; returns what that was.

    Args:
        replay: called with each record that stays.
    """
    if not path.exists():
        return ""
    whole, waiting = 0, []
    for record, end in follow(path):
        waiting.append(record)
        if not record.get("more"):
            whole = end
            for each in waiting:
                replay(each)
            waiting.clear()
    with path.open("r+b") as file:
        file.seek(whole)
        torn = file.read()
        if torn:
            file.truncate(whole)
    return torn.decode("utf-8", "replace")


def _plain(value: Any) -> Any:
    if hasattr(value, "item"):  # a numpy scalar
        return value.item()
    return str(value)
