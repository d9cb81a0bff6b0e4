"""The asyncio client: the same core, the same laws."""

from __future__ import annotations

import asyncio
import inspect
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from steersman.bus import (
    ANY,
    AsyncTupleSpace,
    BusTimeout,
    LeaseExpired,
    NameFull,
    Server,
    ServersDiffer,
    TupleSpace,
    dead_letters,
)
from tests.waiting import until

from .conftest import Clock


@pytest.fixture
async def both(server: Server, space: TupleSpace, clock: Clock) -> AsyncIterator[AsyncTupleSpace]:
    """The asyncio client of the same space as `space`."""
    async with AsyncTupleSpace.connect(server.url, space=space.space, clock=clock, patience_s=10) as client:
        yield client


async def blocked(space: AsyncTupleSpace, name: str, n: int) -> None:
    while (await space.statistics(name))[name].blocked != n:
        await asyncio.sleep(0.002)


async def test_both_clients_see_the_same_tuples(space: TupleSpace, both: AsyncTupleSpace) -> None:
    await both.put("x", 1, "a")
    await both.put_many([("x", n, "b") for n in (2, 3)])
    assert space.read_many("x", int, str) == [("x", 1, "a"), ("x", 2, "b"), ("x", 3, "b")]
    assert await both.read("x", int, "b") == ("x", 2, "b")
    assert await both.read_nowait("x", 3, ANY) == ("x", 3, "b")
    assert await both.take("x", 3, ANY) == ("x", 3, "b")
    assert await both.take_nowait("x", 3, ANY) is None
    assert await both.count("x", int, str) == 2
    assert await both.read_many_nowait("x", int, str, n=1) == [("x", 1, "a")]
    assert await both.take_many("x", int, str) == [("x", 1, "a"), ("x", 2, "b")]
    assert await both.take_many_nowait("x", int, str) == []
    assert await both.read_nowait("x", int, str) is None


async def test_many_blocked_tasks_are_served_in_order_of_arrival(both: AsyncTupleSpace) -> None:
    takers = []
    for n in range(5):
        takers.append(asyncio.create_task(both.take("x", int, timeout_s=20)))
        await blocked(both, "x", n + 1)
    await both.put_many([("x", n) for n in range(5)])
    assert [(await t)[1] for t in takers] == [0, 1, 2, 3, 4]


async def test_a_cancelled_take_leaves_the_line_and_loses_nothing(both: AsyncTupleSpace) -> None:
    taker = asyncio.create_task(both.take("x", int))
    await blocked(both, "x", 1)
    taker.cancel()
    with pytest.raises(asyncio.CancelledError):
        await taker
    assert (await both.statistics("x"))["x"].blocked == 0
    await both.put("x", 1)
    assert await both.take("x", int, timeout_s=5) == ("x", 1)


async def test_a_take_cancelled_before_it_is_in_line_leaves_nothing_behind(both: AsyncTupleSpace) -> None:
    for turns in range(20):
        taker = asyncio.create_task(both.take("x", int))
        for _ in range(turns):
            await asyncio.sleep(0)
        taker.cancel()
        with pytest.raises(asyncio.CancelledError):
            await taker
        assert (await both.statistics("x"))["x"].blocked == 0


async def test_tuples_handed_over_while_a_take_is_cancelled_come_back(both: AsyncTupleSpace) -> None:
    """The put and the cancellation race; whoever wins, the tuple is there once."""
    for n in range(30):
        taker = asyncio.create_task(both.take("x", int))
        await blocked(both, "x", 1)
        put = asyncio.create_task(both.put("x", n))
        await asyncio.sleep(0)
        taker.cancel()
        await put
        try:
            assert (await taker)[1] == n
        except asyncio.CancelledError:
            assert await both.take("x", int, timeout_s=5) == ("x", n)
        assert await both.count("x", int) == 0


async def test_leases_limits_and_transactions(both: AsyncTupleSpace, clock: Clock) -> None:
    await both.configure("task", deliveries=2, bound=2)
    await both.put_many([("task", 1), ("task", 2)])
    with pytest.raises(NameFull):
        await both.put("task", 3, timeout_s=0)
    first = await both.take("task", int, lease_s=10)
    await both.renew(first, 20)
    await both.release(first, "no weights")
    second = await both.take("task", int, lease_s=5)
    clock.advance(6)
    with pytest.raises(LeaseExpired):
        await both.ack(second)
    assert (await both.take(dead_letters("task"), int, timeout_s=5)).deliveries == 3
    async with both.transaction() as change:
        moved = await change.take("task", 2)
        change.put("done", moved[1])
    assert await both.take("done", int, timeout_s=5) == ("done", 2)
    with pytest.raises(ZeroDivisionError):
        async with both.transaction() as change:
            change.put("done", 1 // 0)
    assert await both.put("once", 1, once="k") is True
    assert await both.put("once", 1, once="k") is False
    assert await both.put("brief", 1, ttl_s=1) is True
    clock.advance(2)
    with pytest.raises(BusTimeout):
        await both.take("brief", int, timeout_s=0.05)
    assert await both.clear("once") == 1
    assert "task" in await both.names()


async def test_iteration_ends_when_nothing_comes(both: AsyncTupleSpace) -> None:
    await both.put_many([("frames", "w", n) for n in range(4)])
    assert [t[2] async for t in both.takes("frames", str, int, timeout_s=0.1)] == [0, 1, 2, 3]


async def test_a_blocked_task_outlives_the_server(program: str, tmp_path: Path) -> None:
    first = Server.start(tmp_path, program=program, fsync="always")
    async with AsyncTupleSpace.connect(tmp_path, patience_s=30) as space:
        taker = asyncio.create_task(space.take("x", int, timeout_s=30))
        await blocked(space, "x", 1)
        assert first.pid is not None
        os.kill(first.pid, signal.SIGKILL)
        until(lambda: not first.alive())
        with Server.start(tmp_path, program=program):
            await space.put("x", 5)
            assert await taker == ("x", 5)


async def test_a_transaction_over_two_servers_is_refused(server: Server, tmp_path: Path) -> None:
    with Server.start(tmp_path) as second:
        async with AsyncTupleSpace.connect(server.url, second.url, space="two") as space:
            with pytest.raises(ServersDiffer):  # noqa: PT012
                async with space.transaction() as change:
                    for n in range(20):
                        change.put(f"name{n}", n)
            await space.put_many([(f"name{n}", n) for n in range(20)])
            assert [(await space.take(f"name{n}", int))[1] for n in range(20)] == list(range(20))


def test_both_clients_have_the_same_operations() -> None:
    """One core: what the asyncio client offers, it offers with the parameters of the blocking one."""
    for name, method in inspect.getmembers(AsyncTupleSpace, inspect.isfunction):
        if not name.startswith("_"):
            assert inspect.signature(method).parameters == inspect.signature(getattr(TupleSpace, name)).parameters, name
