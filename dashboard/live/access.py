"""Who may look, and who may act: two tokens, kept outside the runs so that an open page outlives its server.

A link carries a token once; the browser then keeps it in a cookie that no script reads and no other site sends. The
name in the Host header must be this machine's own: another name that points here is somebody else's page.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import os
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from starlette.requests import Request

from steersman.system.files import home, replace_file

HEADER = "x-steersman"  # a page of another site cannot send it without asking first
FIRST_PORT, PORTS = 20_000, 10_000
LOOPBACK = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True)
class Access:
    """The tokens of a server.

    Args:
        act: who has it may look and act.
        look: who has it may look only.
        port: of the first time; another server for the same runs takes the same one.
    """

    act: str
    look: str
    port: int

    @classmethod
    def kept(cls, runs: Iterable[Path]) -> Access:
        """Those of earlier servers for the same runs, or new ones; in a file that only this user can read."""
        named = hashlib.sha256("\0".join(sorted(str(run.resolve()) for run in runs)).encode()).hexdigest()[:16]
        state = home("XDG_STATE_HOME", ".local/state")
        file = (state or Path(os.devnull)) / "steersman" / "dashboard" / f"{named}.json"
        try:
            found = json.loads(file.read_text())
            return cls(str(found["act"]), str(found["look"]), int(found["port"]))
        except (OSError, ValueError, KeyError, TypeError):
            made = cls(secrets.token_urlsafe(24), secrets.token_urlsafe(24), FIRST_PORT + int(named, 16) % PORTS)
            with contextlib.suppress(OSError):  # without a home the next server has other ones
                file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                replace_file(file, json.dumps(vars(made)), mode=0o600)
            return made

    @property
    def cookie(self) -> str:
        """Cookies know no ports, so the name says which server this is."""
        return f"steersman-{self.port}"

    def may(self, request: Request) -> str:
        """What a request may do: "act", "look" or "" (nothing)."""
        if urlsplit("//" + request.headers.get("host", "")).hostname not in LOOPBACK:
            return ""
        bearer = request.headers.get("authorization", "").removeprefix("Bearer ")
        given = request.query_params.get("token") or request.cookies.get(self.cookie) or bearer
        return self.allows(given)

    def allows(self, token: str) -> str:
        if hmac.compare_digest(token.encode(), self.act.encode()):
            return "act"
        return "look" if hmac.compare_digest(token.encode(), self.look.encode()) else ""

    @staticmethod
    def from_our_page(request: Request) -> bool:
        """Whether our own page sent this, so that it may change something."""
        same = request.headers.get("sec-fetch-site", "same-origin") == "same-origin"
        return same and HEADER in request.headers
