"""Runs -> a page in the browser: `steersman dashboard`."""

from __future__ import annotations

import platform
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlsplit

import typer

from steersman.cli.printing import out
from steersman.journal.run_directory import RunDirectory
from steersman.system.errors import BadInput

if TYPE_CHECKING:  # see campaigns.py
    from steersman.bus import TupleSpace

IDLE_S = 600.0  # a page that was served beside a run goes on for so long after the run, or after the last look
LINES = 3  # that `links` prints
PATIENCE_S = 2.0  # who looks at a bus does not wait a minute for a server that is gone


def dashboard(
    runs: Annotated[list[Path] | None, typer.Argument(metavar="RUN...", help="run directories")] = None,
    folder: Annotated[Path | None, typer.Option("--all", metavar="DIR", help="show every run of a folder")] = None,
    baseline: Annotated[Path | None, typer.Option("--baseline", metavar="RUN", help="a run to compare with")] = None,
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="port (default: 0, that of the last time)")] = 0,
    read_only: Annotated[bool, typer.Option("--read-only", help="no link allows actions")] = False,
    trust: Annotated[
        bool | None,
        typer.Option(
            "--trust/--no-trust",
            help="allow the runs' own code here (default: only code that you ran or submitted)",
        ),
    ] = None,
    hosts: Annotated[
        list[str], typer.Option("--host", metavar="NAME", help="name of a proxy that serves the page, as of JupyterHub")
    ] = [],  # noqa: B006 (Typer wants a list)
    base: Annotated[
        str, typer.Option("--base-path", metavar="PATH", help="path of the page there, e.g. /user/me/proxy/8000")
    ] = "",
    idle_s: Annotated[
        float,
        typer.Option(
            "--end-idle",
            metavar="S",
            help="end after this time without a running run and without a viewer, in seconds; 0: never",
        ),
    ] = 0.0,
) -> None:
    """Show runs in the browser: live, afterwards, or from a copied directory. Ctrl-C ends it; the runs go on."""
    from steersman.dashboard.live.access import Access
    from steersman.dashboard.live.gallery import Gallery
    from steersman.dashboard.live.server import Dashboard, application, path_of
    from steersman.engine import people

    if not runs and folder is None:
        raise BadInput("name a run directory, or a folder of them with --all")
    if folder is not None and not folder.is_dir():
        raise BadInput(f"--all {folder}: this folder does not exist")
    for host in hosts:
        if set(host) <= {"0", ".", ":"}:
            raise BadInput(f"--host {host}: the page is on 127.0.0.1 alone; name the proxy that serves it")
    gallery = Gallery(runs or [], folder, baseline=baseline, trusted=trust)
    gallery.begin()
    access = Access.new([*(runs or []), *([folder] if folder else [])], [host.lower() for host in hosts])
    app = application(gallery, access, base=base, tell=None if read_only else people.tell, look=_Buses())
    served = Dashboard(app, access, port)
    signal.signal(signal.SIGTERM, lambda *_: served.stop())
    for line in links(served, read_only=read_only):
        out.plain(line)
    for host in hosts:
        token = urlsplit(_link(served, read_only=read_only)).fragment
        out.plain(f"behind the proxy: https://{host}{path_of(base)}/#{token}")
    if idle_s:
        served.stop_when(lambda: idle(gallery, idle_s))
    served.serve()


def idle(gallery: Any, idle_s: float) -> bool:
    """Whether for so long no run went on and nobody looked. A night's run is looked at in the morning."""
    if gallery.goes_on:
        gallery.looked = time.monotonic()
    return bool(time.monotonic() - gallery.looked > idle_s)


def alone(words: list[str], *, stdout: int) -> subprocess.Popen[str]:
    """Start a command of ours that outlives this process."""
    command = [sys.executable, "-P", "-m", "steersman.cli", *words]
    quiet = subprocess.DEVNULL
    return subprocess.Popen(command, stdin=quiet, stdout=stdout, stderr=quiet, text=True, start_new_session=True)


def beside(run: Path) -> Callable[[], str]:
    """Serve a run's page in a process of its own, which outlives this one; gives a line that says where, or ""."""
    process = alone(["dashboard", str(run), "--end-idle", str(IDLE_S)], stdout=subprocess.PIPE)
    assert process.stdout is not None
    with process.stdout:
        lines = [process.stdout.readline().strip() for _ in range(LINES)]
    if not lines[0]:
        process.wait()
    first = lines[0] or f"the dashboard did not start; `steersman dashboard {run}` shows the reason"
    return lambda: first if process.poll() is None or not lines[0] else ""


def links(served: Any, *, read_only: bool) -> list[str]:
    """What to open, and how to get there from another machine."""
    lines = [f"Dashboard: {_link(served, read_only=read_only)}"]
    if not read_only:
        lines.append(f"read-only: {served.read_only_link}")
    return [*lines, f"from another machine: ssh -L {served.port}:127.0.0.1:{served.port} {platform.node()}"]


def _link(served: Any, *, read_only: bool) -> str:
    return str(served.read_only_link if read_only else served.link)


class _Buses:
    """The buses of runs that go on, looked at and never taken from."""

    def __init__(self) -> None:
        self._spaces: dict[Path, TupleSpace] = {}

    def __call__(self, directory: RunDirectory) -> list[dict[str, Any]]:
        """Rows of a run's bus. Raises: BadInput: it is not running. BusError."""
        from steersman.bus import BusError, TupleSpace, rows
        from steersman.engine.people import expect_driver

        expect_driver(directory)
        space = self._spaces.get(directory.path)
        try:
            if space is None:
                space = self._spaces[directory.path] = TupleSpace.connect(directory.bus, patience_s=PATIENCE_S)
            return [{"name": row.name, **asdict(row.statistics)} for row in rows(space)]
        except BusError:
            self._spaces.pop(directory.path, None)
            raise
