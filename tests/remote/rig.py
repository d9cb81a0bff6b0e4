"""Everything that a remote run needs, on this machine: broker, service, endpoint, and a laptop that knows them.

    python -m tests.remote.rig COMMAND...      runs a command as the laptop would, and stops everything

The endpoint is called `here`. COMMAND finds it under this name.
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple
from unittest.mock import patch

import psutil

from steersman.cli.__main__ import main as main_program
from tests.remote import broker
from tests.remote.endpoint import TEMPLATE, Endpoint, environment
from tests.remote.service import Service

COMMAND = [sys.executable, "-m", "steersman.cli"]


class Done(NamedTuple):
    """What a command printed, and its exit code."""

    code: int
    stdout: str
    stderr: str


class Rig:
    """The laptop's side of it.

    Args:
        home: of the laptop; its folder of work is below it.
    """

    def __init__(self, home: Path, service: Service, endpoint: Endpoint) -> None:
        self.service, self.endpoint, self.home, self.work = service, endpoint, home, home / "work"
        self.work.mkdir(parents=True)
        self.environment = environment(service.secret, home) | {
            "COLUMNS": "200",
            "XDG_CONFIG_HOME": str(home / ".config"),
        }

    @property
    def runs(self) -> Path:
        """The folder of runs at the site."""
        return self.endpoint.home / "runs"

    def run(self, *words: str, code: int = 0) -> Done:
        """Run `steersman WORDS` as on the laptop, in this process: a new one would import for as long again."""
        out, err, before = io.StringIO(), io.StringIO(), os.getcwd()
        with patch.dict(os.environ, self.environment, clear=True), patch.object(sys, "argv", ["steersman", *words]):
            os.chdir(self.work)
            try:
                with redirect_stdout(out), redirect_stderr(err):
                    main_program()
            except SystemExit as end:
                done = Done(int(end.code or 0), out.getvalue(), err.getvalue())
            finally:
                os.chdir(before)
        assert done.code == code, f"{words}: {done}"
        return done

    def start(self, *words: str) -> subprocess.Popen[str]:
        """The same in a process of its own, without waiting for its end."""
        pipe = subprocess.PIPE
        return subprocess.Popen(
            [*COMMAND, *words], cwd=self.work, env=self.environment, stdout=pipe, stderr=pipe, text=True
        )


@contextmanager
def rig(home: Path, *, template: str = TEMPLATE) -> Iterator[Rig]:
    """Start it all below a folder, and stop it."""
    with broker.broker(home / "broker") as amqp, Service(amqp).serving() as service:
        endpoint = Endpoint(service, home / "site", template=template)
        made = Rig(home / "laptop", service, endpoint)
        try:
            endpoint.start()
            made.run("endpoints", "add", "here", endpoint.uuid, "--folder", str(made.runs))
            yield made
        finally:
            endpoint.stop()
            end_all(home)


def left(home: Path) -> list[psutil.Process]:
    """Processes that have something of a folder in their command line."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if f"{home}/" in " ".join(process.cmdline()):
                found.append(process)
    return found


def end_all(home: Path) -> None:
    """End what lives on: drivers do so when their endpoint stops."""
    found = [process for site in ("site", "user") for process in left(home / site)]
    for process in found:
        with suppress(psutil.Error):
            process.kill()
    psutil.wait_procs(found, 10)


def main() -> None:
    if why := broker.missing():
        sys.exit(f"there can be no broker here: {why}")
    with TemporaryDirectory(prefix="steersman-remote-") as home:
        with rig(Path(home)) as made:
            code = subprocess.run(sys.argv[1:], env=os.environ | made.environment, check=False).returncode
        if still := left(Path(home)):
            sys.exit(f"these processes live on: {still}")
    sys.exit(code)


if __name__ == "__main__":
    main()
