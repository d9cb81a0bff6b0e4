"""The server of the page: who may look and who may act, and where it is found."""

from __future__ import annotations

import contextlib
import gc
import http.client
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from steersman.cli.dashboard import beside, idle
from steersman.dashboard.live import answers, server
from steersman.dashboard.live.access import HEADER, Access
from steersman.journal.run_directory import RunDirectory
from steersman.system.errors import BadInput, BadValue
from tests.dashboard.serving import FROM_THE_PAGE, TOKENS, serving
from tests.waiting import until


def test_without_the_right_token_there_is_nothing(made: RunDirectory) -> None:
    with serving(made) as served:
        views = ["state", "segments", "metrics", "points", "panels", "stderr", "messages"]
        paths = ["/metrics", "/runs", "/nothing", *(f"/run/fold-0001/{view}" for view in views)]
        for token in ("", "wrong", TOKENS.act[:-1]):
            assert {served.ask(path, token).status for path in paths} == {403}
            assert served.ask(f"/run/fold-0001/state?token={TOKENS.act}", token).status == 403, "no address holds it"
            assert served.ask("/run/fold-0001/state", "", Cookie=f"x={TOKENS.act}").status == 403
            for path in ("/", "/run/fold-0001/", "/run/no-such-run/", "/static/run.js"):  # the empty page, of any run
                reply = served.ask(path, token)
                assert (reply.status, b"fold" in reply.body) == (200, False)
            for key in ("fold-0001", "https%3Aevil.example"):
                reply = served.ask(f"/run/{key}", token)
                assert (reply.status, reply.headers["Location"]) == (307, f"./{key}/"), "relative, and never elsewhere"
            assert served.say("fold-0001", ["pause"], token).status == 403
        assert served.ask("/run/fold-0001/state").status == 200


@pytest.mark.slow
def test_a_server_that_ends_closes_the_connection_of_a_slow_reader(made: RunDirectory) -> None:
    with serving(made, look=lambda _: [{"text": "x" * 30_000_000}]) as served:
        slow = http.client.HTTPConnection("127.0.0.1", served.dashboard.port)
        slow.request("GET", "/run/fold-0001/messages", headers={HEADER: TOKENS.look})
        answer = slow.getresponse()
    with contextlib.closing(slow), pytest.raises((ConnectionError, http.client.IncompleteRead)):
        answer.read()
    gc.collect()  # it warns of a socket that nobody has closed


def test_a_websocket_gets_nothing_without_the_token(made: RunDirectory) -> None:
    upgrade = {
        "Upgrade": "websocket",
        "Connection": "Upgrade",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "eA==",
    }
    with serving(made) as served:
        assert served.ask("/run/fold-0001/state", "wrong", None, **upgrade).status == 403


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:9", 200),
        ("localhost:8080", 200),
        ("evil.example", 403),
        ("127.0.0.1.evil.example:9", 403),
        ("", 403),
        ("[", 403),
        ("[::1]:80", 200),
        ("evil@127.0.0.1", 403),
        ("127.0.0.1:9@evil.example", 403),
        ("hub.example", 200),
        ("HUB.example:443", 200),
        ("hub.example.evil", 403),
    ],
)
def test_a_name_that_another_site_made_point_here_gets_nothing(made: RunDirectory, host: str, status: int) -> None:
    """The port of the Host header is not looked at: `ssh -L` may map another."""
    with serving(made, hosts=("hub.example",)) as served:
        connection = http.client.HTTPConnection("127.0.0.1", served.dashboard.port, timeout=120)
        connection.putrequest("GET", "/run/fold-0001/state", skip_host=True)
        connection.putheader("Host", host)
        connection.putheader(HEADER, TOKENS.act)
        connection.endheaders()
        assert connection.getresponse().status == status
        connection.close()


def test_who_has_the_link_and_sends_it_from_the_page_acts(made: RunDirectory) -> None:
    said: list[list[str]] = []

    def tell(directory: RunDirectory, words: list[str]) -> str:
        said.append(words)
        if words[0] == "stop":
            raise BadInput("segment w0.1 has ended")
        return " ".join(words)

    with serving(made, tell=tell) as served:
        assert served.say("fold-0001", ["pin", "w0.1:2"]).values == {"done": "pin w0.1:2"}
        refused = served.say("fold-0001", ["stop", "w0.1"])
        assert (refused.status, refused.values) == (409, {"refused": "segment w0.1 has ended"})
        before = list(said)
        assert served.say("fold-0001", ["pause"], TOKENS.look).status == 403
        body = b'["pause"]'
        assert served.ask("/run/fold-0001/tell", "", body).status == 403  # another site cannot send the page's header
        assert served.ask("/run/fold-0001/tell", data=b'{"words": 1}', **FROM_THE_PAGE).status == 409
        assert served.ask("/run/fold-0001/tell", data=b"[" + b'"x",' * 9000, **FROM_THE_PAGE).status == 413
        assert said == before
    with serving(made) as served:
        assert served.say("fold-0001", ["pause"]).status in (404, 405)  # nothing behind the buttons that are not there
    assert said == before


@pytest.mark.parametrize(
    "path",
    ["/static/../server.py", "/static/%2e%2e%2fserver.py", "/static/..%5cserver.py", "/run/..%2f..%2fetc/state",
     "/run/fold-0001/..%2frun.yaml", "/run/fold-0001/stderr?segment=../../run.yaml", "/static/__init__.py"],
)  # fmt: skip
def test_no_path_leads_out_of_what_is_served(made: RunDirectory, path: str) -> None:
    with serving(made) as served:
        reply = served.ask(path)
        assert reply.status in (404, 405) or reply.values == {"text": ""}
        assert b"sequence" not in reply.body


def test_each_start_has_new_tokens_and_the_same_port(tmp_path: Path) -> None:
    """Whoever took the port of a server that had ended may have heard the token of an open page."""
    first, again, other = (Access.new([tmp_path / name]) for name in "aab")
    assert first.port == again.port != other.port
    assert len({first.act, first.look, again.act, again.look, other.act, other.look}) == 6


@pytest.mark.parametrize(
    "base", ["/user/me/proxy/8000", "/user/me/proxy/8000/", "user/me/proxy/8000", "//user/me/proxy/8000"]
)
def test_a_page_below_the_path_of_a_proxy_is_the_same(made: RunDirectory, base: str) -> None:
    """Whether the proxy passes the path on, or takes it off. What the page asks for is named from where it lies."""
    assert server.path_of(base) == "/user/me/proxy/8000"
    assert server.path_of("/") == server.path_of("") == ""
    with serving(made, base=base) as served:
        for path in ("", "/user/me/proxy/8000"):
            assert served.ask(f"{path}/run/fold-0001/state").values["name"] == "fold-0001"
            assert served.ask(f"{path}/run/fold-0001/state", "").status == 403
            for page, up in (("/", "."), ("/run/fold-0001/", "../..")):
                body = served.ask(path + page).body.decode()
                found = re.findall(r"""(?:src|href|"steersman/":)[= ]"([^"]+)""", body)
                assert {address for address in found if not address.startswith((f"{up}/static/", "#"))} == {"data:,"}
        assert served.ask("/user/me/proxy/80001/run/fold-0001/state").status == 404
    for file in (*answers.PAGE.iterdir(), *answers.scripts().values()):
        assert not re.search(r"""["'`](/run|/static|/")""", file.read_text()), file


def test_connections_that_ask_nothing_are_closed(made: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "IDLE_S", 0)
    with serving(made) as served:
        address = ("127.0.0.1", served.dashboard.port)
        with socket.create_connection(address) as silent, socket.create_connection(address) as slow:
            slow.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n")
            for each in (silent, slow):
                each.settimeout(60)
                with contextlib.suppress(ConnectionResetError):
                    assert each.recv(1) == b""
        assert served.ask("/run/fold-0001/state").status == 200


def test_a_page_may_load_nothing_from_elsewhere(made: RunDirectory) -> None:
    with serving(made) as served:
        policy = served.ask("/run/fold-0001/").headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "unsafe-eval" not in policy
        assert "connect-src 'self'" in policy


@pytest.mark.slow
def test_the_command_prints_its_links_and_ends_on_a_signal(made: RunDirectory, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "steersman.cli", "dashboard", str(made.path)]
    environment = os.environ | {"XDG_STATE_HOME": str(tmp_path)}
    links = []
    for _ in range(2):
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
            assert process.stdout is not None
            links.append([process.stdout.readline() for _ in range(3)])
            process.send_signal(signal.SIGTERM)
            assert process.wait(timeout=120) == 0
    parts = [re.fullmatch(r"Dashboard: http://127\.0\.0\.1:(\d+)/#token=([\w-]{32})\n", each[0]) for each in links]
    assert parts[0] is not None
    assert parts[1] is not None
    assert (parts[0][1] == parts[1][1], parts[0][2] == parts[1][2]) == (True, False)
    assert "ssh -L" in links[0][2]


def test_the_time_of_a_page_beside_a_run_counts_from_the_end_of_the_run() -> None:
    """A night's run is looked at in the morning."""

    class Run:
        looked, goes_on = time.monotonic() - 1e6, True

    run = Run()
    assert not idle(run, 600.0)
    run.goes_on = False
    assert not idle(run, 600.0)
    run.looked -= 601
    assert idle(run, 600.0)


def test_a_port_that_another_process_has_is_named(made: RunDirectory) -> None:
    with serving(made) as served, pytest.raises(BadValue), serving(made, port=served.dashboard.port):
        pass


def test_a_link_that_is_dead_is_not_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page beside a run may have ended, or been killed, before the run did."""
    ends = tmp_path / "ends"
    os.mkfifo(ends)
    served = tmp_path / "served"
    served.write_text(f"#!/bin/sh\nfor n in 1 2 3; do echo Dashboard: $n; done\nread end < {ends}\n")
    served.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(served))
    said = beside(tmp_path / "fold-0001")
    assert said() == "Dashboard: 1"
    ends.write_text("now\n")
    until(lambda: not said())


def test_a_page_that_did_not_start_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    assert "steersman dashboard" in beside(tmp_path / "fold-0001")()
