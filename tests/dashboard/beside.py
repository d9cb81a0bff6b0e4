"""A real run with its page beside it, as `steersman run --dashboard` starts them."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from tests.engine.conftest import started


@contextmanager
def served_beside(run: Path, *words: object) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """A run with its page beside it: its driver, and the page's address."""
    said = run.parent / "said"
    with said.open("wb") as stderr:
        driver = started("run", *words, "--run-dir", run, "--dashboard", cwd=run.parent, stderr=stderr)
    server = None
    try:
        while server is None:
            assert driver.poll() is None
            children = psutil.Process(driver.pid).children()
            server = next(filter(serves, children), None)
        while (link := re.search(r"Dashboard: (\S+)", said.read_text())) is None:
            assert driver.poll() is None
        yield driver, link[1]
    finally:
        if server:
            server.terminate()


def serves(process: psutil.Process) -> bool:
    with suppress(psutil.Error):
        return "dashboard" in process.cmdline()
    return False
