"""A dashboard's server in a thread of the test, and requests to it as a browser or a stranger sends them."""

from __future__ import annotations

import json
import threading
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from steersman.dashboard.live.access import HEADER, Access
from steersman.dashboard.live.gallery import Gallery
from steersman.dashboard.live.server import Dashboard, Look, Tell, application
from steersman.journal.run_directory import RunDirectory

TOKENS = Access("act-token", "look-token", 0)
FROM_THE_PAGE = {"Content-Type": "application/json"}


@dataclass
class Reply:
    status: int
    body: bytes
    headers: Any

    @property
    def values(self) -> Any:
        return json.loads(self.body)


@dataclass
class Served:
    gallery: Gallery
    dashboard: Dashboard

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.dashboard.port}"

    def ask(self, path: str, token: str = TOKENS.act, data: bytes | None = None, **headers: str) -> Reply:
        """One request with a token, redirections not followed."""
        given = {HEADER: token} if token else {}
        request = urllib.request.Request(self.address + path, data, {**given, **headers})
        try:
            with _opener.open(request, timeout=120) as reply:
                return Reply(reply.status, reply.read(), reply.headers)
        except urllib.error.HTTPError as error:
            with error:
                return Reply(error.code, error.read(), error.headers)

    def say(self, key: str, words: list[str], token: str = TOKENS.act, **headers: str) -> Reply:
        return self.ask(f"/run/{key}/tell", token, json.dumps(words).encode(), **(FROM_THE_PAGE | headers))


class _Stay(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        return None


_opener = urllib.request.build_opener(_Stay)


@contextmanager
def serving(
    *runs: RunDirectory, folder: Path | None = None, port: int = 0, tell: Tell | None = None, look: Look | None = None,
    baseline: Path | None = None, trusted: bool | None = False, base: str = "", hosts: tuple[str, ...] = (),
    tokens: Access = TOKENS,
) -> Iterator[Served]:  # fmt: skip
    gallery = Gallery([run.path for run in runs], folder, baseline=baseline, trusted=trusted)
    access = replace(tokens, hosts=hosts)
    dashboard = Dashboard(application(gallery, access, base=base, tell=tell, look=look), access, port)
    thread = threading.Thread(target=dashboard.serve)
    thread.start()
    try:
        yield Served(gallery, dashboard)
    finally:
        dashboard.stop()
        thread.join()


def unpacked(body: bytes) -> tuple[dict[str, Any], dict[str, Any]]:
    """`meta` and columns of what dashboard/live/packing.py packs."""
    import numpy as np

    length = int.from_bytes(body[:4], "little")
    header = json.loads(body[4 : 4 + length])
    columns = {}
    for name, kind, shape, offset in header["columns"]:
        count = int(np.prod(shape))
        columns[name] = np.frombuffer(body, "<" + kind, count, 4 + length + offset).reshape(shape)
    return header["meta"], columns
