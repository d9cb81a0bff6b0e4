"""`steersman.run(...)`: a run in a process of its own, from a script, a notebook, or a job of somebody's DAG.

A process of its own, because a driver takes over signals, limits and threads, and none of that is the caller's; it ends
with the caller, and the same call goes on with it.
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, BinaryIO, Unpack

from steersman.calls.errors import RunFailed
from steersman.calls.opened import Run, open_run
from steersman.data.history import History
from steersman.executors.place import Place, changes
from steersman.journal.lock import driven
from steersman.journal.run_directory import RunDirectory
from steersman.stages import loading
from steersman.stages.workflow import Workflow
from steersman.system.errors import EngineError

LOOK_S = 0.1
SHOW_S = 1.0  # a notebook's table is renewed so often
LAST_BYTES = 4000  # of what a driver printed that died without a word
_followed: list[subprocess.Popen[bytes]] = []  # drivers that go on beside their caller


def run(
    workflow: str | os.PathLike[str] | Workflow,
    *,
    set: Mapping[str, Any] | None = None,
    params: str | os.PathLike[str] | None = None,
    run_dir: str | os.PathLike[str] | None = None,
    bus: str | None = None,
    wait: bool = True,
    report: bool = True,
    **place: Unpack[Place],
) -> Run:
    """Run a workflow to its end, as `steersman run` does, and open it.

    The driver is a process of its own. It ends with the process that calls, or at Ctrl-C; the same call continues it.
    In a notebook a table shows how far it is; elsewhere nothing is printed.

    Args:
        workflow: a shipped name, the path of a .py file, or a Workflow that such a file or the running script defines;
            the run stores the file.
        set: parameters; they take precedence over those of the file `params`.
        run_dir: one that exists is continued, if it holds the same loop, parameters and seed; one that is finished is
            opened at once. Default: a new one, runs/<workflow>-<number>.
        bus: redis:// address of a bus server to use; None starts one.
        wait: False returns as soon as the run is driven, also by an earlier call: `for record in run.follow()` ends
            with it.
        report: draw the report at the end.
        place: seed, site, workers, nodes, walltime, account, queue, inside, rounds, as the options of `steersman run`.
    Raises: BadInput: something in it is wrong, or `run_dir` holds another run. RunIsLocked:
        another process goes on driving it for 30 s. RunFailed: the run failed, or was interrupted by something else
        than Ctrl-C.
    """
    source, outline = loading.source_of(workflow)
    changes(place)  # what is wrong with it is told here
    asked = {
        "workflow": source,
        "outline": outline,
        "assignments": dict(set or {}),
        "params_file": None if params is None else Path(params),
        "place": place,
        "run_dir": None if run_dir is None else Path(run_dir),
        "bus_url": bus,
        "report": report,
        "wait": wait,
    }
    show: Callable[..., None] = lambda **_: None  # noqa: E731 (it becomes another)
    called = time.time()
    with TemporaryFile() as printed:
        process, replies = _started(asked, printed)
        with replies:
            try:
                path = _reply(replies)
                show = _shown(path) if path else show
                while process.poll() is None:
                    if path and not wait and driven(path) and _goes_on(path, since=called):
                        _followed.append(process)
                        return open_run(path)
                    time.sleep(LOOK_S)
                    show()
                show(last=True)
                _reply(replies)  # what it died of
            except KeyboardInterrupt:
                _interrupt(process)
                show(last=True)
                raise
            except EngineError:  # that of the driver, which ends
                process.wait()
                raise
        if process.returncode or path is None:
            printed.seek(-min(printed.tell(), LAST_BYTES), os.SEEK_END)
            words = printed.read().decode(errors="replace").strip()
            raise RunFailed(str(path or source), "", words or f"exit status {process.returncode}")
    if not wait and driven(path):
        return open_run(path)
    end = History(RunDirectory(path)).state.end
    if end is None or end.outcome in ("failed", "interrupted"):
        raise RunFailed(str(path), end.outcome if end else "", end.reason if end else "it has no end")
    return open_run(path)


def _started(asked: Mapping[str, Any], printed: BinaryIO) -> tuple[subprocess.Popen[bytes], BinaryIO]:
    """A driver, and where its answers come: the run directory when it begins, and an error."""
    read, write = os.pipe()
    command = [sys.executable, "-P", "-m", "steersman.calls.driver", str(write)]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=printed, stderr=printed, pass_fds=[write], start_new_session=True
    )
    os.close(write)
    assert process.stdin is not None
    with process.stdin:
        pickle.dump(asked, process.stdin)
    return process, os.fdopen(read, "rb")


def _reply(replies: BinaryIO) -> Path | None:
    """The next answer; None where there is none. Raises: EngineError: that of the driver."""
    try:
        answer = pickle.load(replies)  # of a process of ours, over a pipe that nobody else has
    except EOFError:
        return None
    if isinstance(answer, EngineError):
        raise answer
    return Path(answer)


def _goes_on(path: Path, *, since: float) -> bool:
    """Whether the end of an earlier session is no more that of the run."""
    end = History(RunDirectory(path)).state.end
    return end is None or end.t >= since


def _interrupt(process: subprocess.Popen[bytes]) -> None:
    """Have a driver end its segments; a second Ctrl-C has it stop at once."""
    for _ in range(2):
        process.send_signal(signal.SIGINT)
        try:
            process.wait()
            return
        except KeyboardInterrupt:
            continue
    process.wait()


def _shown(path: Path) -> Callable[..., None]:
    """What keeps a notebook's table fresh; nothing elsewhere."""
    ipython, shows = sys.modules.get("IPython"), sys.modules.get("IPython.display")
    if ipython is None or shows is None or not hasattr(ipython.get_ipython(), "kernel"):
        return lambda **_: None
    run, at = open_run(path), time.monotonic()
    handle = shows.display(run, display_id=True)

    def show(*, last: bool = False) -> None:
        nonlocal at
        if last or time.monotonic() - at > SHOW_S:
            handle.update(run)
            at = time.monotonic()

    return show
