"""A walker's records arrive in their order, each once, whatever the server does meanwhile."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from steersman.bus import ServerLost
from steersman.journal.records import Began
from steersman.worker.publisher import Outbox


class Space:
    """A bus that is away for some calls, and while which is written to a walker adds a record."""

    def __init__(self) -> None:
        self.away, self.heard = 0, list[int]()
        self.outbox = Outbox(self)  # type: ignore[arg-type]
        self.more: list[int] = []

    def put_many(self, tuples: Iterable[tuple[str, str, dict[str, Any]]]) -> None:
        sent = [fields["segment"] for _, _, fields in tuples]
        for number in self.more:
            self.outbox.add(began(number))
        self.more = []
        if self.away:
            self.away -= 1
            raise ServerLost("here", 1.0, "gone")
        self.heard += sent


def began(number: int) -> Began:
    return Began(walker=0, segment=number, start=number, first_row=0)


def test_what_is_added_while_others_are_sent_is_sent_next() -> None:
    space = Space()
    space.outbox.add(began(0))
    space.more = [1, 2]
    assert space.outbox.send()
    assert space.heard == [0]
    assert space.outbox.send()
    assert space.outbox.send()
    assert space.heard == [0, 1, 2]


def test_what_could_not_be_sent_is_kept_in_its_order() -> None:
    space = Space()
    space.away = 2
    for number in range(3):
        space.outbox.add(began(number))
        space.more = [10 + number]
        assert space.outbox.send() == (number == 2)
    assert space.heard == [0, 10, 1, 11, 2]
    assert space.outbox.send()
    assert space.heard == [0, 10, 1, 11, 2, 12]
