"""Epochs of a training -> events on the bus, so that everybody sees how far it is while it goes on."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress

from steersman.bus import BusError, TupleSpace
from steersman.journal.records import Epoch
from steersman.worker.orders import EVENT, plain

EVERY_S = 1.0
SPARING = 0.05  # of the time since it began: a training of a day sends some 200


class EpochSender:
    """Sends a training's epochs to the engine, not each of them where they are short.

    Args:
        space: a bus that is gone is not waited for longer than its patience.
        version: of the model that is trained.
    """

    def __init__(self, space: TupleSpace, version: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._space, self._version, self._clock = space, version, clock
        self._began = self._sent = clock()

    def __call__(self, done: int, epochs: int, record: Mapping[str, float]) -> None:
        """Hear of the last of `done` epochs, of `epochs`."""
        now = self._clock()
        if now - self._sent < max(EVERY_S, SPARING * (now - self._began)):
            return
        self._sent = now
        epoch = Epoch(model=self._version, epoch=done, epochs=epochs, loss=record["loss"])
        with suppress(BusError):
            self._space.put(EVENT, epoch.kind, plain(epoch))
