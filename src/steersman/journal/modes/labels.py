"""A run whose frames are labelled: what was asked of the label function, and what it answered."""

from __future__ import annotations

import math
import sys
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from steersman.journal.frame_keys import frame_key
from steersman.journal.modes.mode import Check, Mode
from steersman.journal.records import Answered, Answering, Asked, Ended, FrameId, Record, Start, Tell
from steersman.journal.run_directory import KNOWN, RunDirectory
from steersman.journal.segments import Segment
from steersman.steering.audits import Coverage, coverage
from steersman.store import LabelledFrame
from steersman.store.names import SegmentName, walker_name

WRONG = sys.float_info.max  # error of an audit without an answer


class Labels(Mode):
    """The labels of a run, by their numbers.

    Attributes:
        asked: all that were asked for.
        begun: when the label function was last called for each.
        answers: those that are there, and those whose calls failed.
        wishes: frames that segments and people want labels of, with the reason, as long as these are not asked for.
        version: of the label function, as it was asked last; the engine says which it is now.
    """

    def __init__(self, *of: Any) -> None:
        super().__init__(*of)
        self.asked: dict[int, Asked] = {}
        self.begun: dict[int, float] = {}
        self.answers: dict[int, Answered] = {}
        self.wishes: dict[FrameId, str] = {}
        self.version = ""
        self._bounds: dict[tuple[str, int], float] = {}  # by the versions of the function, and of each audited model
        self._given = array("i")  # version of the model of each start, as far as any had one

    @property
    def takes(self) -> Mapping[type[Record], Callable[[Any], None]]:
        return {Asked: self._ask, Answering: self._begin, Answered: self._answer}

    def _ask(self, record: Asked) -> None:
        self.asked[record.label], self.version = record, record.version
        self.wishes = {frame: why for frame, why in self.wishes.items() if frame[:2] != record.frame[:2]}

    def _begin(self, record: Answering) -> None:
        self.begun[self.asked[record.label].label] = record.t

    def _answer(self, record: Answered) -> None:
        asked = self.asked[record.label]
        self.answers[record.label] = record
        if asked.drawn:
            covered = self._covered(asked.version)
            self._bounds |= {(asked.version, each.version): each.bound for each in covered}

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
        bound = self._bounds.get((self.version, self.state.models.newest), WRONG)
        return bound if bound < WRONG else math.inf

    @property
    def coverage(self) -> list[Coverage]:
        """Of each model that was audited, how often the bound on its error held that was known before each audit."""
        return self._covered(self.version)

    def _covered(self, function: str) -> list[Coverage]:
        """By a version of the function. An audit whose calls failed may be as wrong as any; of a segment that was
        audited twice, as older runs did, the first counts."""
        first = dict[tuple[int, ...], tuple[int, float]]()
        for number, answer in self.answers.items():
            asked = self.asked[number]
            if asked.drawn and asked.version == function and (answer.error is not None or not answer.group):
                error = WRONG if answer.error is None else answer.error
                first.setdefault((asked.model, asked.frame.walker, asked.frame.segment), (asked.model, error))
        version, errors = np.array(list(first.values()), float).reshape(-1, 2).T
        return coverage({"version": version, "truth": errors, "said": np.zeros(len(errors))})

    def audited(self, model: int, version: str, running: Iterable[Segment]) -> np.ndarray:
        """`frame_key` of (walker, segment) of all that are not to be audited: it was done, or they are not over."""
        at = [(each.walker, each.number) for each in running]
        at += [(each.frame.walker, each.frame.segment) for each in self.asked.values()
               if each.drawn and (each.model, each.version) == (model, version)]  # fmt: skip
        walker, segment = np.array(at, np.int64).reshape(-1, 2).T
        return np.asarray(frame_key(walker, segment))

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
        """How many there are to learn from, by a version of the function."""
        there = {each.label for each in self.good}.intersection(self.asked_by(version))
        return len(there) + self.state.known_labels

    def trained(self, version: str) -> int | None:
        """How many of them there were when the newest training began; None: none, or no training."""
        others = len(self.good) + self.state.known_labels - self.counted(version)
        last = self.state.models.last_labels
        return last - others if last is not None and last > others else None

    def asked_by(self, version: str) -> list[int]:
        return [n for n, each in self.asked.items() if each.version == version]

    def known(self, asked: Asked) -> Answered | None:
        """The answer that is there of the same frame, by the same version of the function."""
        return next((each for each in self._alike(asked) if each.group), None)

    def failed(self, asked: Asked) -> str:
        """Why the calls of the same frame failed, by the same version of the function; "": none did."""
        return next((each.cause for each in self._alike(asked) if not each.group), "")

    def _alike(self, asked: Asked) -> Iterator[Answered]:
        for number, answer in self.answers.items():
            before = self.asked[number]
            if (before.frame[:2], before.version) == (asked.frame[:2], asked.version):
                yield answer

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
