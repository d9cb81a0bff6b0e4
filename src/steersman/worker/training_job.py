"""One training as a value: what the driver asks for, what a worker keeps beside its checkpoints, what ranks read."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from msgspec import DecodeError, Struct, json
from msgspec.structs import replace

from steersman.journal.run_directory import RunDirectory
from steersman.store import Frames, Labelled, LabelledFrame, Span, Window
from steersman.system.files import replace_file

JOB = "job.json"


class TrainingJob(Struct, frozen=True):
    """Fit model `version` from model `last` (0: from nothing).

    Args:
        run: the run directory.
        window: frames to fit.
        judged_by: frames that no training sees.
        labels, audits: labelled frames to fit, and to judge it by; None of a run without labels.
        settings: parameters that people changed.
        needs_s: how long it will take, as far as is known.
        most: its gate's number may be no larger.
    """

    run: str
    version: int
    last: int
    window: tuple[Span, ...]
    judged_by: tuple[Span, ...]
    settings: dict[str, Any]
    needs_s: float = 0.0
    labels: tuple[LabelledFrame, ...] | None = None
    audits: tuple[LabelledFrame, ...] = ()
    most: float | None = None

    @property
    def directory(self) -> RunDirectory:
        return RunDirectory(Path(self.run))

    @property
    def frames(self) -> Window:
        """What it is fitted to."""
        return self._window(self.window, self.labels)

    @property
    def judging(self) -> Window | None:
        """What it is judged by."""
        return self._window(self.judged_by, None if self.labels is None else self.audits) if self.judged_by else None

    def _window(self, spans: tuple[Span, ...], labels: tuple[LabelledFrame, ...] | None) -> Window:
        frames = self.directory.frames
        labelled = None if labels is None else Labelled(frames, Frames(self.directory.labels), labels)
        return Window(frames, spans, labelled)

    @property
    def kept(self) -> Path:
        """The folder of its checkpoints."""
        return self.directory.checkpoints(self.version)

    def begin(self) -> TrainingJob:
        """Keep this job; or where one of this version was begun from the same model, go on with it: with its frames,
        and from its checkpoints, unless parameters were changed since.

        The run may have been moved meanwhile, or be a copy: it goes on here.
        """
        begun = self._earlier()
        if begun is None or begun.settings != self.settings:
            shutil.rmtree(self.kept, ignore_errors=True)
        job = self if begun is None else replace(begun, run=self.run, settings=self.settings)
        self.kept.mkdir(parents=True, exist_ok=True)
        replace_file(self.kept / JOB, json.encode(job))  # ranks read it
        return job

    def _earlier(self) -> TrainingJob | None:
        try:
            job = json.decode((self.kept / JOB).read_bytes(), type=TrainingJob)
        except (OSError, DecodeError):
            return None
        return job if job.last == self.last else None
