"""The network between a client and the server: cut, slow, encrypted, or leading to something that is no server."""

from __future__ import annotations

import shutil
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from steersman.bus import Server, ServerFailed, ServerLost, ServerRefused, TupleSpace
from steersman.bus.connection import function, pack
from tests.waiting import until

from .conftest import later
from .proxy import Proxy


@pytest.fixture
def wire(server: Server) -> Iterator[Proxy]:
    with Proxy((server.address.host, server.address.port)) as proxy:
        yield proxy


def through(server: Server, port: int, space: str, patience_s: float = 20.0) -> TupleSpace:
    url = f"redis://steersman:{server.address.password}@127.0.0.1:{port}"
    return TupleSpace.connect(url, space=space, patience_s=patience_s)


def test_a_client_that_reached_itself_has_reached_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who asks for a port of this machine until its server is back is one day given that port to ask from."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    create = socket.create_connection
    monkeypatch.setattr(socket, "create_connection", lambda to, limit_s: create(to, limit_s, source_address=to))
    space = TupleSpace.connect(f"redis://steersman:secret@127.0.0.1:{port}", patience_s=0.1)
    with pytest.raises(ServerLost, match="does not answer"):
        space.put("x", 1)


@pytest.mark.slow
def test_a_blocked_take_resumes_after_a_cut_of_seconds(server: Server, wire: Proxy) -> None:
    near = TupleSpace.connect(server.url, space="cut")
    far = through(server, wire.port, "cut")
    taker = later(lambda: far.take("x", int, timeout_s=20))
    until(lambda: near.statistics("x")["x"].blocked == 1)
    wire.cut()
    near.put("x", 7)
    mender = threading.Timer(2.0, wire.mend)
    mender.start()
    assert taker.result(20) == ("x", 7)
    assert near.count("x", int) == 0, "taken once"
    mender.join()


def test_a_taker_cut_off_holds_up_nobody(server: Server, wire: Proxy) -> None:
    near = TupleSpace.connect(server.url, space="holds up")
    far = through(server, wire.port, "holds up", patience_s=0.5)
    gone = later(lambda: far.take("x", int, timeout_s=20))
    until(lambda: near.statistics("x")["x"].blocked == 1)
    wire.cut()
    with pytest.raises(ServerLost, match="names"):
        gone.result(20)
    near.put("x", 7)
    assert near.take("x", int, timeout_s=5) == ("x", 7)


def test_requests_repeated_after_cuts_are_done_once(server: Server, wire: Proxy) -> None:
    """The wire breaks at random moments; a request whose answer was lost is repeated and not done again."""
    near, far = TupleSpace.connect(server.url, space="repeat"), through(server, wire.port, "repeat")
    stop = threading.Event()

    def saw() -> None:
        while not stop.wait(0.03):
            wire.cut()
            wire.mend()

    sawing = threading.Thread(target=saw)
    sawing.start()
    try:
        taken = []
        for n in range(150):
            far.put("x", n)
            held = far.take("x", int, timeout_s=20, lease_s=60)
            far.ack(held)
            taken.append(held[1])
    finally:
        stop.set()
        sawing.join()
    assert taken == list(range(150))
    looked = near.statistics("x")["x"]
    assert (looked.put, looked.done, looked.ready, looked.leases) == (150, 150, 0, 0)


def test_a_slow_client_holds_up_nobody(server: Server) -> None:
    """A client that asks for 20 MB and never reads them; the others are served meanwhile."""
    with TupleSpace.connect(server.url, space="slow") as space:
        space.put_many([("x", bytes(1000)) for _ in range(20_000)])
        words = (b"", b"sleeper", b"1", b"", b"read", b"-1", b"0", b".y", b"", b"", b"")
        ask = pack(b"FCALL", function("take"), b"1", b"steersman:slow:{x}", *words)
        with socket.create_connection((server.address.host, server.address.port)) as sleeper:
            sleeper.sendall(pack(b"AUTH", b"steersman", server.address.password))
            assert sleeper.recv(100) == b"+OK\r\n"
            sleeper.sendall(ask)
            began = time.monotonic()
            for n in range(200):
                space.put("y", n)
                assert space.take("y", int) == ("y", n)
            assert time.monotonic() - began < 100
        space.clear("x")


def test_what_is_no_server_is_given_up_with_one_error() -> None:
    """Not the protocol, or the promise of a gigabyte that never comes."""
    for answer in (b"HTTP/1.1 400 Bad Request\r\n\r\n", b"$1073741824\r\nabc"):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            speaker = threading.Thread(target=_say, args=(listener, answer), daemon=True)
            speaker.start()
            space = TupleSpace.connect(f"redis://127.0.0.1:{listener.getsockname()[1]}", patience_s=0.3)
            with pytest.raises(ServerLost, match="does not answer"):
                space.put("x", 1)
            space.close()


def _say(listener: socket.socket, answer: bytes) -> None:
    kept = []
    try:
        while True:
            client, _ = listener.accept()
            client.recv(100)
            client.sendall(answer)
            kept.append(client)
    except OSError:
        for client in kept:
            client.close()


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    if shutil.which("openssl") is None:
        pytest.skip("no openssl to make a certificate with")
    home = tmp_path_factory.mktemp("tls")
    key, certificate = str(home / "key.pem"), str(home / "certificate.pem")
    words = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", certificate]
    words += ["-days", "2", "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run(words, check=True, capture_output=True)
    return certificate, key


def test_tls_is_spoken_where_the_address_asks_for_it(server: Server, certificate: tuple[str, str]) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    with Proxy((server.address.host, server.address.port), context) as wire:
        url = f"rediss://steersman:{server.address.password}@127.0.0.1:{wire.port}"
        trusted = f"{url}?ca={certificate[0]}"
        with TupleSpace.connect(trusted, space="tls") as space:
            space.put("x", 1, bytes(3_000_000))
            assert space.take("x", int, bytes) == ("x", 1, bytes(3_000_000))
        with pytest.raises(ServerRefused, match="TLS"):
            TupleSpace.connect(url, patience_s=1).put("x", 1)


def test_a_server_with_a_certificate_speaks_tls_only(
    program: str, tmp_path: Path, certificate: tuple[str, str]
) -> None:
    """A binary that was built without TLS says so and does not start."""
    own, key = certificate
    asked = later(lambda: Server.start(tmp_path, program=program, tls=(own, key, own)))
    if refused := asked.exception(60):
        assert isinstance(refused, ServerFailed)
        assert "tls" in str(refused).lower()
        return
    with asked.result() as server, TupleSpace.connect(server.url) as space:
        assert server.url.startswith("rediss://")
        space.put("x", 1)
        assert space.take("x", int) == ("x", 1)
        plain = TupleSpace.connect(server.url.replace("rediss", "redis"), patience_s=0.5)
        with pytest.raises(ServerLost):
            plain.put("x", 1)
