"""Messages on the bus -> records: each is checked against its type before anything else sees it.

What does not fit goes to the dead letters of its name, is noted once for each sender, and costs nothing more.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Annotated, Any

from msgspec import Meta, Struct, ValidationError, convert

from steersman.bus import ALL, BusTimeout, TupleSpace
from steersman.journal.record import Name, Number
from steersman.journal.recorder import Recorder
from steersman.journal.records import FROM_WORKERS, BadRecord, Record, checked
from steersman.worker.orders import EVENT, JOB, refuse

QUIET_S = 5.0  # after so long without a word from anybody the bus is tried
TELL = "tell"  # (words): what people say to a run
LONGEST = 4096  # characters of a word that people say
MOST_SENDERS = 50  # whose refused messages are noted


class JobBegan(Struct, frozen=True):
    """A job that Parsl was given begins on a worker of a manager."""

    job: Number
    manager: Name
    worker: Name = ""


class Words(Struct, frozen=True):
    """What a person says to a run.

    Args:
        id: under which the answer is awaited.
        who: name and host of the person.
    """

    id: Annotated[str, Meta(min_length=1, max_length=64)]
    who: Name
    words: Annotated[list[Annotated[str, Meta(max_length=LONGEST)]], Meta(max_length=64)]


class Inbox:
    """What comes over the bus for the driver."""

    def __init__(self, space: TupleSpace, recorder: Recorder, clock: Callable[[], float] = time.monotonic) -> None:
        self._space, self._recorder, self._clock = space, recorder, clock
        self._heard = clock()
        self._refused: set[tuple[str, str]] = set()

    def events(self, timeout_s: float) -> list[Record | JobBegan]:
        """Wait for what happens on workers. Raises: BusError."""
        try:
            taken = self._space.take_many(EVENT, str, dict, n=ALL, timeout_s=timeout_s)
        except BusTimeout:
            if self._clock() - self._heard > QUIET_S:
                self._heard = self._clock()
                self._space.put(EVENT, JOB, {})  # a server that takes nothing any more says why
            return []
        self._heard = self._clock()
        read = (self._event(kind, fields) for _, kind, fields in taken)
        return [each for each in read if each is not None]

    def words(self) -> list[Words]:
        """What people have said. Raises: BusError."""
        read = (self._words(message) for _, message in self._space.take_many_nowait(TELL, dict))
        return [each for each in read if each is not None]

    def refuse(self, record: Record, problem: str) -> None:
        """Refuse a record that has the right type and cannot be true."""
        fields = {name: getattr(record, name) for name in record.__struct_fields__}
        self._refuse(EVENT, (record.kind, fields), f"w{fields.get('walker', '?')}", problem)

    def _event(self, kind: str, fields: dict[str, Any]) -> Record | JobBegan | None:
        try:
            if kind == JOB:
                return convert(fields, JobBegan) if fields else None
            return checked(kind, fields, FROM_WORKERS)
        except (BadRecord, ValidationError) as error:
            self._refuse(EVENT, (kind, fields), f"w{fields.get('walker', '?')!s:.20}", str(error))
            return None

    def _words(self, message: dict[str, Any]) -> Words | None:
        try:
            return convert(message, Words)
        except ValidationError as error:
            self._refuse(TELL, (message,), f"{message.get('who', 'unknown sender')!s:.80}", str(error))
            return None

    def _refuse(self, name: str, message: tuple[Any, ...], sender: str, problem: str) -> None:
        refuse(self._space, name, *message)
        if (name, sender) not in self._refused and len(self._refused) < MOST_SENDERS:
            self._refused.add((name, sender))
            what = f"an invalid message from {sender} on {name!r} was moved to the dead letters"
            self._recorder.note(f"{what}: {problem:.300}")
