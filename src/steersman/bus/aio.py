"""Put, take, read: the tuple space, for asyncio. The operations and their meaning are those of space.TupleSpace."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from typing import Any, Self, TypeVar

import hiredis

from steersman.bus.addresses import Address, Place, Resolve, bus_of
from steersman.bus.connection import CONNECT_S, READ_BYTES
from steersman.bus.errors import BusTimeout, LeaseExpired, ServerLost, ServerRefused, ServersDiffer
from steersman.bus.keys import Keys
from steersman.bus.operations import ALL, Clock, Operations, Want, explained, held
from steersman.bus.programs import Connect, Disconnected, Exchange, Operation, Pause, Session, Step
from steersman.bus.routes import N, Pool, Routes, by_stem
from steersman.bus.space import PATIENCE_S, TRANSACTION_S
from steersman.bus.statistics import Statistics
from steersman.bus.transaction import Transaction
from steersman.bus.tuples import Template, Tuple

T = TypeVar("T")
_MORE = object()


class AsyncConnection:
    """One socket, used by one task at a time."""

    def __init__(self, resolve: Resolve, patience_s: float) -> None:
        self.session = Session(patience_s)
        self._resolve = resolve
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._reader = hiredis.Reader(notEnoughData=_MORE)

    async def run(self, operation: Operation[T]) -> T:
        """Drive a program to its end."""
        program = operation(self.session)
        try:
            step = next(program)
            while True:
                try:
                    outcome = await self._perform(step)
                except BaseException as broken:  # a cancellation too: the program may have to put things right
                    step = program.throw(broken)
                else:
                    step = program.send(outcome)
        except StopIteration as done:
            result: T = done.value
            return result
        finally:
            if self.session.busy:
                self.close()

    def close(self) -> asyncio.StreamWriter | None:
        """Returns: what is still closing."""
        self.session.connected = self.session.busy = False
        streams, self._streams = self._streams, None
        if streams is None:
            return None
        streams[1].close()
        return streams[1]

    async def _perform(self, step: Step) -> Any:
        if type(step) is Exchange:
            try:
                return await self._exchange(step.data, step.timeout_s)
            except (OSError, hiredis.ProtocolError) as broken:
                raise Disconnected(str(broken)) from None
        if type(step) is Connect:
            return await self._connect()
        if type(step) is Pause:
            await asyncio.sleep(step.seconds)
        return None

    async def _exchange(self, data: bytes, timeout_s: float | None) -> Any:
        if self._streams is None:
            raise Disconnected("closed")
        reader, writer = self._streams
        try:
            async with asyncio.timeout(timeout_s):
                if data:
                    writer.write(data)
                    await writer.drain()
                while (message := self._reader.gets()) is _MORE:
                    received = await reader.read(READ_BYTES)
                    if not received:
                        raise Disconnected("closed by the server")
                    self._reader.feed(received)
                return message
        except TimeoutError:
            return None

    async def _connect(self) -> Address:
        self.close()
        address = self._resolve()
        self.session.address = address
        try:
            async with asyncio.timeout(CONNECT_S):
                self._streams = await _open(address)
        except ssl.SSLError as untrusted:
            raise ServerRefused(str(address), f"TLS: {untrusted}") from None
        except OSError as refused:
            raise Disconnected(str(refused)) from None
        self._reader = hiredis.Reader(notEnoughData=_MORE)
        return address


async def _open(address: Address) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    if address.path:
        return await asyncio.open_unix_connection(address.path)
    tls = address.tls_context() if address.tls else None
    reader, writer = await asyncio.open_connection(address.host, address.port, ssl=tls)
    if writer.get_extra_info("sockname") == writer.get_extra_info("peername"):  # an echo, as in connection.py
        writer.close()
        raise ConnectionRefusedError(f"no server listens on {address}")
    return reader, writer


class AsyncTupleSpace:
    """A bag of tuples that many processes share; of one event loop."""

    def __init__(self, places: list[Place], space: str, patience_s: float, clock: Clock | None) -> None:
        self._operations = Operations(Keys(space), clock)
        self._routes = Routes(places, lambda resolve: AsyncConnection(resolve, patience_s))
        self._seen: dict[str, Statistics] = {}

    @classmethod
    def connect(
        cls, *places: Place, space: str = "", patience_s: float = PATIENCE_S, clock: Clock | None = None
    ) -> AsyncTupleSpace:
        """As TupleSpace.connect(); connects when first used."""
        if not places:
            raise ServerRefused("connect()", "no server given; pass a bus.json, a directory with one, or a URL")
        return cls(list(places), space or bus_of(places).space, patience_s, clock)

    async def put(
        self, name: str, *fields: Any, ttl_s: float | None = None, once: str = "", timeout_s: float | None = None
    ) -> bool:
        """As TupleSpace.put()."""
        items = (self._operations.encode(name, fields),)
        return await self._run(name, self._operations.put(items, ttl_s, once, timeout_s))

    async def put_many(
        self, tuples: Iterable[tuple[Any, ...]], ttl_s: float | None = None, timeout_s: float | None = None
    ) -> None:
        """As TupleSpace.put_many()."""
        items = [self._operations.encode(t[0], tuple(t[1:])) for t in tuples]
        await self._each(items, lambda group: self._operations.put(group, ttl_s, "", timeout_s))

    async def take(
        self, name: str, *fields: Any, timeout_s: float | None = None, lease_s: float | None = None
    ) -> Tuple:
        """As TupleSpace.take()."""
        return (await self._found(Want(Template.of(name, fields), b"take", 1, lease_s, timeout_s)))[0]

    async def read(self, name: str, *fields: Any, timeout_s: float | None = None) -> Tuple:
        """As TupleSpace.read()."""
        return (await self._found(Want(Template.of(name, fields), b"read", 1, None, timeout_s)))[0]

    async def take_nowait(self, name: str, *fields: Any, lease_s: float | None = None) -> Tuple | None:
        """As TupleSpace.take_nowait()."""
        found = await self._find(Want(Template.of(name, fields), b"take", 1, lease_s, 0.0))
        return found[0] if found else None

    async def read_nowait(self, name: str, *fields: Any) -> Tuple | None:
        """As TupleSpace.read_nowait()."""
        found = await self._find(Want(Template.of(name, fields), b"read", 1, None, 0.0))
        return found[0] if found else None

    async def take_many(
        self, name: str, *fields: Any, n: int = ALL, timeout_s: float | None = None, lease_s: float | None = None
    ) -> list[Tuple]:
        """As TupleSpace.take_many()."""
        return await self._found(Want(Template.of(name, fields), b"take", n, lease_s, timeout_s))

    async def read_many(self, name: str, *fields: Any, n: int = ALL, timeout_s: float | None = None) -> list[Tuple]:
        """As TupleSpace.read_many()."""
        return await self._found(Want(Template.of(name, fields), b"read", n, None, timeout_s))

    async def take_many_nowait(
        self, name: str, *fields: Any, n: int = ALL, lease_s: float | None = None
    ) -> list[Tuple]:
        """As TupleSpace.take_many_nowait()."""
        return await self._find(Want(Template.of(name, fields), b"take", n, lease_s, 0.0))

    async def read_many_nowait(self, name: str, *fields: Any, n: int = ALL) -> list[Tuple]:
        """As TupleSpace.read_many_nowait()."""
        return await self._find(Want(Template.of(name, fields), b"read", n, None, 0.0))

    async def takes(
        self, name: str, *fields: Any, timeout_s: float | None = None, lease_s: float | None = None
    ) -> AsyncIterator[Tuple]:
        """As TupleSpace.takes()."""
        want = Want(Template.of(name, fields), b"take", 1, lease_s, timeout_s)
        while found := await self._find(want):
            yield found[0]

    async def ack(self, tuples: Tuple | Iterable[Tuple]) -> None:
        """As TupleSpace.ack()."""
        await self._lease(held(tuples), b"ack")

    async def renew(self, tuples: Tuple | Iterable[Tuple], lease_s: float) -> None:
        """As TupleSpace.renew()."""
        ours = held(tuples)
        await self._lease(ours, b"renew %d" % round(lease_s * 1000))
        for t in ours:
            t.lease_s = lease_s

    async def release(self, tuples: Tuple | Iterable[Tuple], reason: str = "released") -> None:
        """As TupleSpace.release()."""
        await self._lease(held(tuples), b"release " + reason.encode())

    @asynccontextmanager
    async def transaction(self, lease_s: float = TRANSACTION_S) -> AsyncIterator[AsyncTransaction]:
        """As TupleSpace.transaction()."""
        inside = AsyncTransaction(self, self._operations, self._routes, lease_s)
        try:
            yield inside
            if commit := inside.commit():
                await self._run(inside.name, commit)
        except ServerLost:  # what it took comes back when its lease ends
            raise
        except BaseException:
            if abort := inside.abort():
                with suppress(LeaseExpired):
                    await self._run(inside.name, abort)
            raise

    async def configure(self, name: str, *, bound: int | None = None, deliveries: int | None = None) -> None:
        """As TupleSpace.configure()."""
        await self._run(name, self._operations.configure(name, bound, deliveries))

    async def count(self, name: str, *fields: Any) -> int:
        """As TupleSpace.count()."""
        return await self._run(name, self._operations.count(Template.of(name, fields)))

    async def clear(self, name: str) -> int:
        """As TupleSpace.clear()."""
        return await self._run(name, self._operations.clear(name))

    async def erase(self) -> None:
        """As TupleSpace.erase()."""
        for pool in self._routes.all():
            await self._run_on(pool, self._operations.erase())

    async def names(self) -> list[str]:
        """As TupleSpace.names()."""
        operation = self._operations.names()
        return sorted({name for pool in self._routes.all() for name in await self._run_on(pool, operation)})

    async def statistics(self, *names: str) -> dict[str, Statistics]:
        """As TupleSpace.statistics()."""
        looked = {name: await self._run(name, self._operations.survey(name)) for name in names or await self.names()}
        result = {name: now.since(self._seen.get(name)) for name, now in looked.items()}
        self._seen.update(looked)
        return result

    async def close(self) -> None:
        """As TupleSpace.close()."""
        for connection in self._routes.drain():
            if closing := connection.close():
                await closing.wait_closed()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _find(self, want: Want) -> list[Tuple]:
        return await self._run(want.template.name, self._operations.take(want))

    async def _found(self, want: Want) -> list[Tuple]:
        found = await self._find(want)
        if not found:
            raise BusTimeout(want.template.name, want.timeout_s or 0.0)
        return found

    async def _lease(self, tuples: list[Tuple], how: bytes) -> None:
        await self._each(tuples, lambda group: self._operations.lease(group, how))

    async def _each(self, items: list[N], operation: Callable[[list[N]], Operation[Any]]) -> None:
        for group in self._routes.grouped(items):
            try:
                await self._run(group[0].name, operation(group))
            except ServersDiffer:
                for part in by_stem(group):
                    await self._run(part[0].name, operation(part))

    async def _run(self, name: str, operation: Operation[T]) -> T:
        while True:
            try:
                return await self._run_on(self._routes.pool(name), operation)
            except ServerRefused as refused:
                if not self._routes.follow(name, refused.message):
                    raise explained(name, refused) from None

    async def _run_on(self, pool: Pool[AsyncConnection], operation: Operation[T]) -> T:
        connection = pool.take()
        try:
            return await connection.run(operation)
        finally:
            pool.give(connection)


class AsyncTransaction(Transaction):
    """A transaction of an AsyncTupleSpace."""

    def __init__(self, space: AsyncTupleSpace, *rest: Any) -> None:
        super().__init__(*rest)
        self._space = space

    async def take(self, name: str, *fields: Any, timeout_s: float | None = None) -> Tuple:
        """Take for this transaction; given back when it fails. Raises: BusTimeout; ServersDiffer."""
        self.taken += await self._space._found(self.want(name, fields, timeout_s))
        return self.taken[-1]
