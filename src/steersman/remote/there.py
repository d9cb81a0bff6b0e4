"""What is asked of the machine where runs are: `python -m steersman.remote.there`, a request in, an answer out.

Plain functions of a `Submitted`; `Site.ask` (site.py) calls them by name. Whoever asks waits for the imports, too: so a
function imports itself what the others do not need.
"""

from __future__ import annotations

import importlib.metadata
import json
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from steersman.remote import bundle, transfer
from steersman.remote.submitted import Submitted
from steersman.remote.wire import PROTOCOL, decode, encode
from steersman.system.errors import BadInput, EngineError
from steersman.system.files import locked

CHECK_S = 90.0
LAST_BYTES = 2000


def look(run: Submitted, log: int | None = None) -> dict[str, Any]:
    """How a run stands: see `Submitted.state`; path, now; with `log` what the driver printed from there on."""
    state = run.state()  # first: of a driver that has ended the log is whole
    text, end = run.log_from(-LAST_BYTES if log is None else log)
    return {**state, "path": str(run.run), "now": time.time(), "log": text, "log_end": end}


def start(run: Submitted, packed: bytes, check: Sequence[str], words: Sequence[str], where: str) -> dict[str, Any]:
    """Unpack a workflow, check it here, and start its driver, if this run is not here yet.

    Args:
        check, words: of the command line; RUN stands for the run directory.
    Returns: fresh (whether it was not here), and see `look`.
    Raises: BadInput: in the words of the check.
    """
    run.path.parent.mkdir(parents=True, exist_ok=True)
    with locked(run.path.with_name(f"{run.name}.lock")):
        fresh = not run
        if fresh:
            with TemporaryDirectory(dir=run.path.parent) as partial:
                bundle.unpack(packed, Path(partial))
                _check(check, partial)
                shutil.rmtree(run.path, ignore_errors=True)  # left over by one that was ended while it copied
                shutil.copytree(partial, run.path)
            _begin(run, [str(run.run) if word == "RUN" else word for word in words], where)
        elif run.state() == {"state": "waiting", "where": "login"}:
            run.start()  # who was to look after it is gone; or comes first, and this one ends
    return {"fresh": fresh, **look(run)}


def resume(run: Submitted, settings: Sequence[str], where: str) -> dict[str, Any]:
    """Go on with a run. Raises: BadInput: it is not here, or somebody drives it."""
    from steersman.journal.run_directory import open_run

    with locked(run.path.with_name(f"{run.name}.lock")):
        state = run.state()["state"]
        if state not in ("ended", "lost"):
            raise BadInput(f"run {run.name} is {state}: there is nothing to resume")
        open_run(run.run)
        _begin(run, ["resume", str(run.run), *(word for each in settings for word in ("--set", each))], where)
    return look(run)


def drive(run: Submitted) -> dict[str, Any]:
    """Drive a run to its end, in the job that this process runs in."""
    run.drive()
    return look(run)


def cancel(run: Submitted, within_s: float) -> dict[str, Any]:
    """End the driver, and wait for that. Raises: BadInput: it is not here. EngineError: it goes on."""
    if not run:
        raise BadInput(f"run {run.name} is not here")
    if run.state()["state"] in ("running", "waiting"):
        run.cancel()
    deadline = time.monotonic() + within_s
    while run.state()["state"] == "running" and time.monotonic() < deadline:
        time.sleep(0.2)
    if (state := run.state())["state"] == "running":
        raise EngineError(
            f"run {run.name} has not ended yet: {state['driver']}; look again, or end that process on its machine"
        )
    return look(run)


def tell(run: Submitted, words: list[str], who: str) -> str:
    """See `people.tell`."""
    from steersman.engine import people
    from steersman.journal.run_directory import RunDirectory

    return people.tell(RunDirectory(run.run), words, who)


def listing(run: Submitted, groups: Sequence[str]) -> dict[str, tuple[int, str]]:
    """See `transfer.listing`."""
    return transfer.listing(run.run, groups)


def read(run: Submitted, pieces: Sequence[transfer.Piece]) -> list[dict[str, Any]]:
    """See `transfer.read`."""
    return transfer.read(run.run, run.path / "held", pieces)


def draw(run: Submitted) -> None:
    """Draw figures and report where the journal has gone on since."""
    from steersman.journal import manifest
    from steersman.journal.run_directory import open_run

    directory = open_run(run.run)
    drawn = directory.report.stat().st_mtime if directory.report.exists() else 0.0
    if drawn >= directory.journal.stat().st_mtime:
        return
    from steersman.dashboard.report import write_report
    from steersman.data.history import History

    if History(directory).state.frames:
        try:
            write_report(directory)
            manifest.renew(directory, directory.report, directory.figures)  # its driver may have sealed it meanwhile
        except EngineError as error:  # a full disk, say: what is there can be fetched all the same
            print(error, file=sys.stderr)  # the log of the endpoint


def names(run: Submitted) -> dict[str, dict[str, Any]]:
    """How the runs of the folder stand, by name."""
    here = (run.folder / ".submitted").glob("*/asked.json")
    return {path.parent.name: Submitted(str(run.folder), path.parent.name).state() for path in here}


def check_site(run: Submitted, site: str, packed: bytes) -> list[tuple[str, bool, str]]:
    """What the site's own check finds here: what, whether it is well, and what was found.

    Args:
        packed: a bundle with the site's file, where it is none of the shipped.
    """
    from steersman.executors.allocation import settled
    from steersman.executors.preflight import findings
    from steersman.executors.site_files import load_site

    with TemporaryDirectory() as folder:
        if packed:
            bundle.unpack(packed, Path(folder))
            site = str(Path(folder) / site)
        return [(each.what, each.ok, each.found) for each in findings(settled(load_site(site)))]


QUESTIONS: dict[str, Callable[..., Any]] = {
    each.__name__: each for each in (look, start, resume, drive, cancel, tell, listing, read, draw, names, check_site)
}


def _begin(run: Submitted, words: Sequence[str], where: str) -> None:
    run.ask(words, where)
    if where == "login":
        run.start()


def _check(words: Sequence[str], folder: str) -> None:
    """Run `steersman check` as the driver will find things. Raises: BadInput: what it found wrong."""
    command = [sys.executable, "-P", "-m", "steersman.cli", "check", *words, "--json"]
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=CHECK_S, check=False)
    except subprocess.TimeoutExpired:
        raise BadInput(f"`steersman check {shlex.join(words)}` did not end within {CHECK_S:g} s") from None
    if done.returncode == 0:
        return
    try:
        wrong = [f"{each['what']}: {each['found']}" for each in json.loads(done.stdout)["checks"] if not each["ok"]]
    except ValueError:
        wrong = [" ".join(done.stderr.split()).removeprefix("error: ")]
    raise BadInput("; ".join(wrong))


def main() -> None:
    """Answer the request on standard input; what is called may print whatever it likes."""
    request = decode(sys.stdin.read())
    answer: dict[str, Any] = {"protocol": PROTOCOL, "version": importlib.metadata.version("steersman")}
    if request["protocol"] == PROTOCOL:
        run = Submitted(request["folder"], request["run"])
        try:
            with redirect_stdout(sys.stderr):
                answer["answers"] = [QUESTIONS[name](run, **values) for name, values in request["questions"]]
        except BadInput as error:
            answer["refused"] = str(error)
        except (EngineError, OSError) as error:
            answer["failed"] = str(error)
    print(encode(answer))


if __name__ == "__main__":
    main()
