"""A site without endpoint and broker: the real SDK over HTTP, and behind it the real engine of an endpoint."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from globus_compute_common import messagepack
from globus_compute_common.messagepack.message_types import Task
from globus_compute_endpoint.engines import ThreadPoolEngine
from globus_compute_endpoint.engines.base import GCFuture
from globus_compute_sdk import Client
from globus_sdk.authorizers import AccessTokenAuthorizer

from steersman.executors import globus
from steersman.remote.known import KnownEndpoint
from steersman.remote.site import RemoteSite
from tests.remote.service import Refused, Service, listening

ENDPOINT = str(uuid.UUID(int=1))


class Direct(Service):
    """The service, with one endpoint behind it: its engine is given tasks as they travel.

    Attributes:
        is_online: whether the endpoint is; where it is not, tasks wait.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__("")
        self.tokens.add("token")
        self.endpoints[ENDPOINT] = {"endpoint_name": "here", "metadata": {"endpoint_version": "4.19.0"}}
        self.is_online = True
        self.engine = ThreadPoolEngine(max_workers=1)
        self.engine.start(endpoint_id=uuid.UUID(ENDPOINT), run_dir=str(folder))

    def online(self, endpoint: str) -> bool:
        return self.is_online

    def _submit(self, endpoint: str, asked: dict[str, Any]) -> dict[str, Any]:
        self._known(endpoint)
        group = str(uuid.uuid4())
        made: dict[str, list[str]] = {}
        for function, payloads in asked["tasks"].items():
            if function not in self.functions:
                raise Refused(404, "FUNCTION_NOT_FOUND", f"Function {function} could not be resolved")
            for payload in payloads:
                task = self._new_task(group, endpoint)
                made.setdefault(function, []).append(task)
                if self.is_online:
                    self._execute(task, self.functions[function]["function_code"] + payload, asked)
        return {"request_id": task, "task_group_id": group, "endpoint_id": endpoint, "tasks": made}

    def _execute(self, task: str, travelled: str, asked: dict[str, Any]) -> None:
        packed = messagepack.pack(Task(task_id=uuid.UUID(task), task_buffer=travelled))
        future = GCFuture(gc_task_id=uuid.UUID(task))
        future.add_done_callback(lambda done: self._on_result(done.result(), None))
        self.engine.submit(future, packed, {}, asked.get("result_serializers"))


@pytest.fixture
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Direct]:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    monkeypatch.chdir(tmp_path)  # the engine goes elsewhere
    monkeypatch.setenv("GC_TASK_UUID", "")  # it sets this
    service = Direct(tmp_path / "tasks")
    try:
        with listening(service, 0) as port:

            def client(name: str) -> Any:
                made = Client(authorizer=AccessTokenAuthorizer("token"), do_version_check=False)
                for web in (made._compute_web_client.v2, made._compute_web_client.v3):
                    web.base_url = f"http://127.0.0.1:{port}/"
                return made

            monkeypatch.setattr(globus, "client_of", client)
            yield service
    finally:
        service.engine.shutdown(block=True)


@pytest.fixture
def site(service: Direct, tmp_path: Path) -> Callable[..., RemoteSite]:
    def make(**values: Any) -> RemoteSite:
        return RemoteSite(
            KnownEndpoint(**{"name": "here", "uuid": ENDPOINT, "folder": str(tmp_path / "runs"), **values})
        )

    return make
