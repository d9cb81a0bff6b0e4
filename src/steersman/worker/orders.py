"""What driver and workers say to each other over the bus: names of tuples, and records as plain values."""

from __future__ import annotations

from typing import Any

from msgspec import to_builtins

from steersman.bus import BusError, TupleSpace
from steersman.bus.tuples import dead_letters
from steersman.journal.records import Record

EVENT = "event"  # (kind, fields): what happens on workers
JOB = "job"  # kind of the event that a job began, or (no fields) that one ended
START = "start"  # (number, fields of the start's record); `end` in place of a record sends a walker home
STOP = "stop"  # (segment): it is to end; a name for each walker, see stop_name
HANGS = "hangs"  # (segment, its walker's frames, text): why it is to end; it has failed if it makes no frame more
DONE = "done"  # (start): it was settled, and a walker that gets it again leaves it
THERE = "there"  # (): is there while the bus holds what the driver has put
LIKE = "like"  # (walker, shapes of its frames by variable): the run's first, which all others must be like
NEWEST = "newest"  # (version): of the newest accepted model
LEAVE = "leave"  # (walker): it is to go home
REFUSED_S = 24 * 3600.0  # a message that was refused may be looked at for so long


def stop_name(segment: str) -> str:
    """Under which a segment is asked to end: a name for each walker, so that several servers share the questions."""
    return f"{STOP}.{segment.partition('.')[0]}"


def plain(record: Record) -> dict[str, Any]:
    """The fields of a record as what travels on the bus."""
    fields: dict[str, Any] = to_builtins(record)
    del fields["kind"]
    return fields


def refuse(space: TupleSpace, name: str, *fields: Any) -> None:
    """Move a message that does not fit its type to the dead letters of its name, where `steersman bus` shows it."""
    try:
        space.put(dead_letters(name), *fields, ttl_s=REFUSED_S)
    except (BusError, ValueError, TypeError):  # it is lost then, and was of no use
        return
