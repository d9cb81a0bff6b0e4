"""The truth of a run: an append-only file of records, each whole or absent, chained by their checksums.

Each line carries its number and the checksum of the line before it: one that is missing, doubled or changed shows.
Records that belong together carry `more`: after a crash all of them are there or none. What is torn at the end is cut
off when the journal is opened for writing again; a line in the middle that is not whole is set aside, and named.
"""

from __future__ import annotations

import math
import os
import re
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import reduce
from operator import or_
from pathlib import Path
from typing import Any, TypeVar, overload

from msgspec import ValidationError, json, to_builtins
from msgspec.structs import replace

from steersman.journal.errors import JournalTooNew, RunIsLocked
from steersman.journal.records import KINDS, BadRecord, Record
from steersman.system import reading
from steersman.system.files import sync_folder

R = TypeVar("R", bound=Record)
VERSION, USUAL = 6, Record.format  # the newest that is read; that of nearly all lines
FIRST = 0  # stands for the checksum of the record before the first
_CRC = b',"crc":"'
_BEGIN, _END = b'{"v":%d,"n":%d,"prev":"%08x",', _CRC + b'%08x"}\n'
_TAIL = len(_END % 0)
_HEAD = re.compile(rb'\{"v":(\d+),(?:"n":(\d+),"prev":"([0-9a-f]{8})",)?')
_decode = json.Decoder(reduce(or_, KINDS.values())).decode


@dataclass(frozen=True)
class Flaw:
    """A line that is not whole, or that does not follow the one before it."""

    line: int  # counted from 1
    problem: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.problem}"


@dataclass
class Cursor:
    """How far a journal was read.

    Args:
        offset: in bytes; lines before it are read no more.
        line: how many lines there are before it.
        at: offset of the record that was read last.
        number, crc: what the next line is to have as its number and as the checksum of its predecessor; the checksum
            of a line that is not whole is not known.
        flaws: of the lines before it.
    """

    offset: int = 0
    line: int = 0
    at: int = 0
    number: int = 0
    crc: int | None = FIRST
    flaws: list[Flaw] = field(default_factory=list)

    def copy(self) -> Cursor:
        """As it is now, but for flaws; copy.copy takes a fifth of a long replay."""
        return Cursor(self.offset, self.line, self.at, self.number, self.crc, self.flaws)


class Journal:
    """Appends records to a file.

    Args:
        path: the file; what is torn at its end is cut off.
        clock: seconds since 1970; by default one that goes on evenly.
        replay: called with each record that is there; it raises BadRecord for one that does not fit those before it.
    Attributes:
        repaired: the torn text that was cut off, or "".
        flaws: lines that were set aside.
        behind_s: by how much the machine's time is before that of the last record.
    """

    def __init__(
        self,
        path: Path,
        clock: Callable[[], float] | None = None,
        replay: Callable[[Record], object] = lambda _: None,
    ) -> None:
        self.path, self._clock, self._latest = Path(path), clock or steady_clock(), -math.inf
        place, self.repaired = cut_torn_end(self.path, self._knowing(replay))
        self.behind_s = max(0.0, self._latest - self._clock())
        self.flaws, self._number, self._crc = place.flaws, place.number, place.crc or FIRST
        self._file, self._size = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644), place.offset
        self._synced = -1
        sync_folder(self.path.parent)

    def clock(self) -> float:
        """Seconds since 1970, never before the last record: the machine's time may have been set back meanwhile."""
        return self._clock() + self.behind_s

    def _knowing(self, replay: Callable[[Record], object]) -> Callable[[Record], object]:
        def knowing(record: Record) -> None:
            self._latest = max(self._latest, record.t)
            replay(record)

        return knowing

    def append(self, *records: R) -> list[R]:
        """Write records and hand them to the operating system, so that they survive the death of this process.

        Of several, all survive a crash, or none.
        Returns: the records with their time and how many follow.
        Raises: RunIsLocked: another process has written to it, or cut it; nothing is written.
        """
        t, last = round(self.clock(), 4), len(records) - 1
        written = [replace(record, t=t, more=last - i) for i, record in enumerate(records)]
        lines, number, crc = [], self._number, self._crc
        for record in written:
            line, crc = encode(record, number, crc)
            lines.append(line)
            number += 1
        self._write(b"".join(lines))
        self._number, self._crc = number, crc
        return written

    def _write(self, data: bytes) -> None:
        whole, written = self._size, 0
        if os.fstat(self._file).st_size != whole:  # a line more would not follow the one before it
            raise RunIsLocked(str(self.path.parent), "another process, which writes to its journal")
        try:
            while written < len(data):
                written += os.write(self._file, data[written:])
        except OSError:  # the disk is full, say: half a record must not stand before the next one
            os.ftruncate(self._file, whole)
            raise
        self._size += written

    def sync(self) -> None:
        """Wait until everything is on the disk, so that it survives the death of the machine."""
        if self._synced != self._size:
            os.fsync(self._file)
            self._synced = self._size

    def close(self) -> None:
        self.sync()
        os.close(self._file)


def steady_clock() -> Callable[[], float]:
    """Seconds since 1970 by a clock that no one sets, so that a correction of the machine's time ends no budget of
    hours; the time that a machine is suspended counts."""
    began = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    return lambda: began + time.clock_gettime(time.CLOCK_BOOTTIME)


def encode(record: Record, number: int, before: int) -> tuple[bytes, int]:
    """Give the line of a record and its checksum; `before` is that of the record before it."""
    body = _BEGIN % (record.format, number, before) + _fields(record)[1:-1]
    crc = zlib.crc32(body)
    return body + _END % crc, crc


def _fields(record: Record) -> bytes:
    try:
        return json.encode(record)
    except UnicodeEncodeError:  # half a character, from a file's name that is no text, say
        return json.encode(_readable(to_builtins(record)))


def _readable(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode(errors="backslashreplace").decode()
    if isinstance(value, dict):
        return {_readable(key): _readable(each) for key, each in value.items()}
    return [_readable(each) for each in value] if isinstance(value, (list, tuple)) else value


@overload
def read(path: Path) -> Iterator[Record]: ...
@overload
def read(path: Path, *kinds: type[R]) -> Iterator[R]: ...
def read(path: Path, *kinds: type[Record]) -> Iterator[Record]:
    """Read the records of a journal that are whole, also while it is being written.

    Args:
        kinds: only records of these; all of them by default.
    Raises: JournalTooNew.
    """
    return (record for record in follow(path, Cursor()) if not kinds or isinstance(record, kinds))


def follow(path: Path, place: Cursor) -> Iterator[Record]:
    """Read the records behind a place, which moves along: a later call goes on from there.

    Raises: JournalTooNew: a newer Steersman wrote it, or 0.1. OddFile: it is none, see `system.reading`.
    """
    with reading.opened(path, path.parent) as file:
        file.seek(place.offset)
        while line := file.readline(reading.MOST_LINE):
            if len(line) == reading.MOST_LINE:
                raise reading.OddFile(str(path), f"line {place.line + 1} has more than {reading.MOST_LINE:,} bytes")
            before = place.number, place.crc
            record, problem = _read(path, line, place)
            if record is None and not (line.endswith(b"\n") and file.peek(1)):
                place.number, place.crc = before  # the last line is being written, and may be longer by now
                return
            place.at, place.offset, place.line = place.offset, place.offset + len(line), place.line + 1
            if problem:
                place.flaws.append(Flaw(place.line, problem))
            if record is not None:
                yield record


def _read(path: Path, line: bytes, place: Cursor) -> tuple[Record | None, str]:
    """Decode a line, and say what is wrong with it or with its place among the others."""
    expected, before = place.number, place.crc
    place.number, place.crc = expected + 1, None
    crc = zlib.crc32(line[:-_TAIL])
    if line[-_TAIL:] != _END % crc:
        return None, "it is not a record, or its checksum differs"
    try:
        if before is not None and line.startswith(_BEGIN % (USUAL, expected, before)):
            place.crc = crc
            return _decode(line), ""
        return _out_of_line(path, line, place, expected, before)
    except (ValidationError, BadRecord) as error:
        return None, str(error)


def _out_of_line(
    path: Path, line: bytes, place: Cursor, expected: int, before: int | None
) -> tuple[Record | None, str]:
    """A whole line of another version, or one that does not follow the line before it."""
    head = _HEAD.match(line)
    if head is None:
        return None, "it is not a record"
    version, number, known = head.groups()
    if int(version) > VERSION or number is None:
        raise JournalTooNew(str(path), int(version), VERSION)
    place.crc = int(line[-_TAIL + len(_CRC) : -3], 16)
    place.number = int(number) + 1
    if int(number) != expected:
        return _decode(line), f"it is record {int(number)}, but record {expected} was expected"
    return _decode(line), "" if before in (None, int(known, 16)) else "its checksum of the line before does not match"


def fits(place: Cursor, apply: Callable[[Record], object], record: Record) -> None:
    """Apply a record; one that does not fit those before it is set aside."""
    try:
        apply(record)
    except BadRecord as error:
        place.flaws.append(Flaw(place.line, str(error)))


def rewrite(path: Path, story: Iterable[Record]) -> None:
    """Write records, with the times they have, into a new file and a new chain."""
    crc = FIRST
    with path.open("wb") as file:
        for number, record in enumerate(story):
            line, crc = encode(record, number, crc)
            file.write(line)
        file.flush()
        os.fsync(file.fileno())
    sync_folder(path.parent)


def cut_torn_end(path: Path, replay: Callable[[Record], object] = lambda _: None) -> tuple[Cursor, str]:
    """Cut off a torn last line, and records whose companions are missing.

    Args:
        replay: called with each record that stays.
    Returns: the end of what stays, and what was cut off.
    """
    place = Cursor()
    if not path.exists():
        return place, ""
    whole, waiting = place.copy(), list[Record]()
    for record in follow(path, place):
        waiting.append(record)
        if not record.more:
            for each in waiting:
                fits(place, replay, each)
            waiting.clear()
            whole = place.copy()
    with path.open("r+b") as file:
        file.seek(whole.offset)
        torn = file.read()
        if torn:
            file.truncate(whole.offset)
    return whole, torn.decode("utf-8", "replace")
