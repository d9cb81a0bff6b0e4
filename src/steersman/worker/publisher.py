"""Appended rows -> published frames: beside a simulation, on time, and reported; starts are acknowledged then."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from steersman.bus import BusError, LeaseExpired, Tuple, TupleSpace
from steersman.journal.records import Published, Record
from steersman.stages.segment import look_every_s
from steersman.stages.start import looked
from steersman.store import FRAME, SEGMENT, GroupWriter
from steersman.worker.orders import EVENT, plain
from steersman.worker.watchdog import Watchdog

PUBLISH_EVERY_S = 0.5
PUBLISH_SHARE = 0.02  # of a walker's time may go into publishing, as far as a sixth of the lease allows


class Outbox:
    """A walker's records that wait to be sent, in their order, many in one round trip."""

    def __init__(self, space: TupleSpace) -> None:
        self._space = space
        self._waiting: list[Record] = []
        self._sending = threading.Lock()

    def add(self, record: Record) -> None:
        self._waiting.append(record)

    def send(self) -> bool:
        """Put all that waits; False while the server is away, and all is kept."""
        with self._sending:
            count = len(self._waiting)
            try:
                if count:
                    self._space.put_many((EVENT, each.kind, plain(each)) for each in self._waiting[:count])
            except BusError:
                return False
            del self._waiting[:count]
            return True


@dataclass
class Held:
    """A start under lease; `after` segments must be published before it may be acknowledged, None while it runs."""

    taken: Tuple
    after: int | None = None


class Publisher:
    """Publishes a walker's rows beside its simulation, keeps its leases, and acknowledges starts whose rows are out.

    Args:
        walker: number of the walker.
        came: gives the number of the segment that runs, and how far it has come in simulated time.
        watchdog: hears of it while there is progress, or nothing to do.
    """

    def __init__(
        self,
        writer: GroupWriter,
        space: TupleSpace,
        outbox: Outbox,
        walker: int,
        *,
        came: Callable[[], tuple[int, float]],
        lease_s: float,
        watchdog: Watchdog,
    ) -> None:
        self._writer, self._space, self._outbox, self._walker = writer, space, outbox, walker
        self._came, self._lease_s, self._watchdog = came, lease_s, watchdog
        self._held: list[Held] = []
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._over = False
        self._began_at, self._pause_s = time.monotonic(), PUBLISH_EVERY_S
        self._sent = (0, 0)  # frames and segments
        self._told: bool | None = None  # whether segments look at their frames
        self._far = (0, 0.0)  # a segment, and what its published frames simulated
        self.trouble: Exception | None = None  # why nothing is published any more
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

    def hold(self, taken: Tuple) -> Held:
        """Keep the lease of a start whose segment begins."""
        held = Held(taken)
        with self._lock:
            self._held.append(held)
        self._began_at = time.monotonic()
        return held

    def release_when_published(self, held: Held) -> None:
        """Acknowledge this start once the rows appended so far are published.

        Raises: OSError: the rows could not be written (the disk is full, say); or whatever else kept them from it.
        """
        held.after = self._writer.rows.get(SEGMENT, 0)
        if self.trouble:
            raise self.trouble

    def hurry(self) -> None:
        """Publish now, without waiting for the usual time."""
        self._wake.set()

    def _serve(self) -> None:
        renewed_at, seen = time.monotonic(), dict[str, int]()
        at_most_s = min(self._lease_s, self._watchdog.hang_s) / 6
        while not self._over:
            ran_s = time.monotonic() - self._began_at
            hurried = self._wake.wait(min(max(self._pause_s, look_every_s(ran_s)), at_most_s))
            self._wake.clear()
            if self._writer.rows != seen or all(held.after is not None for held in self._held):
                seen = dict(self._writer.rows)
                self._watchdog.alive()
            try:
                self._publish(hurried)
                self._settle()
                if time.monotonic() - renewed_at > self._lease_s / 6:
                    renewed_at = time.monotonic()
                    self._renew()
            except Exception as error:  # the walker hears of it, whatever it is
                self.trouble = error
                return

    def _publish(self, now: bool) -> None:
        began = time.monotonic()
        if self._writer.rows != self._writer.published:
            came, before = self._came(), self._writer.published  # a frame that comes meanwhile is published next time
            if self._writer.publish(now=now) != before:
                self._far = came
            self._pause_s = max(PUBLISH_EVERY_S, (time.monotonic() - began) / PUBLISH_SHARE)

    def _settle(self) -> None:
        """Report to the engine what is published, then acknowledge; what fails is tried again at the next round."""
        rows = dict(self._writer.published)
        frames, segments = rows.get(FRAME, 0), rows.get(SEGMENT, 0)
        if (frames, segments) != self._sent:
            simulated = self._far[1] if self._far[0] == segments else 0.0
            reads = looked(self._writer.attributes, frames)
            self._outbox.add(Published(
                walker=self._walker, frames=frames, segments=segments, simulated=simulated,
                reads=None if reads == self._told else reads,
            ))  # fmt: skip
            self._sent, self._told = (frames, segments), reads
        if not self._outbox.send():
            return
        with contextlib.suppress(BusError):
            if done := [held for held in self._held if held.after is not None and held.after <= segments]:
                with contextlib.suppress(LeaseExpired):  # run again elsewhere: the engine counts only one of the two
                    self._space.ack([held.taken for held in done])
                with self._lock:
                    self._held = [held for held in self._held if held not in done]

    def _renew(self) -> None:
        with self._lock:
            leases = [held.taken for held in self._held]
        with contextlib.suppress(BusError):  # of some the lease is over
            self._space.renew(leases, self._lease_s)
