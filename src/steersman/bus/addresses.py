"""Path or URL -> Address: where a server is and how to enter it, or where several are that are one bus."""

from __future__ import annotations

import json
import os
import secrets
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlsplit

from steersman.bus.errors import ServerRefused

SCHEMES = ("redis", "rediss", "unix")
BUS_FILE = "bus.json"
LOG_FILE = "server.log"  # of an embedded server, beside it
DEFAULT = "default"  # the space of who names none
TUNNEL = "STEERSMAN_TUNNEL"  # on nodes, the host at which a tunnel to the servers of a run begins, if there is one


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
        if parts.fragment or (parts.scheme != "unix" and parts.path.strip("/") not in ("", "0")):
            words = "behind the port there is nothing, or /0: the bus has no other database"
            raise ServerRefused(f"{parts.scheme}://", f"{words}; in a password write @ as %40, / as %2F, # as %23")
        user, password = unquote(parts.username or ""), unquote(parts.password or "")
        if parts.scheme == "unix":
            return cls(path=unquote(parts.path), user=user, password=password)
        ca = parse_qs(parts.query).get("ca", [""])[0]
        host = parts.hostname or "127.0.0.1"
        try:
            port = parts.port or 6379
        except ValueError:
            raise ServerRefused(f"{parts.scheme}://", "its port is no number of 1 to 65535") from None
        return cls(host, port, "", user, password, parts.scheme == "rediss", ca)

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
        """Trusts `ca`, or what the system trusts when it is empty. Raises: ServerRefused: `ca` cannot be read."""
        try:
            return ssl.create_default_context(cafile=self.ca or None)
        except OSError as error:
            raise ServerRefused(str(self), f"its certificates, ca={self.ca}: {error}") from None

    def at(self, host_and_port: str) -> Address:
        """The same way in at another node of a cluster."""
        host, _, port = host_and_port.rpartition(":")
        return Address(host or self.host, int(port), "", self.user, self.password, self.tls, self.ca)

    def __str__(self) -> str:
        return self.path or f"{self.host}:{self.port}"


Resolve = Callable[[], Address]
Place = str | Path


@dataclass(frozen=True)
class Bus:
    """The servers that are one bus.

    Args:
        places: of the servers.
        spread: families of names, "x" of x and of x.1, that live on the servers after the first; all other names live
            on the first. (): every name lives on any.
        space: that its clients use who name none.
    """

    places: tuple[Place, ...]
    spread: tuple[str, ...] = ()
    space: str = DEFAULT


def bus_of(places: Sequence[Place]) -> Bus:
    """The bus whose servers these are, or the one that a single bus.json names."""
    if len(places) == 1 and "://" not in str(places[0]):
        file = _file(Path(places[0]))
        record = _record(file) if file.exists() else {}
        space = str(record.get("space", DEFAULT))
        if "servers" in record:
            return Bus(tuple(file.parent / name for name in record["servers"]), tuple(record["spread"]), space)
        return Bus(tuple(places), space=space)
    return Bus(tuple(places))


def own_space(directory: Path) -> str:
    """A space for what uses the bus of a directory: the one that it had there before, or one that nobody else has.

    A copy of the directory gets another than its original: both may be on one server.
    """
    try:
        record = _record(directory / BUS_FILE)
    except ServerRefused:  # none, or damaged
        record = {}
    known = str(record.get("space", DEFAULT))
    return known if known != DEFAULT and record.get("home") == home_of(directory) else f"run-{secrets.token_hex(8)}"


def home_of(directory: Path) -> list[Any]:
    """Which directory it is: a copy has another path and another number."""
    return [str(directory.resolve()), directory.stat().st_ino]


def resolver(place: Place) -> Resolve:
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
    """The address in a bus.json; of several servers the first. Raises: ServerRefused: there is none."""
    file = _file(path)
    record = _record(file)
    if "servers" in record:
        return read(file.parent / record["servers"][0])
    try:
        address = Address.of_url(record["url"])
        own = record.get("pid") is not None  # no tunnel leads to a server that was there already
    except (ValueError, KeyError, TypeError) as broken:
        raise _unreadable(file, broken) from None
    return replace(address, host=os.environ[TUNNEL]) if own and TUNNEL in os.environ else address


def _file(path: Path) -> Path:
    return path / BUS_FILE if path.is_dir() else path


def _record(file: Path) -> dict[str, Any]:
    try:
        return dict(json.loads(file.read_text()))
    except FileNotFoundError:
        raise ServerRefused(str(file), "no such file; start a server there with Server.start(directory)") from None
    except (OSError, ValueError, TypeError) as broken:
        raise _unreadable(file, broken) from None


def _unreadable(file: Path, broken: Exception) -> ServerRefused:
    return ServerRefused(str(file), f"not readable as a bus.json ({broken})")
