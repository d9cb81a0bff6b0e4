"""Journal -> lines for people and programs: chosen by kind, simulation and time."""

from __future__ import annotations

import datetime
import re
import time
from collections.abc import Callable, Collection, Iterable
from typing import Any

from msgspec import json

from steersman.cli.printing import say
from steersman.journal import file as journal
from steersman.journal.records import KINDS, Blame, Record, Start, Stop, Tell
from steersman.journal.run_directory import RunDirectory
from steersman.store.names import SegmentName
from steersman.system.errors import BadValue, UnknownName

UNITS_S = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
HIDDEN = ("t", "more", "anew")


def print_records(directory: RunDirectory, kinds: Collection[str], sim: str, since: str, *, as_json: bool) -> None:
    """Print the chosen records; lines that are not whole are named at the end, on standard error.

    As JSON they are one object, {"records": [...]}, a record a line.

    Raises: BadInput: a kind, a name or a time that cannot be meant. JournalTooNew.
    """
    wanted, place = choose(kinds, sim, since, time.time()), journal.Cursor()
    chosen = filter(wanted, journal.follow(directory.journal, place))
    if as_json:
        _print_object(chosen)
    else:
        shown = False
        for record in chosen:
            say(line(record))
            shown = True
        if not shown:
            say("no record is of this kind, walker or segment, and of this time", to_stderr=True)
    for flaw in place.flaws:
        say(f"damaged: {flaw}", to_stderr=True)
    if torn := directory.journal.stat().st_size - place.offset:
        say(
            f"the last {torn} bytes are an incomplete record, which is being written or was interrupted; "
            "`resume` removes them",
            to_stderr=True,
        )


def _print_object(found: Iterable[Record]) -> None:
    """Print them as they are read: there may be millions."""
    begin = '{"records": ['
    for record in found:
        say(f"{begin}\n{json.encode(record).decode()}", newline=False)
        begin = ","
    say("\n]}" if begin == "," else f"{begin}]}}")


def choose(kinds: Collection[str], sim: str, since: str, now: float) -> Callable[[Record], bool]:
    """A test of records: of any of these kinds, of this walker or segment, not before a moment."""
    for kind in kinds:
        if kind not in KINDS:
            raise UnknownName("kind of record", kind, KINDS)
    first = moment(since, now) if since else 0.0
    walker, segment = name(sim) if sim else (None, None)

    def wanted(record: Record) -> bool:
        if record.t < first or (kinds and record.kind not in kinds):
            return False
        return walker is None or _concerns(record, walker, segment)

    return wanted


def line(record: Record) -> str:
    """One line for people."""
    when = datetime.datetime.fromtimestamp(record.t).astimezone().isoformat(sep=" ", timespec="milliseconds")
    fields = {key: getattr(record, key) for key in record.__struct_fields__ if key not in HIDDEN}
    words = "  ".join(f"{key}={_short(value)}" for key, value in fields.items() if value not in ("", None, {}))
    return f"{when}  {record.kind:<9} {words}"


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
    if named := SegmentName.parse(text):
        return named
    if of_walker := re.fullmatch(r"w?([0-9]{1,12})", text):
        return int(of_walker[1]), None
    raise BadValue("--sim", text, "write a walker such as w3, or a segment such as w3.17")


def _concerns(record: Record, walker: int, segment: int | None) -> bool:
    match record:
        case Stop() | Tell() if record.segment:
            named = name(record.segment)
            return named[0] == walker and segment in (None, named[1])
        case Start() | Blame() if record.parent:
            return record.parent.walker == walker and segment in (None, record.parent.segment)
    of_walker = getattr(record, "walker", None) == walker
    return of_walker and (segment is None or getattr(record, "segment", None) == segment)


def _short(value: Any) -> str:
    """One line, whatever it holds: a note of several could pass for records."""
    return f"{value:.6g}" if isinstance(value, float) else str(value).replace("\n", "\\n")
