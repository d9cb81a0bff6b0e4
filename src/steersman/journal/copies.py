"""A run directory that is a copy of one at another machine: which run it is of, and when it was fetched."""

from __future__ import annotations

import contextlib
import time
from datetime import datetime
from pathlib import Path

import msgspec

from steersman.system import reading
from steersman.system.errors import BadInput
from steersman.system.files import replace_file
from steersman.system.reading import OddFile

FOLDER = ".remote"  # in the copy; it is no part of the run


class Origin(msgspec.Struct, frozen=True):
    """The run that a directory is a copy of.

    Args:
        run: its name at the site.
        at: the endpoint's name.
        path: the run directory there.
        fetched: seconds since 1970, by the clock there.
        state: unknown, waiting, running, ended or lost, then.
    """

    run: str
    at: str
    path: str
    fetched: float
    state: str

    def __str__(self) -> str:
        return f"{self.run} at {self.at}, as of {datetime.fromtimestamp(self.fetched):%Y-%m-%d %H:%M:%S}"


def of(run: Path) -> Origin | None:
    """What a run directory is a copy of; None when it is none."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError, msgspec.DecodeError, OddFile):
        return msgspec.json.decode(reading.read(run / FOLDER / "copy.json", run), type=Origin)
    return None


def known_until(run: Path) -> float:
    """The moment that a run directory shows, in seconds since 1970: now; of a copy, when it was fetched."""
    origin = of(run)
    return origin.fetched if origin else time.time()


def refuse(run: Path) -> None:
    """Raises: BadInput: what is about to be done can only be done with the run itself."""
    if origin := of(run):
        raise BadInput(
            f"{run} is a copy of run {origin.run} at {origin.at}; use `steersman remote tell | resume {origin.run}`"
        )


def mark(run: Path, origin: Origin) -> None:
    """Make a directory known as a copy."""
    (run / FOLDER).mkdir(parents=True, exist_ok=True)
    replace_file(run / FOLDER / "copy.json", msgspec.json.encode(origin))
