"""Answer of the server -> parcel: the tuples in it, still packed, and what to do with one that is damaged."""

from __future__ import annotations

from typing import Any

from steersman.bus import entries
from steersman.bus.tuples import Tuple
from steersman.system.errors import EngineError


class Unreadable(EngineError):
    """A stored message could not be read; internal, becomes DamagedMessage when it was moved aside."""

    number: bytes
    data: bytes
    reason: str


def parcel(answer: bytes) -> list[tuple[bytes, bytes, bytes, bytes]]:
    """An answer -> number, deliveries, entry and history of each tuple. Raises: Damaged: it is no such answer."""
    head, _, body = answer.partition(b"\n")
    words, at, items = head.split()[1:], 0, []
    try:
        for i in range(0, len(words), 4):
            end, more = at + int(words[i + 2]), int(words[i + 3])
            items.append((b"%d" % int(words[i]), b"%d" % int(words[i + 1]), body[at:end], body[end : end + more]))
            at = end + more
    except (ValueError, IndexError):
        raise Unreadable(b"0", answer, "no answer of the library") from None
    return items


def is_parcel(note: bytes) -> bool:
    """Is it a whole answer with at least one tuple?"""
    try:
        return bool(parcel(note))
    except Unreadable:
        return False


def decoded(number: bytes, data: bytes) -> list[Any]:
    """An entry -> its fields. Raises: Damaged."""
    try:
        return entries.decode(data)
    except ValueError as broken:
        raise Unreadable(number, data, str(broken)) from None


def tuple_of(name: str, fields: list[Any], numbers: list[bytes], lease_s: float | None, history: bytes) -> Tuple:
    """Fields and how they came -> Tuple."""
    taken = Tuple((name, *fields))
    taken.number, taken.deliveries = int(numbers[0]), int(numbers[1])
    if lease_s is not None:
        taken.lease_s = lease_s
    if history:
        taken.history = tuple(history.decode(errors="replace").split("\n"))
    return taken
