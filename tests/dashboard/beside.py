"""A real run with its page beside it, as `steersman run --dashboard` starts them."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from steersman.dashboard.live.access import Access
from tests.engine.conftest import started


@contextmanager
def served_beside(run: Path, *words: object) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """A run with its page beside it: its driver, and the page's address."""
    access = Access.kept([run])  # those that the server finds, too
    driver = started("run", *words, "--run-dir", run, "--dashboard", cwd=run.parent)
    server = None
    try:
        while server is None:
            assert driver.poll() is None
            children = psutil.Process(driver.pid).children()
            server = next(filter(serves, children), None)
        while not run_is_served(access.port):
            assert driver.poll() is None
        yield driver, f"http://127.0.0.1:{access.port}/?token={access.act}"
    finally:
        if server:
            server.terminate()


def serves(process: psutil.Process) -> bool:
    with suppress(psutil.Error):
        return "dashboard" in process.cmdline()
    return False


def run_is_served(port: int) -> bool:
    with socket.socket() as asked:
        return asked.connect_ex(("127.0.0.1", port)) == 0
