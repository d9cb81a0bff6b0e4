"""Journal -> lines for people and programs: chosen by kind, simulation and time."""

from __future__ import annotations

import datetime
import json
import re
import time
from collections.abc import Callable, Collection
from typing import Any

from steersman.cli.printing import say
from steersman.journal import file as journal
from steersman.journal.file import Record
from steersman.journal.run_directory import RunDirectory
from steersman.journal.state import State
from steersman.system.errors import BadValue, UnknownName

UNITS_S = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
HIDDEN = ("v", "t", "kind", "crc", "more", "anew")


def print_records(directory: RunDirectory, kinds: Collection[str], sim: str, since: str, *, as_json: bool) -> None:
    """Print the chosen records; the end that is not whole, if the driver died in the middle of a write, is told.

    Raises: BadInput: a kind, a name or a time that cannot be meant. JournalError.
    """
    wanted = choose(kinds, sim, since, time.time())
    whole = 0
    for record, end in journal.follow(directory.journal):
        whole = end
        if wanted(record):
            say(json.dumps(record) if as_json else line(record))
    torn = directory.journal.stat().st_size - whole
    if torn:
        say(f"the last {torn} bytes are no whole record: being written, or torn; resume cuts them off", to_stderr=True)


def choose(kinds: Collection[str], sim: str, since: str, now: float) -> Callable[[Record], bool]:
    """A test of records: of any of these kinds, of this walker or segment, not before a moment."""
    known = State().kinds
    for kind in kinds:
        if kind not in known:
            raise UnknownName("kind of record", kind, known)
    first = moment(since, now) if since else 0.0
    walker, segment = name(sim) if sim else (None, None)

    def wanted(record: Record) -> bool:
        if record["t"] < first or (kinds and record["kind"] not in kinds):
            return False
        return walker is None or _concerns(record, walker, segment)

    return wanted


def line(record: Record) -> str:
    """One line for people."""
    when = datetime.datetime.fromtimestamp(record["t"]).isoformat(sep=" ", timespec="milliseconds")
    told = "  ".join(f"{key}={_short(value)}" for key, value in record.items() if key not in HIDDEN and value != "")
    return f"{when}  {record['kind']:<9} {told}"


def moment(text: str, now: float) -> float:
    """A time, or how long ago, as seconds since 1970."""
    if ago := re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)([smhd])", text):
        return now - float(ago[1]) * UNITS_S[ago[2]]
    try:
        return datetime.datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError):
        raise BadValue("--since", text, "write a time such as 2026-11-21T09:30, or 90s, 5m, 2h, 1d ago") from None


def name(text: str) -> tuple[int, int | None]:
    """w3 -> (3, None), w3.17 -> (3, 17)."""
    found = re.fullmatch(r"w?([0-9]{1,9})(?:\.([0-9]{1,9}))?", text)
    if found is None:
        raise BadValue("--sim", text, "write a walker such as w3, or a segment such as w3.17")
    return int(found[1]), None if found[2] is None else int(found[2])


def _concerns(record: Record, walker: int, segment: int | None) -> bool:
    if record["kind"] == "stop":
        told = name(record["segment"])
        return told[0] == walker and segment in (None, told[1])
    if record["kind"] in ("start", "blame") and record["parent"]:
        return record["parent"][0] == walker and segment in (None, record["parent"][2])
    return record.get("walker") == walker and (segment is None or record.get("segment") == segment)


def _short(value: Any) -> str:
    """One line, whatever it holds: a note of several could pass for records."""
    return f"{value:.6g}" if isinstance(value, float) else str(value).replace("\n", "\\n")
