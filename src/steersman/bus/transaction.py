"""Takes and puts -> one change: all of it happens, or nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from steersman.bus.entries import Entry
from steersman.bus.operations import Operations, Want
from steersman.bus.routes import Routes
from steersman.bus.tuples import Template, Tuple

ABORT = b"release "  # without a reason: back in front, and not counted as a failed delivery


class Transaction:
    """What is taken is held under a lease, unseen by others; what is put is kept here until the end.

    On one server only. A transaction that dies gives everything back when its lease ends.

    Args:
        find: waits for the tuples that are wanted. Raises: BusTimeout.
    """

    def __init__(
        self, operations: Operations, routes: Routes, find: Callable[[Want], list[Tuple]], lease_s: float
    ) -> None:
        self._operations, self._routes, self._find, self._lease_s = operations, routes, find, lease_s
        self.taken: list[Tuple] = []
        self.puts: list[Entry] = []

    def put(self, name: str, *fields: Any) -> None:
        """Put when the transaction commits; until then nobody sees it, this transaction neither.

        Raises: ServersDiffer: the name lives on another server than the others of this transaction.
        """
        self._together(name)
        self.puts.append(self._operations.encode(name, fields))

    def take(self, name: str, *fields: Any, timeout_s: float | None = None) -> Tuple:
        """Take for this transaction; given back when it fails. Raises: BusTimeout; ServersDiffer."""
        self._together(name)
        self.taken += self._find(Want(Template.of(name, fields), b"take", 1, self._lease_s, timeout_s))
        return self.taken[-1]

    def _together(self, name: str) -> None:
        self._routes.common([name, *(t.name for t in self.taken), *(item.name for item in self.puts)])
