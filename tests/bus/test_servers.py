"""Names spread over many servers: the same results for any number, and a dead one blocks only its own."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from steersman.bus import Server, ServerFailed, ServerLost, Servers, ServersDiffer, TupleSpace
from steersman.bus.addresses import read
from tests.waiting import until

from .conftest import later


@pytest.fixture(scope="module")
def three(program: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Server]]:
    with contextlib.ExitStack() as stack:
        yield [
            stack.enter_context(Server.start(tmp_path_factory.mktemp("one"), program=program, fsync="always"))
            for _ in range(3)
        ]


def story(space: TupleSpace) -> list[object]:
    """Something of everything, over twenty names."""
    names = [f"name{n}" for n in range(20)]
    space.put_many([(name, n, "a") for n in range(3) for name in names])
    told: list[object] = [space.names(), [space.count(name, int, str) for name in names]]
    held = [space.take(name, int, str, lease_s=60) for name in names]
    space.ack(held[::2])
    space.release(held[1::2])
    told += [space.take_many(name, int, "a") for name in names]
    told.append(space.put("name3", 1, once="k") and space.put("name3", 1, once="k"))
    with space.transaction() as change:
        change.take("name3", int)
        change.put("name3", 2)
    told.append(space.take("name3", int))
    told.append([(s.put, s.done, s.ready, s.leases) for s in space.statistics(*names).values()])
    return told


@pytest.mark.parametrize("n", [1, 2, 3])
def test_any_number_of_servers_gives_the_same_results(three: list[Server], n: int) -> None:
    with TupleSpace.connect(*(s.url for s in three[:n]), space=f"n{n}") as many:
        assert len({id(many._routes.pool(f"name{i}")) for i in range(20)}) == n, "the names really are spread"
        told = story(many)
    with TupleSpace.connect(three[0].url, space=f"n{n} alone") as one:
        assert told == story(one)


def test_a_transaction_over_two_servers_is_refused(three: list[Server]) -> None:
    with TupleSpace.connect(*(s.url for s in three), space="differ") as space:
        space.put("name0", 1)
        other = next(n for n in (f"name{i}" for i in range(20)) if space._routes.pool(n) != space._routes.pool("name0"))
        refused = pytest.raises(ServersDiffer, match=f"{other}")
        with refused, space.transaction() as change:
            change.take("name0", int)
            change.put(other, 1)
        assert space.count("name0", int) == 1


def test_one_servers_death_blocks_only_its_names_and_says_so(
    program: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    homes = [tmp_path / "a", tmp_path / "b"]
    with contextlib.ExitStack() as stack:
        for home in homes:
            stack.enter_context(Server.start(home, program=program, fsync="always"))
        space = stack.enter_context(TupleSpace.connect(*homes, space="dies", patience_s=30))
        hasty = stack.enter_context(TupleSpace.connect(*homes, space="dies", patience_s=0.3))
        names = [f"name{n}" for n in range(20)]
        lost = [name for name in names if space._routes.pool(name) is space._routes.pools[0]]
        space.put_many([(name, 1) for name in names])
        dead = Server.start(homes[0], program=program)
        assert dead.pid is not None
        os.kill(dead.pid, signal.SIGKILL)
        with caplog.at_level(logging.WARNING, "steersman.bus"):
            waiting = later(lambda: space.take(lost[0], int))
            until(lambda: f"{dead.address} does not answer" in caplog.text)
        for name in sorted(set(names) - set(lost)):
            assert space.take(name, int, timeout_s=5) == (name, 1)
        with pytest.raises(ServerLost, match=f"{dead.address} .*0.3 s"):
            hasty.take(lost[1], int)
        assert not waiting.done()
        stack.enter_context(Server.start(homes[0], program=program))
        assert waiting.result(30) == (lost[0], 1)
        assert [space.take(name, int) for name in lost[1:]] == [(name, 1) for name in lost[1:]]


def test_servers_of_one_directory_are_one_bus(tmp_path: Path) -> None:
    """Families that are named are spread, all else keeps one order; who dies comes back, the others stay."""
    with Servers.start(tmp_path, 3, spread=("stop",), fsync="always") as servers, TupleSpace.connect(tmp_path) as space:
        stops = [f"stop.w{n}" for n in range(20)]
        rest = ["event", "start", "start.3", "stopped"]
        first, *others = space._routes.pools
        assert {id(space._routes.pool(name)) for name in rest} == {id(first)}
        assert {id(space._routes.pool(name)) for name in stops} == {id(pool) for pool in others}
        space.put_many([(name, 1) for name in [*stops, *rest]])
        pids, now = servers.pids, servers
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
            until(lambda: [server.pid for server in now.gone] == [pid])  # noqa: B023
            now = Servers.start(tmp_path, 3, spread=("stop",), fsync="always")
            assert now.alive()
            assert len(now.pids - pids) == len(pids - now.pids)
        assert not now.pids & pids
        last = now.each[2].pid
        assert last is not None
        os.kill(last, signal.SIGKILL)
        until(lambda: now.each[2].gone)
        with pytest.raises(ServerFailed):
            Servers.start(tmp_path, 3, spread=("stop",), program="/bin/false")
        assert [server.gone for server in now.each] == [False, False, True], "those that were there stay"
        now = Servers.start(tmp_path, 3, spread=("stop",), fsync="always")
        assert space.names() == sorted([*stops, *rest])
        assert all(space.take(name, int, timeout_s=5) == (name, 1) for name in [*stops, *rest])
        now.stop()
        assert now.gone == []
    assert str(read(tmp_path)) == str(servers.each[0].address), "one of them, where one is enough"
    with Server.start(tmp_path) as alone:
        assert read(tmp_path) == alone.address


def node(program: str, home: Path) -> tuple[subprocess.Popen[bytes], Any]:
    """A bare server in cluster mode."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    port = port if port < 55000 else port - 20000  # the cluster bus listens 10000 above
    home.mkdir()
    words = ["--port", str(port), "--cluster-enabled", "yes", "--dir", str(home), "--save", "", "--bind", "127.0.0.1"]
    process = subprocess.Popen([program, *words], stdout=subprocess.DEVNULL)
    client: Any = redis.Redis(port=port)

    def up() -> bool:
        with contextlib.suppress(redis.exceptions.ConnectionError):
            return bool(client.ping())
        return False

    until(up)
    return process, client


@pytest.mark.slow
def test_a_cluster_gives_the_same_results(program: str, tmp_path: Path) -> None:
    """Two nodes with half of the slots each: keys carry hash tags, and who asks the wrong node is sent to the right."""
    (first, a), (second, b) = node(program, tmp_path / "a"), node(program, tmp_path / "b")
    try:
        a.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 8191)
        b.execute_command("CLUSTER", "ADDSLOTSRANGE", 8192, 16383)
        a.execute_command("CLUSTER", "MEET", "127.0.0.1", b.connection_pool.connection_kwargs["port"])
        until(lambda: all("cluster_state:ok" in str(x.execute_command("CLUSTER", "INFO")) for x in (a, b)))
        with TupleSpace.connect(f"redis://127.0.0.1:{a.connection_pool.connection_kwargs['port']}") as space:
            space.put_many([(f"name{n}", n) for n in range(20)])
            assert [space.take(f"name{n}", int)[1] for n in range(20)] == list(range(20))
            taker = later(lambda: space.take("name7", int, timeout_s=20))
            until(lambda: space.statistics("name7")["name7"].blocked == 1)
            space.put("name7", 1)
            assert taker.result(20) == ("name7", 1)
            assert b.dbsize() > 0
            assert a.dbsize() > 0
    finally:
        a.close()
        b.close()
        for process in (first, second):
            process.kill()
            process.wait()
