"""Put, take, read: the tuple space, for blocking code."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Any, Self, TypeVar

from steersman.bus.addresses import Place, bus_of
from steersman.bus.entries import Entry
from steersman.bus.errors import BusTimeout, LeaseExpired, ServerLost, ServerRefused, ServersDiffer
from steersman.bus.keys import Keys
from steersman.bus.operations import ALL, Clock, Operations, Want, explained, held
from steersman.bus.routes import ConnectionPool, N, Routes, by_stem
from steersman.bus.statistics import Statistics
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


T = TypeVar("T")
TRANSACTION_S = 60.0
PATIENCE_S = 60.0  # a server that is started again is back in seconds; a minute of silence is worth an error


class TupleSpace:
    """A bag of tuples that many processes share.

    Cheap to make, connects when first used, may be shared between threads and inherited over fork.
    """

    def __init__(self, places: list[Place], space: str, patience_s: float, clock: Clock | None) -> None:
        self.places, self.space, self.patience_s, self.clock = places, space, patience_s, clock
        self._operations = Operations(Keys(space), clock)
        self._routes = Routes(places, patience_s)
        self._seen: dict[str, Statistics] = {}

    @classmethod
    def connect(
        cls, *places: Place, space: str = "", patience_s: float = PATIENCE_S, clock: Clock | None = None
    ) -> TupleSpace:
        """A space on one server or spread over several.

        Args:
            places: each a bus.json, a directory with one, or a redis://, rediss:// or unix:// URL.
            space: spaces of different names on one server do not see each other; "": the one that bus.json names,
                else "default".
            patience_s: how long a server may be silent before its operations fail with ServerLost.
            clock: seconds since 1970, for leases and lives; None takes the server's clock.
        """
        if not places:
            raise ServerRefused("connect()", "no server given; pass a bus.json, a directory with one, or a URL")
        return cls(list(places), space or bus_of(places).space, patience_s, clock)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.places, self.space, self.patience_s, self.clock)

    # -- put

    def put(
        self, name: str, *fields: Any, ttl_s: float | None = None, once: str = "", timeout_s: float | None = None
    ) -> bool:
        """Put one tuple.

        Args:
            ttl_s: it vanishes after this when nobody took it; None keeps it.
            once: a key; a second put of this name with the same key changes nothing.
            timeout_s: how long to wait for room where the name has a bound; None forever, 0 not at all.
        Returns: False when `once` was put before, else True.
        Raises: NotPlain; NameFull; OutOfMemory; ServerLost.
        """
        items = (self._operations.encode(name, fields),)
        return self._run(name, self._operations.put, items, ttl_s, once, timeout_s)

    def put_many(
        self, tuples: Iterable[tuple[Any, ...]], ttl_s: float | None = None, timeout_s: float | None = None
    ) -> None:
        """Put several as one, in one round trip to each server they live on."""
        items = [self._operations.encode(t[0], tuple(t[1:])) for t in tuples]
        self._each(items, self._operations.put, ttl_s, "", timeout_s)

    # -- take and read

    def take(self, name: str, *fields: Any, timeout_s: float | None = None, lease_s: float | None = None) -> Tuple:
        """Take the oldest tuple that matches, waiting for one.

        Args:
            fields: a plain value, a type, or ANY each.
            timeout_s: None waits forever.
            lease_s: the tuple is ours for so long; without ack() it is then offered again, first in line.
        Raises: BusTimeout: none within timeout_s. DamagedMessage: what matched was no tuple of ours.
        """
        return self._found(Want(Template.of(name, fields), b"take", 1, lease_s, timeout_s))[0]

    def read(self, name: str, *fields: Any, timeout_s: float | None = None) -> Tuple:
        """As take(), and the tuple stays."""
        return self._found(Want(Template.of(name, fields), b"read", 1, None, timeout_s))[0]

    def take_nowait(self, name: str, *fields: Any, lease_s: float | None = None) -> Tuple | None:
        """As take(), and None when there is none now."""
        tuples = self._find(Want(Template.of(name, fields), b"take", 1, lease_s, 0.0))
        return tuples[0] if tuples else None

    def read_nowait(self, name: str, *fields: Any) -> Tuple | None:
        """As read(), and None when there is none now."""
        tuples = self._find(Want(Template.of(name, fields), b"read", 1, None, 0.0))
        return tuples[0] if tuples else None

    def take_many(
        self, name: str, *fields: Any, n: int = ALL, timeout_s: float | None = None, lease_s: float | None = None
    ) -> list[Tuple]:
        """Wait for at least one, then take up to n, as one and in order; ALL takes all that match."""
        return self._found(Want(Template.of(name, fields), b"take", n, lease_s, timeout_s))

    def read_many(self, name: str, *fields: Any, n: int = ALL, timeout_s: float | None = None) -> list[Tuple]:
        """As take_many(), and the tuples stay."""
        return self._found(Want(Template.of(name, fields), b"read", n, None, timeout_s))

    def take_many_nowait(self, name: str, *fields: Any, n: int = ALL, lease_s: float | None = None) -> list[Tuple]:
        """As take_many(), and an empty list when there is none now."""
        return self._find(Want(Template.of(name, fields), b"take", n, lease_s, 0.0))

    def read_many_nowait(self, name: str, *fields: Any, n: int = ALL) -> list[Tuple]:
        """As read_many(), and an empty list when there is none now."""
        return self._find(Want(Template.of(name, fields), b"read", n, None, 0.0))

    def takes(
        self, name: str, *fields: Any, timeout_s: float | None = None, lease_s: float | None = None
    ) -> Iterator[Tuple]:
        """Take after take; ends when there was none for timeout_s."""
        want = Want(Template.of(name, fields), b"take", 1, lease_s, timeout_s)
        while tuples := self._find(want):
            yield tuples[0]

    def _find(self, want: Want) -> list[Tuple]:
        return self._run(want.template.name, self._operations.take, want)

    def _found(self, want: Want) -> list[Tuple]:
        tuples = self._find(want)
        if not tuples:
            raise BusTimeout(want.template.name, want.timeout_s or 0.0)
        return tuples

    # -- leases

    def ack(self, tuples: Tuple | Iterable[Tuple]) -> None:
        """Done: this leased tuple, or these in one round trip, is gone for good. Raises: LeaseExpired."""
        self._each(held(tuples), self._operations.lease, b"ack")

    def renew(self, tuples: Tuple | Iterable[Tuple], lease_s: float) -> None:
        """Ours for lease_s from now. Raises: LeaseExpired."""
        ours = held(tuples)
        self._each(ours, self._operations.lease, b"renew %d" % round(lease_s * 1000))
        for t in ours:
            t.lease_s = lease_s

    def release(self, tuples: Tuple | Iterable[Tuple], reason: str = "released") -> None:
        """Offer it again at once, first in line. Raises: LeaseExpired.

        Args:
            reason: a line of its history; the delivery then counts as failed, with an empty one it does not.
        """
        self._each(held(tuples), self._operations.lease, b"release " + reason.encode())

    # -- transactions

    @contextmanager
    def transaction(self, lease_s: float = TRANSACTION_S) -> Iterator[Transaction]:
        """Take several and put several as one: at the end of the block all of it happens, after an error nothing.

        Args:
            lease_s: how long the block may take. What it took is given back when it takes longer.
        Raises: LeaseExpired: it took longer. ServersDiffer: its names live on several servers.
        """
        inside = Transaction(self._operations, self._routes, self._found, lease_s)
        taken, puts = inside.taken, inside.puts
        try:
            yield inside
            if taken or puts:
                self._run((taken or puts)[0].name, self._operations.commit, taken, puts)
        except ServerLost:  # what it took comes back when its lease ends
            raise
        except BaseException:
            if taken:
                with suppress(LeaseExpired):
                    self._run(taken[0].name, self._operations.lease, taken, ABORT)
            raise

    # -- limits

    def configure(self, name: str, *, bound: int | None = None, deliveries: int | None = None) -> None:
        """Set the limits of a name; None leaves one as it is, 0 removes it.

        Args:
            bound: most tuples it holds, leased ones too; put() then waits, or refuses with NameFull.
            deliveries: a tuple that failed so often goes to dead_letters(name), with its history.
        """
        self._run(name, self._operations.configure, name, bound, deliveries)

    # -- look

    def count(self, name: str, *fields: Any) -> int:
        """How many tuples match and are free to be taken."""
        return self._run(name, self._operations.count, Template.of(name, fields))

    def clear(self, name: str) -> int:
        """Remove all tuples of a name, leased ones too, and what `once` knew of it. Returns: how many."""
        return self._run(name, self._operations.clear, name)

    def erase(self) -> None:
        """Leave nothing of this space on its servers: no tuples, no limits, no counts."""
        for pool in self._routes.all():
            self._run_on(pool, self._operations.erase)

    def names(self) -> list[str]:
        """The names in use, on all servers."""
        listed = (self._run_on(pool, self._operations.names) for pool in self._routes.all())
        return sorted({name for names in listed for name in names})

    def statistics(self, *names: str) -> dict[str, Statistics]:
        """Rates, depths, the oldest unread, blocked takers and running leases, of these names or of all."""
        looked = {name: self._run(name, self._operations.survey, name) for name in names or self.names()}
        result = {name: now.since(self._seen.get(name)) for name, now in looked.items()}
        self._seen.update(looked)
        return result

    def last(self, name: str, n: int = 10) -> list[Tuple]:
        """The newest tuples of a name, of any length, the newest first; they stay."""
        return self._find(Want(Template.of_all(name), b"last", n, None, 0.0))

    def follow(self, name: str, *, every_s: float = 1.0) -> Iterator[Tuple | None]:
        """Each tuple put under a name from now on, as it is put, without taking it; None after every_s without one."""
        pool = self._routes.pool(name)
        connection = pool.take()
        try:
            while True:
                yield self._operations.follow(connection, name, every_s)
        finally:
            connection.close()

    def damaged(self, name: str) -> list[bytes]:
        """The raw messages of a name that were moved aside because they could not be read."""
        return self._run(name, self._operations.damaged, name)

    # -- life

    def close(self) -> None:
        """Close the free connections; the space can be used again and connects anew."""
        for connection in self._routes.drain():
            connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()

    def _each(self, items: list[N], operation: Callable[..., Any], *given: Any) -> None:
        """Run it for each server's share; a cluster wants each name by itself."""
        for group in self._routes.grouped(items):
            try:
                self._run(group[0].name, operation, group, *given)
            except ServersDiffer:
                for part in by_stem(group):
                    self._run(part[0].name, operation, part, *given)

    def _run(self, name: str, operation: Callable[..., T], *given: Any) -> T:
        while True:
            try:
                return self._run_on(self._routes.pool(name), operation, *given)
            except ServerRefused as refused:
                if not self._routes.follow(name, refused.message):
                    raise explained(name, refused) from None

    def _run_on(self, pool: ConnectionPool, operation: Callable[..., T], *given: Any) -> T:
        connection = pool.take()
        try:
            return operation(connection, *given)
        finally:
            pool.give(connection)
