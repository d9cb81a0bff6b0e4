"""Who may look, and who may act: two tokens, new with each start of a server.

A link carries a token behind `#`, where no server and no log sees it. The page keeps it for its tab and sends it as a
header: other pages cannot, and another server at the same port, before or after this one, learns nothing that is of
use. The name in the Host header must be this machine's own, or one that was allowed: another name that points here is
somebody else's page.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from starlette.requests import Request

HEADER = "x-steersman-token"
FIRST_PORT, PORTS = 20_000, 10_000
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")


@dataclass(frozen=True)
class Access:
    """The tokens of a server.

    Args:
        act: who has it may look and act.
        look: who has it may look only.
        port: wanted; the same one for the same runs.
        hosts: names under which a proxy serves the page, beside `localhost`.
    """

    act: str
    look: str
    port: int
    hosts: tuple[str, ...] = ()

    @classmethod
    def new(cls, runs: Iterable[Path], hosts: Iterable[str] = ()) -> Access:
        """New tokens for these runs."""
        named = hashlib.sha256(b"\0".join(sorted(os.fsencode(run.resolve()) for run in runs))).hexdigest()
        port = FIRST_PORT + int(named[:16], 16) % PORTS
        return cls(secrets.token_urlsafe(24), secrets.token_urlsafe(24), port, tuple(hosts))

    def may(self, request: Request) -> str:
        """What a request may do: "act", "look" or "" (nothing)."""
        bearer = request.headers.get("authorization", "").removeprefix("Bearer ")
        return self.allows(request.headers.get(HEADER) or bearer)

    def knows(self, request: Request) -> bool:
        """Whether a request is meant for this server."""
        named = re.fullmatch(r"(\[[0-9a-fA-F:]+\]|[^\[\]:@/?#]+)(:[0-9]{1,5})?", request.headers.get("host", ""))
        return named is not None and named[1].lower() in (*LOOPBACK, *self.hosts)

    def allows(self, token: str) -> str:
        if hmac.compare_digest(token.encode(), self.act.encode()):
            return "act"
        return "look" if hmac.compare_digest(token.encode(), self.look.encode()) else ""
