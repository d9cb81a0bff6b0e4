"""One training as a value: what the driver asks for, what a worker keeps beside its checkpoints, what ranks read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from msgspec import DecodeError, Struct, json
from msgspec.structs import replace

from steersman.journal.run_directory import RunDirectory
from steersman.store import Span
from steersman.system.files import replace_file


class TrainingJob(Struct, frozen=True):
    """Fit model `version` from model `last` (0: from nothing).

    Args:
        run: the run directory.
        window: frames to fit.
        held_out: frames to judge it by.
        settings: parameters that people changed.
        needs_s: how long it will take, as far as is known.
    """

    run: str
    version: int
    last: int
    window: tuple[Span, ...]
    held_out: tuple[Span, ...]
    settings: dict[str, Any]
    needs_s: float = 0.0

    @property
    def directory(self) -> RunDirectory:
        return RunDirectory(Path(self.run))

    @property
    def kept(self) -> Path:
        """The folder of its checkpoints."""
        return self.directory.checkpoints(self.version)

    def save(self) -> None:
        self.kept.mkdir(parents=True, exist_ok=True)
        replace_file(self.kept / "job.json", json.encode(self))

    def earlier(self) -> TrainingJob | None:
        """The job whose checkpoints are there, if it is this one: of other frames, for these have come since.

        The run may have been moved meanwhile, or be a copy: it goes on here.
        """
        try:
            found = json.decode((self.kept / "job.json").read_bytes(), type=TrainingJob)
        except (OSError, DecodeError):
            return None
        return replace(found, run=self.run) if (found.last, found.settings) == (self.last, self.settings) else None
