"""Training on a Globus Compute endpoint: what is missing is told, and a campaign trains there.

The service itself cannot be had in a test: nobody logs in here. What stands in its place is in globus_service.py.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from globus_compute_sdk import Client
from globus_sdk import GlobusConnectionError
from globus_sdk.authorizers import NullAuthorizer

from steersman.executors import globus
from steersman.executors.errors import BadSite, ServiceSilent
from steersman.executors.preflight import Finding, findings, ready
from steersman.executors.site import Site
from steersman.executors.site_files import load_site
from steersman.journal import file as journal
from steersman.journal.state import State
from tests.conftest import WITHOUT_SDK
from tests.executors.globus_service import ENDPOINT

SITE = f"simulation: {{workers: 1}}\ntraining: {{globus: {ENDPOINT}}}\n"


@pytest.fixture
def site(tmp_path: Path) -> Site:
    (tmp_path / "ours.yaml").write_text(SITE)
    return load_site(str(tmp_path / "ours.yaml"))


def test_an_endpoint_has_nodes_and_workers_of_its_own(site: Site) -> None:
    assert Site.model_validate(site.model_dump(mode="json")) == site, "as a run writes it down and reads it again"


def test_it_is_told_where_the_sdk_is_not_installed(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "globus_compute_sdk", None)
    with pytest.raises(BadSite, match=r"pip install 'steersman\[globus\]'"):
        ready(site)


@pytest.mark.parametrize(
    ("raised", "told"),
    [
        (GlobusConnectionError("no route", OSError("no route")), ServiceSilent),
        (ValueError("Both GLOBUS_COMPUTE_CLIENT_ID and GLOBUS_COMPUTE_CLIENT_SECRET must be set"), BadSite),
    ],
)
def test_credentials_that_cannot_be_used_are_told(
    raised: Exception, told: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The SDK of credentials in the environment asks the service when it is made."""

    def fail(**_: object) -> None:
        raise raised

    monkeypatch.setattr("globus_compute_sdk.Client", fail)
    for ask in (lambda: globus.client_of("polaris"), globus.login):
        with pytest.raises(told):
            ask()


def test_it_is_told_where_nobody_is_logged_in(site: Site, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The real SDK says so, without asking on the terminal."""
    monkeypatch.setenv("GLOBUS_COMPUTE_USER_DIR", str(tmp_path))
    with pytest.raises(BadSite, match="steersman remote login"):
        ready(site)
    found = {each.what: each for each in findings(site)}
    assert not found["training executor"].ok
    assert str(ENDPOINT) in found["training, scoring, labelling"].found


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, tuple[int, dict[str, str]]]]:
    """What the service answers by path, over HTTP to the SDK's own client, which is logged in."""
    told: dict[str, tuple[int, dict[str, str]]] = {}

    class Service(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            code, answer = told.get(self.path, (404, {"code": "RESOURCE_NOT_FOUND", "detail": f"no {self.path}"}))
            body = json.dumps(answer).encode()
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Service) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        client = Client(authorizer=NullAuthorizer(), do_version_check=False)
        client._compute_web_client.v2.base_url = f"http://127.0.0.1:{server.server_port}/"
        monkeypatch.setattr(globus, "client_of", lambda site: client)
        yield told
        server.shutdown()


@pytest.mark.slow
def test_the_service_is_asked_whether_the_endpoint_is_online(site: Site, answers: dict[str, Any]) -> None:
    """Before a run, and by `check`: what it says, and what to do."""
    path = f"/v2/endpoints/{ENDPOINT}/status"
    answers[path] = (200, {"status": "online"})
    ready(site)
    assert Finding("training executor", True, f"Globus Compute endpoint {ENDPOINT} is online") in findings(site)
    offline = (
        f"Globus Compute endpoint {ENDPOINT} is offline; start it on its machine: globus-compute-endpoint start NAME"
    )
    answers[path] = (200, {"status": "offline"})
    with pytest.raises(BadSite, match=re.escape(offline)):
        ready(site)
    assert Finding("training executor", False, offline) in findings(site)
    del answers[path]
    with pytest.raises(BadSite, match=f"{ENDPOINT}: no {path}$"):
        ready(site)


@pytest.mark.slow
@pytest.mark.parametrize(("ours", "there"), [("", {"train", "score"}), ("training: {workers: 1}\nscoring", {"score"})])
def test_a_campaign_calls_an_endpoint(ours: str, there: set[str], site: Site, tmp_path: Path) -> None:
    """Walkers here, training and scoring there, or scoring alone: nothing goes between them but the run directory."""
    if ours:
        (tmp_path / "ours.yaml").write_text(SITE.replace("training", ours))
    words = ["double_well", "--seed", "1", "--set", "frames=400", "--set", "train_every=200", "--site", "ours.yaml"]
    service = str(Path(__file__).with_name("globus_service.py"))
    command = [sys.executable, service, "tasks", "run", *words, "--run-dir", "run"]
    path = os.environ["PYTHONPATH"].removeprefix(WITHOUT_SDK + os.pathsep)
    environment = os.environ | {"GLOBUS_COMPUTE_USER_DIR": str(tmp_path), "PYTHONPATH": path}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    state = State(journal.read(tmp_path / "run" / "journal.jsonl"))
    assert done.returncode == 0, done.stderr[-3000:]
    assert state.models.newest, done.stderr
    assert state.scored_with
    called = Counter((tmp_path / "tasks").read_text().split())
    assert set(called) == {"warm_up"} | there
    assert called["train"] == len(state.models) * ("train" in there)
    assert (tmp_path / "run" / "parsl" / "000" / "simulation").exists()
    workers = (tmp_path / "run" / "parsl" / "000" / "training").exists()
    assert workers == ("train" not in there), "of ours, only where the endpoint does not train"
