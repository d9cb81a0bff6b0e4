"""A run whose frames are labelled: what was asked of the label function, and what it answered."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from steersman.journal.frame_keys import frame_key
from steersman.journal.modes.mode import Check, Mode
from steersman.journal.records import Answered, Answering, Asked, Ended, FrameId, Record, Start, Tell
from steersman.journal.run_directory import KNOWN, RunDirectory
from steersman.steering.audits import Coverage, coverage
from steersman.store import LabelledFrame
from steersman.store.names import SegmentName, walker_name


class Labels(Mode):
    """The labels of a run, by their numbers.

    Attributes:
        asked: all that were asked for.
        begun: when the label function was last called for each.
        answers: those that are there, and those whose calls failed.
        wishes: frames that segments and people want labels of, with the reason, as long as these are not asked for.
    """

    def __init__(self, *of: Any) -> None:
        super().__init__(*of)
        self.asked: dict[int, Asked] = {}
        self.begun: dict[int, float] = {}
        self.answers: dict[int, Answered] = {}
        self.wishes: dict[FrameId, str] = {}
        self._bounds: dict[int, float] = {}  # by the version of each model that was audited
        self._given = array("i")  # version of the model of each start, as far as any had one

    @property
    def takes(self) -> Mapping[type[Record], Callable[[Any], None]]:
        return {Asked: self._ask, Answering: self._begin, Answered: self._answer}

    def _ask(self, record: Asked) -> None:
        self.asked[record.label] = record
        self.wishes = {frame: why for frame, why in self.wishes.items() if frame[:2] != record.frame[:2]}

    def _begin(self, record: Answering) -> None:
        self.begun[self.asked[record.label].label] = record.t

    def _answer(self, record: Answered) -> None:
        asked = self.asked[record.label]
        self.answers[record.label] = record
        if asked.drawn and record.error is not None:
            self._bounds = {each.version: each.bound for each in self.coverage}

    def ended(self, record: Ended) -> None:
        frames = [FrameId(record.walker, row, record.segment) for row in dict.fromkeys(record.asks)]
        asked = {each.frame[:2] for each in self.asked.values()} if frames else set()
        self.wishes |= {frame: "its segment asked for it" for frame in frames if frame[:2] not in asked}

    def told(self, record: Tell) -> None:
        if record.verb == "label" and record.frame:
            self.wishes[record.frame] = f"{record.who} asked for it"

    @property
    def bound(self) -> float:
        """On the error of the newest model, in 95 % of the frames that it visits; inf: too few audits of it."""
        return self._bounds.get(self.state.models.newest, math.inf)

    @property
    def coverage(self) -> list[Coverage]:
        """Of each model that was audited, how often the bound on its error held that was known before each audit."""
        each = [(self.asked[n].model, e.error) for n, e in self.answers.items() if self.asked[n].drawn]
        version, error = np.array([one for one in each if one[1] is not None], float).reshape(-1, 2).T
        return coverage({"version": version, "truth": error, "said": np.zeros(len(error))})

    def chosen(self, start: Start) -> None:
        if start.with_model:
            self._given.extend([0] * (start.start + 1 - len(self._given)))
            self._given[start.start] = start.with_model

    def columns(self, starts: np.ndarray) -> dict[str, np.ndarray]:
        if "label" not in self.state.run.stages:
            return {}
        of = np.append(np.array(self._given, np.int32), np.int32(0))
        return {"given_model": of[np.where((starts >= 0) & (starts < len(self._given)), starts, -1)]}

    @property
    def waiting(self) -> list[Asked]:
        """Those without an answer, in their order."""
        return [each for number, each in self.asked.items() if number not in self.answers]

    @property
    def good(self) -> list[Answered]:
        """The answers that are there, in the order in which they came."""
        return [each for each in self.answers.values() if each.group]

    @property
    def before(self) -> list[LabelledFrame]:
        """Those that were there before the run."""
        return [LabelledFrame("", row, KNOWN, row) for row in range(self.state.known_labels)]

    def counted(self, version: str) -> int:
        """How many there are to learn from, as trainings count them."""
        there = {each.label for each in self.good}.intersection(self.asked_by(version))
        return len(there) + self.state.known_labels

    def asked_by(self, version: str) -> list[int]:
        """Those that trainings count: of a version of the function, and after a training of those before it, too."""
        return [n for n, each in self.asked.items() if self.state.models or each.version == version]

    def known(self, asked: Asked) -> Answered | None:
        """The answer that is there of the same frame, by the same version of the function."""
        for answer in self.good:
            before = self.asked[answer.label]
            if (before.frame[:2], before.version) == (asked.frame[:2], asked.version):
                return answer
        return None

    def keys(self, version: str) -> np.ndarray:
        """`frame_key` of all frames that were asked for, of a version of the label function."""
        frames = [each.frame for each in self.asked.values() if each.version == version]
        walker, row = np.array([(frame.walker, frame.row) for frame in frames], np.int64).reshape(-1, 2).T
        return np.asarray(frame_key(walker, row))

    def usable(self, version: str) -> list[tuple[Asked, LabelledFrame]]:
        """Labels of a version whose frames count, once each: of one that was asked for twice the drawn one."""
        latest = dict[tuple[int, int], tuple[Asked, LabelledFrame]]()
        for answer in self.good:
            asked = self.asked[answer.label]
            walker = self.state.walkers.get(asked.frame.walker)
            lost = walker is None or walker.damaged or asked.frame.segment in walker.unreadable
            if asked.version != version or lost or (asked.frame[:2] in latest and not asked.drawn):
                continue
            place = LabelledFrame(walker_name(asked.frame.walker), asked.frame.row, answer.group, answer.row)
            latest[asked.frame[:2]] = asked, place
        return list(latest.values())

    def shared(self, version: str) -> tuple[tuple[LabelledFrame, ...], tuple[LabelledFrame, ...]]:
        """What a model is trained on, and what it is judged by: audits of the newest model that has any."""
        usable = self.usable(version)
        newest = max((asked.model for asked, _ in usable if asked.drawn), default=-1)
        judging = [asked.drawn and asked.model == newest for asked, _ in usable]
        train, judge = (tuple(at for (_, at), one in zip(usable, judging, strict=True) if one is which)
                        for which in (False, True))  # fmt: skip
        return (*self.before, *train), judge

    @property
    def counts(self) -> dict[str, dict[str, int]]:
        good, waiting = len(self.good), len(self.waiting)
        counts = {"answered": good, "waiting": waiting, "failed": len(self.answers) - good}
        counts["from before"] = self.state.known_labels
        return {"labels": {how: number for how, number in counts.items() if number}} if any(counts.values()) else {}

    def explained(self, segment: SegmentName, frame: int | None) -> dict[str, Any]:
        labels = []
        for each in self.asked.values():
            if each.frame.walker != segment.walker or each.frame.segment != segment.number:
                continue
            at = each.frame.row - self.state.walkers[segment.walker].segments[segment.number].first
            if frame in (None, at):
                answer = self.answers.get(each.label)
                said = "waits" if answer is None else answer.cause or "answered"
                labels.append({"label": each.label, "frame": at, "reason": each.reason, "answer": said})
        return {"labels": labels} if labels else {}

    @staticmethod
    def explained_lines(facts: Mapping[str, Any]) -> list[str]:
        return [
            f"  label {each['label']:<9}of frame {each['frame']}, {each['answer']}: {each['reason']}"
            for each in facts.get("labels", ())
        ]

    def files(self, directory: RunDirectory) -> Iterator[Check]:
        ends = [(each.group, each.row + 1) for each in self.good] + [(each.group, each.at + 1) for each in self.before]
        for group, rows in dict(sorted(ends)).items():
            yield "labels", f"{directory.labels.name}/{group}", 0, _look(directory, group, rows)


def _look(directory: RunDirectory, group: str, rows: int) -> Iterator[str]:
    from steersman.store import Frames, Span

    labels = Frames(directory.labels)
    for name in labels.variables(group):
        labels.read(name, Span(group, 0, rows))
    yield from ()
