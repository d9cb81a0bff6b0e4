"""The server of the page: who may look and who may act, and where it is found."""

from __future__ import annotations

import contextlib
import gc
import http.client
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from steersman.dashboard.errors import PortTaken
from steersman.dashboard.live.access import Access
from steersman.journal.run_directory import RunDirectory
from steersman.system.errors import BadRequest
from tests.dashboard.serving import FROM_THE_PAGE, TOKENS, serving


def test_without_the_right_token_there_is_nothing(made: RunDirectory) -> None:
    with serving(made) as served:
        paths = ["/", "/run/fold-0001/", "/run/fold-0001/state", "/static/run.js", "/metrics", "/runs", "/nothing"]
        for token in ("", "wrong", TOKENS.act[:-1]):
            assert {served.ask(path, token).status for path in paths} == {403}
            assert served.say("fold-0001", ["pause"], token).status == 403
        assert served.ask("/run/fold-0001/state").status == 200


def test_a_server_that_ends_closes_the_connection_of_a_slow_reader(made: RunDirectory) -> None:
    with serving(made, look=lambda _: [{"text": "x" * 30_000_000}]) as served:
        slow = http.client.HTTPConnection("127.0.0.1", served.dashboard.port)
        slow.request("GET", "/run/fold-0001/messages", headers={"Cookie": f"{TOKENS.cookie}={TOKENS.look}"})
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


def test_a_link_s_token_moves_into_a_cookie_that_no_script_reads(made: RunDirectory) -> None:
    with serving(made) as served:
        reply = served.ask(f"/?token={TOKENS.act}", "")
        assert (reply.status, reply.headers["Location"]) == (303, "/")
        cookie = reply.headers["Set-Cookie"]
        assert cookie.startswith(f"{TOKENS.cookie}={TOKENS.act}")
        assert {"HttpOnly", "SameSite=strict"} <= set(cookie.split("; "))


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:9", 200),
        ("localhost:8080", 200),
        ("evil.example", 403),
        ("127.0.0.1.evil.example:9", 403),
        ("", 403),
    ],
)
def test_a_name_that_another_site_made_point_here_gets_nothing(made: RunDirectory, host: str, status: int) -> None:
    """The port of the Host header is not looked at: `ssh -L` may map another."""
    with serving(made) as served:
        connection = http.client.HTTPConnection("127.0.0.1", served.dashboard.port, timeout=120)
        connection.putrequest("GET", "/run/fold-0001/state", skip_host=True)
        connection.putheader("Host", host)
        connection.putheader("Cookie", f"{TOKENS.cookie}={TOKENS.act}")
        connection.endheaders()
        assert connection.getresponse().status == status
        connection.close()


def test_who_has_the_link_and_sends_it_from_the_page_acts(made: RunDirectory) -> None:
    said: list[list[str]] = []

    def tell(directory: RunDirectory, words: list[str]) -> str:
        said.append(words)
        if words[0] == "stop":
            raise BadRequest("segment w0.1 has ended")
        return " ".join(words)

    with serving(made, tell=tell) as served:
        assert served.say("fold-0001", ["pin", "w0.1:2"]).values == {"done": "pin w0.1:2"}
        refused = served.say("fold-0001", ["stop", "w0.1"])
        assert (refused.status, refused.values) == (409, {"refused": "segment w0.1 has ended"})
        before = list(said)
        assert served.say("fold-0001", ["pause"], TOKENS.look).status == 403
        assert served.say("fold-0001", ["pause"], **{"Sec-Fetch-Site": "cross-site"}).status == 403
        body = b'["pause"]'
        assert served.ask("/run/fold-0001/tell", data=body).status == 403  # without the page's header
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


def test_tokens_and_port_are_kept_for_this_user_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An open page goes on after a restart of its server."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    first = Access.kept([tmp_path / "a"])
    assert Access.kept([tmp_path / "a"]) == first
    assert Access.kept([tmp_path / "b"]).act != first.act
    files = [file for file in (tmp_path / "state").rglob("*") if file.is_file()]
    assert {file.stat().st_mode & 0o777 for file in files} == {0o600}


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
    assert links[0] == links[1], "the same tokens and the same port"
    assert re.fullmatch(r"Dashboard: http://127\.0\.0\.1:\d+/\?token=[\w-]{32}\n", links[0][0])
    assert "ssh -L" in links[0][2]


def test_a_port_that_another_process_has_is_named(made: RunDirectory) -> None:
    with serving(made) as served, pytest.raises(PortTaken), serving(made, port=served.dashboard.port):
        pass
