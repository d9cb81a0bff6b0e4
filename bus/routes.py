"""Name -> server: names are spread over the servers by a hash that is the same everywhere and for ever."""

from __future__ import annotations

import os
import re
import threading
import zlib
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol, TypeVar

from steersman.bus.addresses import Address, Resolve, resolver
from steersman.bus.connection import Connection
from steersman.bus.errors import ServersDiffer

_MOVED = re.compile(r"(?:MOVED|ASK) \d+ (\S+)")
Place = str | Path


class Named(Protocol):
    @property
    def name(self) -> str: ...


N = TypeVar("N", bound=Named)


def stem(name: str) -> str:
    """The part of a name that decides its server: its dead letters live where it does."""
    return name.partition("!dead")[0]


class Pool:
    """The free connections to one server. A connection leaves it for one operation."""

    def __init__(self, resolve: Resolve, patience_s: float) -> None:
        self.resolve, self._patience_s = resolve, patience_s
        self._free: deque[Connection] = deque()
        self._process = os.getpid()

    def take(self) -> Connection:
        if self._process != os.getpid():  # after a fork the parent's sockets are not ours to use
            self._free, self._process = deque(), os.getpid()
        try:
            return self._free.pop()
        except IndexError:
            return Connection(self.resolve, self._patience_s)

    def give(self, connection: Connection) -> None:
        self._free.append(connection)

    def close(self) -> None:
        while self._free:
            self._free.pop().close()


class Routes:
    """Which server a name lives on: one, several, or the nodes of a cluster as it redirects us."""

    def __init__(self, places: Sequence[Place], patience_s: float) -> None:
        self._patience_s = patience_s
        self.pools = [Pool(resolver(place), patience_s) for place in places]
        self._moved: dict[str, Pool] = {}
        self._nodes: dict[Address, Pool] = {}
        self._lock = threading.Lock()

    def pool(self, name: str) -> Pool:
        if len(self.pools) == 1 and not self._moved:
            return self.pools[0]
        part = stem(name)
        return self._moved.get(part) or self.pools[zlib.crc32(part.encode()) % len(self.pools)]

    def common(self, names: Sequence[str]) -> Pool:
        """The one server of all these names. Raises: ServersDiffer: they live on several."""
        pools = {id(pool): pool for pool in map(self.pool, names)}
        if len(pools) > 1:
            raise ServersDiffer(tuple(names))
        return next(iter(pools.values()))

    def grouped(self, items: Sequence[N]) -> list[list[N]]:
        """What has a name, by the server of its name, in order."""
        if len(items) == 1 or len(self.pools) == 1 and not self._moved:
            return [list(items)] if items else []
        groups: dict[int, list[N]] = {}
        for item in items:
            groups.setdefault(id(self.pool(item.name)), []).append(item)
        return list(groups.values())

    def follow(self, name: str, answer: str) -> bool:
        """A cluster answered that a name is elsewhere: remember where. False when that is not what it said."""
        moved = _MOVED.match(answer)
        if moved is None:
            return False
        address = self.pool(name).resolve().at(moved[1])
        with self._lock:
            self._moved[stem(name)] = self._nodes.setdefault(address, Pool(lambda: address, self._patience_s))
        return True

    def all(self) -> list[Pool]:
        return [*self.pools, *(pool for pool in self._nodes.values())]

    def close(self) -> None:
        for pool in self.all():
            pool.close()
