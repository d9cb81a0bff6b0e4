"""Scores -> versions of the bias: made when enough frames are new, kept beside the run, named in starts."""

from __future__ import annotations

import hashlib

from steersman.journal.recorder import Recorder
from steersman.journal.records import Biased
from steersman.journal.run_directory import RunDirectory
from steersman.steering import Opes, Scores
from steersman.system.files import replace_file


class Biaser:
    """Keeps the bias of a run up to date with its scores.

    A version depends on the scores and nothing else: one whose file was written and whose record was not is made again.
    """

    def __init__(self, directory: RunDirectory, bias: Opes, recorder: Recorder) -> None:
        self._directory, self._bias, self._recorder = directory, bias, recorder
        self._failed_at: Scores | None = None

    def advance(self, scores: Scores) -> None:
        """Make a version if one is due; where that fails, the one before stays in force."""
        newest = self._recorder.state.bias
        known = (newest.model, newest.frames) if newest else (-1, 0)
        if scores is self._failed_at or not self._bias.due(scores, *known):
            return
        version = self._recorder.state.next_bias
        try:
            made = self._bias.made(scores)
        except Exception as error:  # scores may be anything; the run goes on and says so
            self._failed_at = scores
            self._recorder.fails_here("bias", error)
            return
        data = made.to_bytes()
        file = self._directory.bias(version)
        file.parent.mkdir(exist_ok=True)
        replace_file(file, data)
        self._recorder.record(Biased(
            bias=version, model=scores.model, frames=len(scores), sha256=hashlib.sha256(data).hexdigest(),
            kernels=len(made.heights), effective=made.effective,
        ))  # fmt: skip
        self._recorder.works("bias")
