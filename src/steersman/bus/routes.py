"""Name -> server: names are spread over the servers by a hash that is the same everywhere and forever.

Where a bus.json says which names are spread, all others live on its first server: they keep one order.
"""

from __future__ import annotations

import os
import re
import threading
import zlib
from collections import deque
from collections.abc import Sequence
from typing import Protocol, TypeVar

from steersman.bus.addresses import Address, Place, Resolve, bus_of, resolver
from steersman.bus.connection import Connection
from steersman.bus.errors import ServersDiffer

_MOVED = re.compile(r"(?:MOVED|ASK) \d+ (\S+)")


class Named(Protocol):
    """What belongs to a name."""

    @property
    def name(self) -> str: ...


N = TypeVar("N", bound=Named)


def stem(name: str) -> str:
    """The part of a name that decides its server: its dead letters live where it does."""
    return name.partition("!dead")[0]


class ConnectionPool:
    """The free connections to one server. A connection leaves it for one operation."""

    def __init__(self, resolve: Resolve, patience_s: float) -> None:
        self.resolve, self._patience_s = resolve, patience_s
        self._free: deque[Connection] = deque()
        self._process = os.getpid()

    def take(self) -> Connection:
        """A free connection, or a new one."""
        if self._process != os.getpid():  # after a fork the parent's sockets are not ours to use
            self._free, self._process = deque(), os.getpid()
        try:
            return self._free.pop()
        except IndexError:
            return Connection(self.resolve, self._patience_s)

    def give(self, connection: Connection) -> None:
        """Free again."""
        self._free.append(connection)

    def drain(self) -> list[Connection]:
        """All free connections, which leave the pool."""
        drained = list(self._free)
        self._free.clear()
        return drained


class Routes:
    """Which server a name lives on: one, several, or the nodes of a cluster as it redirects us."""

    def __init__(self, places: Sequence[Place], patience_s: float) -> None:
        self._patience_s, bus = patience_s, bus_of(places)
        self.pools = [ConnectionPool(resolver(place), patience_s) for place in bus.places]
        self._spread = bus.spread
        self._moved: dict[str, ConnectionPool] = {}
        self._nodes: dict[Address, ConnectionPool] = {}
        self._lock = threading.Lock()

    def pool(self, name: str) -> ConnectionPool:
        """The server of a name."""
        if len(self.pools) == 1 and not self._moved:
            return self.pools[0]
        part = stem(name)
        return self._moved.get(part) or self.pools[self._number(part)]

    def _number(self, part: str) -> int:
        number = zlib.crc32(part.encode())
        if not self._spread:
            return number % len(self.pools)
        return 1 + number % (len(self.pools) - 1) if part.partition(".")[0] in self._spread else 0

    def common(self, names: Sequence[str]) -> ConnectionPool:
        """The one server of all these names. Raises: ServersDiffer: they live on several."""
        pools = {id(pool): pool for pool in map(self.pool, names)}
        if len(pools) > 1:
            raise ServersDiffer(tuple(dict.fromkeys(names)))
        return next(iter(pools.values()))

    def grouped(self, items: Sequence[N]) -> list[list[N]]:
        """What has a name, by the server of its name, in order; in a cluster by the name itself."""
        if len(items) == 1 or (len(self.pools) == 1 and not self._moved):
            return [list(items)] if items else []
        groups: dict[int | str, list[N]] = {}
        for item in items:
            groups.setdefault(stem(item.name) if self._moved else id(self.pool(item.name)), []).append(item)
        return list(groups.values())

    def follow(self, name: str, answer: str) -> bool:
        """A cluster answered that a name is elsewhere: remember where. False when that is not what it said."""
        moved = _MOVED.match(answer)
        if moved is None:
            return False
        address = self.pool(name).resolve().at(moved[1])
        with self._lock:
            self._moved[stem(name)] = self._nodes.setdefault(address, ConnectionPool(lambda: address, self._patience_s))
        return True

    def all(self) -> list[ConnectionPool]:
        """All servers, those too that a cluster named."""
        return [*self.pools, *self._nodes.values()]

    def drain(self) -> list[Connection]:
        """All free connections, which leave their pools."""
        return [connection for pool in self.all() for connection in pool.drain()]


def by_stem(items: Sequence[N]) -> list[list[N]]:
    """What has a name, by what decides its slot in a cluster."""
    groups: dict[str, list[N]] = {}
    for item in items:
        groups.setdefault(stem(item.name), []).append(item)
    return list(groups.values())
