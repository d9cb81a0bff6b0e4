"""Segments -> bus and store: what a walker says and hears beside its simulation, which so never waits for a server.

Appended rows are published and told to the engine, starts are acknowledged then, leases are kept, and the word that a
segment is to end is passed on.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from steersman.apps.segment import Segment
from steersman.apps.watchdog import Watchdog
from steersman.bus import BusError, LeaseExpired, Tuple, TupleSpace
from steersman.store import FRAME, SEGMENT, GroupWriter

EVENT, STOP = "event", "stop"  # names of the tuples that tell the engine what happens, and a segment that it is to end
# A look at the bus costs 0.3 ms here and 0.05 ms of the server, which thousands of walkers share: so the longer a
# segment has run, the seldomer. It is stopped, and its frames are told, late by a tenth of that, within these bounds;
# leases and the watchdog often set closer ones.
LOOK_SHARE, LOOK_AT_LEAST_S, LOOK_AT_MOST_S = 0.1, 0.2, 10.0
PUBLISH_EVERY_S = 0.5
PUBLISH_SHARE = 0.02  # of a walker's time may go into publishing, as far as a sixth of the lease allows


class Outbox:
    """A walker's events that wait to be told, in their order, many in one round trip."""

    def __init__(self, space: TupleSpace, walker: int) -> None:
        self._space, self._walker = space, walker
        self._waiting: list[tuple[str, str, dict[str, Any]]] = []
        self._sending = threading.Lock()

    def add(self, kind: str, **fields: Any) -> None:
        self._waiting.append((EVENT, kind, {"walker": self._walker, **fields}))

    def send(self) -> bool:
        """Put all that waits; False while the server is away, and all is kept."""
        with self._sending:
            count = len(self._waiting)
            try:
                if count:
                    self._space.put_many(self._waiting[:count])
            except BusError:
                return False
            del self._waiting[:count]
            return True


@dataclass
class _Held:
    """A start under lease; `after` segments must be published before it may be acknowledged, None while it runs."""

    taken: Tuple
    segment: Segment
    after: int | None = None


class Publisher:
    """Publishes a walker's rows, keeps its leases, acknowledges starts whose rows are out, and hears who is to end.

    Args:
        simulated: gives the simulated time of the segments that have ended.
        watchdog: hears of it while there is progress, or nothing to do.
    """

    def __init__(
        self,
        writer: GroupWriter,
        space: TupleSpace,
        outbox: Outbox,
        *,
        simulated: Callable[[], float],
        lease_s: float,
        watchdog: Watchdog,
    ) -> None:
        self._writer, self._space, self._outbox = writer, space, outbox
        self._simulated, self._lease_s, self._watchdog = simulated, lease_s, watchdog
        self._held: list[_Held] = []
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._over = self._hurried = False
        self._began_at = self._publish_at = time.monotonic()
        self._told: dict[str, int] = {}
        self._trouble: OSError | None = None
        self._thread = threading.Thread(target=self._serve, name="publish", daemon=True)

    def __enter__(self) -> Publisher:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over = True
        self._wake.set()
        self._thread.join()
        self._writer.close()
        self._settle()

    def hold(self, taken: Tuple, segment: Segment) -> _Held:
        """Keep the lease of a start whose segment begins, and tell what waits in the outbox."""
        held = _Held(taken, segment)
        with self._lock:
            self._held.append(held)
        self._began_at = time.monotonic()
        self._wake.set()
        return held

    def release_when_published(self, held: _Held) -> None:
        """Acknowledge this start once the rows appended so far are published.

        Raises: OSError: the rows could not be written (the disk is full, say).
        """
        held.after = self._writer.rows.get(SEGMENT, 0)
        if self._trouble:
            raise self._trouble

    def hurry(self) -> None:
        """Publish now, without waiting for the usual time."""
        self._hurried = True
        self._wake.set()

    def _serve(self) -> None:
        renewed_at, seen = time.monotonic(), dict[str, int]()
        at_most_s = min(self._lease_s, self._watchdog.hang_s) / 6
        while not self._over:
            woken = self._wake.wait(min(look_every_s(time.monotonic() - self._began_at), at_most_s))
            self._wake.clear()
            running = self._running()
            if self._writer.rows != seen or not running:
                seen = dict(self._writer.rows)
                self._watchdog.alive()
            try:
                self._publish_when_due()
            except OSError as error:
                self._trouble = error
                return
            self._settle()
            for segment in running if not woken else ():  # nobody can know yet of one that has just begun
                self._ask(segment)
            if time.monotonic() - renewed_at > self._lease_s / 6:
                renewed_at = time.monotonic()
                self._renew()

    def _running(self) -> list[Segment]:
        with self._lock:
            return [held.segment for held in self._held if held.after is None]

    def _ask(self, segment: Segment) -> None:
        """Pass on that somebody wants this segment to end."""
        with contextlib.suppress(BusError):
            if not segment.to_end and self._space.take_nowait(stop_name(segment.name), segment.name) is not None:
                segment.to_end = True

    def _publish_when_due(self) -> None:
        began, hurried = time.monotonic(), self._hurried
        if hurried:
            self._hurried = False
        if self._writer.rows == self._writer.published or not (hurried or began >= self._publish_at):
            return
        self._writer.publish(now=hurried)
        ended = time.monotonic()
        self._publish_at = ended + min(max(PUBLISH_EVERY_S, (ended - began) / PUBLISH_SHARE), self._lease_s / 6)

    def _settle(self) -> None:
        """Tell the engine what is published, then acknowledge; what fails is tried again at the next round."""
        rows = dict(self._writer.published)
        frames, segments = rows.get(FRAME, 0), rows.get(SEGMENT, 0)
        if rows != self._told:
            self._outbox.add("frames", frames=frames, segments=segments, simulated=self._simulated())
            self._told = rows
        if not self._outbox.send():
            return
        with contextlib.suppress(BusError):
            for held in [held for held in self._held if held.after is not None and held.after <= segments]:
                with contextlib.suppress(LeaseExpired):  # run again elsewhere: the engine counts only one of the two
                    self._space.ack(held.taken)
                with self._lock:
                    self._held.remove(held)

    def _renew(self) -> None:
        with self._lock:
            leases = [held.taken for held in self._held]
        for taken in leases:
            with contextlib.suppress(BusError):
                self._space.renew(taken, self._lease_s)


def stop_name(segment: str) -> str:
    """Under which a segment is told to end: a name for each walker, so that several servers share the questions."""
    return f"{STOP}.{segment.partition('.')[0]}"


def look_every_s(ran_s: float) -> float:
    """How often a walker looks at the bus and at its rows when its segment has run for so long."""
    return min(max(LOOK_SHARE * ran_s, LOOK_AT_LEAST_S), LOOK_AT_MOST_S)
