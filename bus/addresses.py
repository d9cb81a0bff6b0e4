"""Path or URL -> Address: where a server is and how to enter it."""

from __future__ import annotations

import json
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qs, quote, unquote, urlsplit

from steersman.bus.errors import ServerRefused

SCHEMES = ("redis", "rediss", "unix")
BUS_FILE = "bus.json"


@dataclass(frozen=True)
class Address:
    """One server. Its text never shows the password."""

    host: str = ""
    port: int = 6379
    path: str = ""
    user: str = ""
    password: str = field(default="", repr=False)
    tls: bool = False
    ca: str = ""

    @classmethod
    def of_url(cls, url: str) -> Address:
        """redis://user:password@host:port, rediss://... (TLS; ?ca=file), unix://user:password@/path.

        Raises: ServerRefused: not such a URL.
        """
        parts = urlsplit(url)
        if parts.scheme not in SCHEMES:
            raise ServerRefused(parts.scheme or "this address", f"an address starts with one of {', '.join(SCHEMES)}")
        user, password = unquote(parts.username or ""), unquote(parts.password or "")
        if parts.scheme == "unix":
            return cls(path=unquote(parts.path), user=user, password=password)
        ca = parse_qs(parts.query).get("ca", [""])[0]
        host = parts.hostname or "127.0.0.1"
        return cls(host, parts.port or 6379, "", user, password, parts.scheme == "rediss", ca)

    @property
    def url(self) -> str:
        """The whole address, password and all: for bus.json only."""
        entry = f"{quote(self.user, safe='')}:{quote(self.password, safe='')}@" if self.password else ""
        if self.path:
            return f"unix://{entry}{quote(self.path)}"
        host = f"[{self.host}]" if ":" in self.host else self.host
        query = f"?ca={quote(self.ca, safe='')}" if self.ca else ""
        return f"{'rediss' if self.tls else 'redis'}://{entry}{host}:{self.port}{query}"

    def tls_context(self) -> ssl.SSLContext:
        """Trusts `ca`, or what the system trusts when it is empty. Raises: OSError: `ca` cannot be read."""
        return ssl.create_default_context(cafile=self.ca or None)

    def at(self, host_and_port: str) -> Address:
        """The same way in at another node of a cluster."""
        host, _, port = host_and_port.rpartition(":")
        return Address(host or self.host, int(port), "", self.user, self.password, self.tls, self.ca)

    def __str__(self) -> str:
        return self.path or f"{self.host}:{self.port}"


Resolve = Callable[[], Address]


def resolver(place: str | Path) -> Resolve:
    """A URL, a bus.json or the directory of one -> a function that says where the server is now.

    A file is read at each connect: the server may have been started again elsewhere.
    """
    text = str(place)
    if "://" in text:
        address = Address.of_url(text)
        return lambda: address
    path = Path(place)
    return lambda: read(path)


def read(path: Path) -> Address:
    """The address in a bus.json. Raises: ServerRefused: there is none."""
    path = path / BUS_FILE if path.is_dir() else path
    try:
        return Address.of_url(json.loads(path.read_text())["url"])
    except FileNotFoundError:
        raise ServerRefused(str(path), "no such file; start a server there with Server.start(directory)") from None
    except (OSError, ValueError, KeyError, TypeError) as broken:
        raise ServerRefused(str(path), f"not readable as a bus.json ({broken})") from None
