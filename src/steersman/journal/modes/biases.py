"""A run whose walkers a bias pushes: its versions, and which start had which."""

from __future__ import annotations

import contextlib
import functools
import hashlib
from array import array
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from msgspec.structs import replace

from steersman.journal.errors import run_damaged
from steersman.journal.frame_keys import WALKER, frame_key
from steersman.journal.modes.mode import Check, Mode, Remaking
from steersman.journal.records import UNKNOWN, Biased, Record, Start
from steersman.journal.run_directory import BIASES, RunDirectory, sha256
from steersman.steering import Bias, Opes, Scores, Steering


def file_of(directory: RunDirectory, version: int) -> Path:
    return directory.path / BIASES / f"{version:05d}.npz"


def read(directory: RunDirectory, version: int, sha256: str) -> Bias:
    """Raises: DamagedFile: it is not the one with this hash, which the journal has. FileNotFoundError. OddFile."""
    file = file_of(directory, version)
    data = directory.read(file)
    if sha256 and hashlib.sha256(data).hexdigest() != sha256:  # an older journal does not say it of starts
        raise run_damaged(directory.path, f"{file.relative_to(directory.path)} was changed since it was made")
    return Bias.from_bytes(data)


@functools.lru_cache(maxsize=2)
def _softened(run: str, version: int, share: float, sha256: str) -> Bias:
    """One object for all segments of a process that have it, so that apps set their tables once."""
    return read(RunDirectory(Path(run)), version, sha256).softer(share)


class Biases(Mode):
    """The versions of the bias of a run, and its starts.

    Attributes:
        versions: all that were made.
        next_version: one that none had, also where the record of one was lost.
        of_start: version of each start, by its number; shorter than there are starts, empty of a run that has none.
        controls: starts that are never pushed, to compare with.
        unversioned: starts that no version pushed as it is: a softer copy did, or nobody knows.
    """

    def __init__(self, *of: Any) -> None:
        super().__init__(*of)
        self.versions: list[Biased] = []
        self.next_version = 1
        self.of_start = array("q")
        self._parents = array("q")  # frame_key of walker and segment that each of these starts goes on from, or -1
        self.controls: set[int] = set()
        self.unversioned: set[int] = set()

    @property
    def takes(self) -> Mapping[type[Record], Callable[[Any], None]]:
        return {Biased: self._made}

    def _made(self, record: Biased) -> None:
        self.versions.append(record)
        self.next_version = max(self.next_version, record.bias + 1)

    def chosen(self, start: Start) -> None:
        if start.bias:
            self.next_version = max(self.next_version, start.bias + 1)
            for column, of_none in ((self.of_start, 0), (self._parents, -1)):
                column.extend([of_none] * (start.start + 1 - len(column)))
            self.of_start[start.start] = start.bias
            if start.parent:
                self._parents[start.start] = frame_key(start.parent.walker, start.parent.segment)
        if not start.share:
            self.controls.add(start.start)
        if self.versions and (start.share < 1 or start.policy == UNKNOWN):
            self.unversioned.add(start.start)

    @property
    def sound(self) -> list[Biased]:
        """All versions but those that were set aside."""
        return [each for each in self.versions if ("bias", each.bias) not in self.state.unsound]

    @property
    def newest(self) -> Biased | None:
        """The newest version that is whole and whose model is still used."""
        usable = self.state.models.usable
        return next((each for each in reversed(self.sound) if each.model in usable), None)

    @property
    def weighs(self) -> bool:
        return bool(self.versions)

    def before(self, segment: tuple[int, int]) -> tuple[int, int] | None:
        """Walker and number of the segment that one goes on from; None where none did, or it had no bias."""
        start = self.state.walkers[segment[0]].segments[segment[1]].start
        key = self._parents[start] if start < len(self._parents) else -1
        return None if key < 0 else divmod(key, int(WALKER))

    def versions_of(self, starts: np.ndarray) -> np.ndarray:
        """(n,) int, of starts, -1: nobody knows which; 0 of those that had none."""
        of = np.append(np.array(self.of_start), 0)  # the last one is of those that are none
        return np.asarray(of[np.where((starts >= 0) & (starts < len(self.of_start)), starts, -1)], np.int64)

    def columns(self, starts: np.ndarray) -> dict[str, np.ndarray]:
        if not self.of_start:
            return {}
        model_of = np.zeros(self.next_version, np.int32)
        model_of[[each.bias for each in self.versions]] = [each.model for each in self.versions]
        return {"biased_by": model_of[self.versions_of(starts)]}

    def of_segments(self, starts: np.ndarray, given: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        return {name: given[name] for name in ("bias", "share")} if self.versions else {}

    def learned(self, start: Start) -> dict[str, Any]:
        if newest := self.newest if start.share else None:
            return {"with_model": newest.model, "bias": newest.bias, "bias_sha256": newest.sha256}
        return {"bias": 0, "bias_sha256": ""}

    @staticmethod
    def loaded(run: str, start: Start) -> dict[str, Any]:
        return {"bias": _softened(run, start.bias, start.share, start.bias_sha256) if start.bias else None}

    def first_share(self, start: Start, steering: Steering) -> float:
        """No bias pushes a control, nor any start that goes on from one."""
        if start.parent is None:
            controls = steering.bias.controls if steering.bias else 0
            return float(start.start >= min(controls, self.state.slots - 1))
        if not self.controls:
            return 1.0
        return float(self.state.walkers[start.parent.walker].segments[start.parent.segment].start not in self.controls)

    def softer(self, start: Start) -> tuple[Start, str]:
        """With half the bias, if one pushed it and it failed twice: what it was pushed into may be why it failed. At
        first `start.attempt` lets the simulation take smaller steps."""
        if not start.bias or start.attempt < 2:
            return start, ""
        share = start.share / 2
        failed = f"start {start.start} failed under bias {start.bias}: it is tried again"
        note = f"{failed} with {100 * share:g} % of its energy; {self.state.last_cause}"
        return replace(start, share=share), note

    def files(self, directory: RunDirectory) -> Iterator[Check]:
        for each in self.sound:
            file = file_of(directory, each.bias)
            yield "bias", str(file.relative_to(directory.path)), each.bias, _look(file, each)

    @property
    def in_use(self) -> dict[str, int]:
        return {"bias": self.newest.bias if self.newest else 0}

    def traced(self, starts: list[Start]) -> dict[str, Any]:
        pushed = {start.bias for start in starts}
        return {"biases": {each.bias: each.sha256 for each in self.versions if each.bias in pushed}}

    @staticmethod
    def traced_lines(found: Mapping[str, Any]) -> list[str]:
        return [f"bias {version:<6} sha256 {sha256[:16]}" for version, sha256 in found["biases"].items()]

    def remaking(self, steering: Steering) -> Remaking | None:
        return _Versions(steering.bias)


class _Versions(Remaking):
    kind = Biased

    def __init__(self, bias: Opes | None) -> None:
        self._bias, self._biases, self._same = bias, 0, 0

    def take(self, record: Biased, scores: Scores) -> None:
        """An error is another version than was recorded."""
        if self._bias is None:
            return
        self._biases += 1
        with contextlib.suppress(Exception):
            self._same += hashlib.sha256(self._bias.made(scores).to_bytes()).hexdigest() == record.sha256

    def as_plain(self) -> dict[str, int]:
        return {"biases": self._biases, "same_biases": self._same}

    def __str__(self) -> str:
        return f"the bias: {self._biases} versions are made again from their scores, {self._same} as recorded"


def _look(file: Path, version: Biased) -> Iterator[str]:
    if not file.is_file():
        yield "it is missing"
    elif sha256(file) != version.sha256:
        yield "it was changed since it was made"
