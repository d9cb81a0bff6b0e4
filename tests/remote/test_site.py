"""What is asked of a site: answers through SDK and engine as they travel, and every way in which none comes."""

from __future__ import annotations

import errno
import inspect
import os
import re
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from steersman.executors.errors import ServiceSilent
from steersman.remote import function, known, pace
from steersman.remote import site as sites
from steersman.remote.check import check
from steersman.remote.errors import AnswerLost, EndpointFailed
from steersman.remote.site import WITHIN_S, RemoteSite
from steersman.system.errors import BadInput, BadValue, EngineError
from tests.remote.conftest import Direct
from tests.remote.service import Refused

Make = Callable[..., RemoteSite]


def test_what_is_asked_is_answered_by_the_steersman_there(site: Make, tmp_path: Path) -> None:
    look, names = site().ask("x", ("look", {}), ("names", {}))
    assert (look["state"], look["path"], names) == ("unknown", str(tmp_path / "runs" / "x"), {})


def test_its_function_is_registered_once_and_again_when_the_service_forgot_it(service: Direct, site: Make) -> None:
    for _ in range(2):
        site().facts()
    assert len(service.functions) == 1
    service.functions.clear()
    assert site().facts()["steersman"]
    assert len(service.functions) == 1


def test_nothing_of_this_module_goes_with_the_function(site: Make) -> None:
    """Only its source travels, so that any Python on both sides will do."""
    namespace: dict[str, Any] = {}
    exec("from __future__ import annotations\n" + inspect.getsource(function.steersman), namespace)
    request = {
        "python": "",
        "program": ["-c", "print(input())"],
        "input": "so",
        "until": time.time() + WITHIN_S,
        "within_s": WITHIN_S,
    }
    assert namespace["steersman"](request)["out"] == "so\n"


def test_credentials_of_the_endpoint_stay_with_it(site: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLOBUS_COMPUTE_CLIENT_SECRET", "secret")
    monkeypatch.setenv("KEPT", "here")
    names = site().run_source("import os\nprint(*os.environ)", "", 30).split()
    assert "KEPT" in names
    assert not any(name.startswith(("GLOBUS_", "GC_")) for name in names)


def test_what_is_wrong_there_comes_in_the_words_of_the_site(site: Make) -> None:
    with pytest.raises(BadInput) as refused:
        site().ask("x", ("cancel", {"within_s": 1}))
    assert re.match("at here: .*x", str(refused.value))
    with pytest.raises(EngineError):
        site().run_source("raise SystemExit('no')", "", 30)


def test_a_python_without_steersman_is_told_from_none(site: Make, tmp_path: Path) -> None:
    bare = tmp_path / "bare"
    bare.write_text("#!/bin/sh\necho \"$0: No module named 'steersman'\" >&2\nexit 1\n")
    bare.chmod(0o755)
    for python in (str(bare), str(tmp_path / "none")):
        with pytest.raises(EngineError) as missing:
            site(python=python).ask("x", ("look", {}))
        assert missing.value.values["python"] == python


def test_an_unknown_endpoint_is_named(site: Make) -> None:
    with pytest.raises(BadValue):
        site(uuid="00000000-0000-0000-0000-00000000000f").ask("x", ("look", {}))


@pytest.mark.slow
def test_an_endpoint_that_is_offline_is_told_at_once(service: Direct, site: Make) -> None:
    service.is_online = False
    began = time.monotonic()
    with pytest.raises(ServiceSilent, match="offline"):
        site().ask("x", ("look", {}))
    assert time.monotonic() - began < WITHIN_S / 2
    with pytest.raises(ServiceSilent, match="offline"):
        list(check(site()))


def test_who_has_given_up_is_not_served_late(service: Direct, site: Make) -> None:
    """Else a `cancel` that was given up would end a run that was resumed since."""
    with pytest.raises(ServiceSilent, match="not answered"):
        site().ask("x", ("look", {}), within_s=0.0)


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (403, "FORBIDDEN", EngineError),
        (401, "AUTHENTICATION_FAILED", EngineError),
        (413, "PAYLOAD_TOO_LARGE", BadInput),
        (429, "TOO_MANY_REQUESTS", ServiceSilent),
        (500, "INTERNAL", ServiceSilent),
        (422, "SEMANTICALLY_INVALID", EndpointFailed),
    ],
)
def test_a_refusal_of_the_service_is_an_error_of_ours(
    status: int, code: str, kind: type[Exception], service: Direct, site: Make
) -> None:
    service.refuse["POST", "/v3/endpoints"] = Refused(status, code, "in its own words")
    with pytest.raises(kind):
        site().ask("x", ("look", {}))


def test_an_answer_that_the_service_has_dropped(service: Direct, site: Make) -> None:
    service.refuse["GET", "/v2/tasks"] = Refused(404, "TASK_NOT_FOUND", "gone")
    with pytest.raises(AnswerLost):
        site().ask("x", ("look", {}))


def test_an_answer_that_is_too_large_for_the_service(site: Make) -> None:
    with pytest.raises(AnswerLost):
        site().run_source("print('x' * 2**24)", "", 60)


def test_a_request_that_is_too_large_is_not_sent(service: Direct, site: Make) -> None:
    asked = len(service.requests)
    with pytest.raises(BadInput):
        site().ask("x", ("start", {"packed": os.urandom(7 * 2**20)}))
    assert len(service.requests) == asked


def test_a_laptop_without_network(site: Make) -> None:
    offline = site()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    for web in (offline._client._compute_web_client.v2, offline._client._compute_web_client.v3):
        web.base_url = f"http://127.0.0.1:{port}/"
    with pytest.raises(ServiceSilent) as silent:
        offline.ask("x", ("look", {}))
    assert os.strerror(errno.ECONNREFUSED) in silent.value.problem


def test_a_function_that_cannot_be_unpacked_there_is_told_of(site: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sites, "FUNCTION", "def steersman(request):\n    raise SystemError('unknown opcode')\n")
    with pytest.raises(EndpointFailed) as failed:
        site().ask("x", ("look", {}))
    assert "unknown opcode" in failed.value.problem


def test_the_service_is_never_asked_more_often_than_it_allows() -> None:
    now, asked = [0.0], []

    def sleep(seconds: float) -> None:
        now[0] += seconds

    paced = pace.RateLimit(lambda: now[0], sleep)
    for _ in range(100):
        paced.wait()
        asked.append(now[0])
    assert all(sum(t <= other < t + pace.WITHIN_S for other in asked) <= pace.REQUESTS for t in asked)


def test_what_is_known_of_endpoints_is_a_file_without_secrets(service: Direct, site: Make, tmp_path: Path) -> None:
    site().facts()
    known.keep_endpoint(
        known.KnownEndpoint("here", "00000000-0000-0000-0000-000000000001", options={"account": "science"})
    )
    assert known.endpoint("00000000-0000-0000-0000-000000000001").name == "here"
    assert "token" not in "".join(path.read_text() for path in known.home().rglob("*") if path.is_file())
    known.forget_endpoint("here")
    assert not known.endpoints()


def test_a_program_that_does_not_end_is_given_up(site: Make) -> None:
    with pytest.raises(ServiceSilent, match="not answered"):
        site().run_source("import time\ntime.sleep(60)", "", 1.0)
