"""A run that was submitted, as its own machine has it: what came, who drives it, and how that ended.

FOLDER/NAME                     the run directory
FOLDER/.submitted/NAME/         workflow file, parameters, inputs: the driver's working folder
    asked.json                  the driver's words, and where it runs
    driver.json                 who looks after the driver, see journal/lock.py
    driver.log  ended.json      what the driver printed; its exit code
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from steersman.journal.errors import RunIsLocked
from steersman.journal.lock import FILE, Lock, owner
from steersman.system import processes
from steersman.system.errors import EngineError
from steersman.system.files import replace_file

LOOK_S = 0.5
GRACE_S = 45.0  # for a driver to end its blocks and to write what there is; then again after a second signal
LOG_BYTES = 256 * 2**10  # of the log in one answer


class Submitted:
    """Paths and state of a submitted run.

    Args:
        folder: of all runs here; `~` and variables are replaced.
    """

    def __init__(self, folder: str, name: str) -> None:
        self.folder, self.name = Path(os.path.expandvars(folder)).expanduser(), name
        self.path = self.folder / ".submitted" / name
        self.run = self.folder / name
        self.log, self.ended, self._asked = (self.path / each for each in ("driver.log", "ended.json", "asked.json"))
        self._cancel = self.path / "cancel"

    def __bool__(self) -> bool:
        return self._asked.exists()

    @property
    def asked(self) -> dict[str, Any]:
        """words (of the driver) and where."""
        return dict(json.loads(self._asked.read_text()))

    def ask(self, words: Sequence[str], where: str) -> None:
        """What the driver is to do next; how it ended before is forgotten, and who looked after it and is gone."""
        for old in (self.path / FILE, self.ended, self._cancel):
            old.unlink(missing_ok=True)
        replace_file(self._asked, json.dumps({"words": list(words), "where": where}))

    def state(self) -> dict[str, Any]:
        """unknown, waiting (not yet begun), running, ended (with code), or lost (with why)."""
        if not self:
            return {"state": "unknown"}
        keeper, driver = owner(self.path), owner(self.run)
        for holder in (keeper, driver):
            if holder and not holder.why_gone:
                return {"state": "running", "driver": str(holder)}
        with suppress(FileNotFoundError, ValueError):  # read behind the locks: it is written before they are let go
            return {"state": "ended", **json.loads(self.ended.read_text())}
        if keeper is None:
            return {"state": "waiting", "where": self.asked["where"]}
        return {"state": "lost", "why": f"{keeper} was driving it, but {keeper.why_gone}"}

    def start(self) -> None:
        """Start who looks after the driver: a process that goes on when this one, and all that began it, are gone."""
        with self.log.open("ab") as log:
            subprocess.Popen(
                [sys.executable, "-P", "-m", "steersman.remote.submitted", str(self.folder), self.name], cwd=self.path,
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip

    def drive(self) -> int:
        """Run the driver to its end and write down how it ended, unless that is done. Returns: its exit code.

        Raises: RunIsLocked: somebody looks after it already.
        """
        with Lock(self.path).held(), self.log.open("ab") as log:
            if self.ended.exists():  # by another that was quicker, and that is through
                return int(json.loads(self.ended.read_text())["code"])
            if self._cancel.exists():
                return self._end(130, log.fileno(), "cancelled before it began")
            command = [sys.executable, "-P", "-m", "steersman.cli", *self.asked["words"]]
            driver = subprocess.Popen(
                command, cwd=self.path, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
            while driver.poll() is None:
                if self._cancel.exists() and _end(driver):
                    self._cancel_jobs()
                with suppress(subprocess.TimeoutExpired):
                    driver.wait(LOOK_S)
            return self._end(driver.returncode, log.fileno())

    def cancel(self) -> None:
        """Have the driver ended, by who looks after it or, where nobody does, from here."""
        self._cancel.touch()
        keeper, driver = owner(self.path), owner(self.run)
        nobody = keeper is None or keeper.why_gone
        if nobody and driver and not driver.why_gone and driver.host == os.uname().nodename:
            processes.end(driver.pid, GRACE_S)
            self._cancel_jobs()
            replace_file(self.ended, json.dumps({"code": 130, "ended": time.time()}))

    def log_from(self, offset: int) -> tuple[str, int]:
        """What the driver printed behind an offset (below 0: the last so many bytes), and where that ends."""
        try:
            with self.log.open("rb") as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(0, size + offset) if offset < 0 else min(offset, size))
                text = file.read(LOG_BYTES)
                return text.decode(errors="replace"), file.tell()
        except FileNotFoundError:
            return "", 0

    def _cancel_jobs(self) -> None:
        """Of a driver that was killed: nobody else knows them."""
        from steersman.executors import batch, site_files  # Parsl's import takes a second
        from steersman.journal.run_directory import RunDirectory

        with suppress(EngineError, ValueError, KeyError, subprocess.TimeoutExpired):
            settings = RunDirectory(self.run).site()
            if scheduler := site_files.checked("run.yaml", settings).scheduler:
                batch.cancel_left(RunDirectory(self.run).parsl, scheduler)

    def _end(self, code: int, log: int, words: str = "") -> int:
        if words:
            os.write(log, f"{words}\n".encode())
        replace_file(self.ended, json.dumps({"code": code, "ended": time.time()}), sync=True)
        return code


def _end(driver: subprocess.Popen[bytes]) -> bool:
    """TERM, as Ctrl-C: it ends its blocks. A second one: at once. Then KILL. To it alone: TERM to its process group
    would also end Parsl's interchange, without which its executor does not end. Returns: whether it was killed."""
    for end in (driver.terminate, driver.terminate, driver.kill):
        end()
        with suppress(subprocess.TimeoutExpired):
            driver.wait(GRACE_S)
            return end == driver.kill
    return True


if __name__ == "__main__":
    with suppress(RunIsLocked):  # another was quicker
        Submitted(sys.argv[1], sys.argv[2]).drive()
