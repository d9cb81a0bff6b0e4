"""What people say to a running campaign -> records: `steersman tell RUN pause`, `stop`, `pin`, `label`, `set` and more.

A word changes the state and nothing else. What follows from it is done where all else is done, by the driver's next
step, and done again if the bus fails meanwhile.
"""

from __future__ import annotations

import platform
import secrets
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from msgspec import json, to_builtins
from pydantic import BaseModel

from steersman.bus import BusError, BusTimeout, TupleSpace
from steersman.engine.inbox import LONGEST, TELL, Inbox, Words
from steersman.journal import copies
from steersman.journal import file as journal
from steersman.journal.errors import FINISHED, no_segment
from steersman.journal.lock import owner
from steersman.journal.recorder import Recorder
from steersman.journal.records import End, FrameId, Prepared, Session, Tell
from steersman.journal.run_directory import RunDirectory, user
from steersman.journal.segments import Segment
from steersman.journal.state import State
from steersman.stages import loading
from steersman.stages.params import Params
from steersman.steering import Steering
from steersman.store.names import FrameName, SegmentName
from steersman.system.errors import BadInput, BadValue, UnknownName

ANSWER = "tell.answer"  # name of tuples on the bus
VERBS = ("pause", "continue", "stop", "pin", "label", "set", "finish")
ANSWER_S = 30.0  # a message that nobody took within so long is taken by nobody
KNOWN = 64  # words that a killed server may hand out twice

Check = Callable[[dict[str, Any]], Params]  # of what was set; raises BadInput


def told_before_prepared(directory: RunDirectory) -> dict[str, Any]:
    """Parameters that were changed before the first start was prepared: it is made of these, also when it is lost and
    made again."""
    told: dict[str, Any] = {}
    for record in journal.read(directory.journal, Tell, Prepared):
        if not isinstance(record, Tell):
            break
        told |= record.settings
    return told


def tell(directory: RunDirectory, words: list[str], said_by: str = "") -> str:
    """Say something to a running campaign and wait for its answer.

    Args:
        said_by: who says it; "": the person at this process.
    Raises: BadInput: a word is too long, the campaign refused it, or is not there.
    """
    expect_driver(directory)
    if longest := [word for word in words if len(word) > LONGEST]:
        problem = f"it has {len(longest[0]):,} characters; a run can be told {LONGEST:,}; put what is longer in a file"
        raise BadValue("tell", f"{longest[0][:40]!r}...", problem)
    message = Words(id=secrets.token_hex(6), who=said_by or who(), words=words)
    try:
        with TupleSpace.connect(directory.bus, patience_s=ANSWER_S) as space:
            space.put(TELL, {"id": message.id, "who": message.who, "words": words}, ttl_s=ANSWER_S)
            _, _, done, text = space.take(ANSWER, message.id, bool, str, timeout_s=ANSWER_S)
    except BusError as error:
        expect_driver(directory)  # it may have ended meanwhile
        if isinstance(error, BusTimeout) or _end(directory):
            raise _not_running(directory) from None
        raise
    if not done:
        raise BadInput(text)
    return str(text)


def changes(
    assignments: Iterable[str], known: Mapping[str, Any], check: Check, option: str = "--set"
) -> dict[str, Any]:
    """The parameters that `key=value` change, beside those that were changed before.

    Raises: BadInput: one of them cannot be set, or not be written down.
    """
    changed = loading.assigned(assignments, option)
    params = check({**known, **changed})
    for key, value in changed.items():
        try:
            if json.decode(json.encode(value)) != to_builtins(value, str_keys=True):
                raise ValueError("JSON has no infinity and no NaN")
        except (OverflowError, TypeError, ValueError) as error:
            raise BadValue(key, f"{value!r:.80}", f"it cannot be recorded: {error}") from None
    # One with parts of its own is recorded whole, with the defaults of those that were not named.
    parts = {key: getattr(params, key) for key in changed}
    return changed | {key: part.model_dump(mode="json") for key, part in parts.items() if isinstance(part, BaseModel)}


def set_to_go_on(assignments: Sequence[str], state: State, check: Check) -> Tell | None:
    """What a person sets before a run goes on, as its record. Raises: BadInput, see `changes`."""
    if not assignments:
        return None
    settings, text = changes(assignments, state.wishes.settings, check), f"{who()}: set {' '.join(assignments)}"
    return Tell(id=secrets.token_hex(6), who=who(), verb="set", text=text, settings=settings)


def who() -> str:
    """Name and host of the person at this process."""
    return f"{user()}@{platform.node()}"


def expect_driver(directory: RunDirectory) -> None:
    """Raises: BadInput: no process drives this run, and how it ended, if it did; or it is a copy."""
    copies.refuse(directory.path)
    holder = owner(directory.path)
    if holder is None or holder.why_gone:
        raise _not_running(directory)


def _not_running(directory: RunDirectory) -> BadInput:
    end, path = _end(directory), directory.path
    if end and end.outcome in FINISHED:
        return BadInput(f"{path} is over ({end.outcome}): {end.reason}")
    state = f"has ended ({end.outcome}): {end.reason}" if end else "is not running, or does not answer"
    return BadInput(f"{path} {state}; `steersman resume {path}` continues it")


def _end(directory: RunDirectory) -> End | None:
    """How the run ended, if its last session did; its driver may still be at the report."""
    end = None
    for record in journal.read(directory.journal, End, Session):
        end = record if isinstance(record, End) else None
    return end


class People:
    """Takes what people say to a run, checks it, and writes it down with who and when.

    Args:
        check: raises BadInput for parameters that cannot be set.
        steering: that of the run; nothing is pinned where that would break the weights of frames.
        over: why a verb comes too late for this session; "": it does not.
        labels: frames can be labelled.
    """

    def __init__(
        self,
        inbox: Inbox,
        space: TupleSpace,
        recorder: Recorder,
        check: Check,
        steering: Steering | None = None,
        over: Callable[[str], str] = lambda verb: "",
        labels: bool = False,
    ) -> None:
        self._inbox, self._space, self._recorder, self._check = inbox, space, recorder, check
        self._steering, self._over = steering or Steering(), over
        self._verbs = [verb for verb in VERBS if labels or verb != "label"]
        self._known = deque[str](maxlen=KNOWN)

    @property
    def _state(self) -> State:
        return self._recorder.state

    def listen(self) -> None:
        """Take the words that have come, and answer. Raises: BusError: the answer is lost then, and nothing else."""
        answers = [(ANSWER, words.id, *self._answer(words)) for words in self._inbox.words()]
        if answers:
            self._space.put_many(answers, ttl_s=ANSWER_S)

    def _answer(self, words: Words) -> tuple[bool, str]:
        text = f"{words.who}: {' '.join(words.words)}"
        if words.id in self._known:
            return True, text
        try:
            self._recorder.record(self._read(words, text))
        except BadInput as error:
            return False, str(error)
        self._known.append(words.id)
        return True, text

    def _read(self, words: Words, text: str) -> Tell:
        verb, *rest = words.words or [""]
        if verb not in self._verbs:
            raise UnknownName("command", verb, self._verbs)
        if why := self._over(verb):
            raise BadInput(f"this comes too late, for the run is ending: {why}; `steersman resume` can go on with it")
        said = partial(Tell, id=words.id, who=words.who, verb=verb, text=text)
        match verb, _checked(verb, rest):
            case "stop", [name]:
                return said(segment=self._running(name))
            case "pin", [frame]:
                return said(frame=self._start(frame))
            case "label", [frame]:
                return said(frame=self._frame(verb, frame)[0])
            case "set", [assignment]:
                return said(settings=changes([assignment], self._state.wishes.settings, self._check, "set"))
            case "pause", _ if self._state.wishes.paused:
                raise BadInput(f"{self._state.wishes.paused.who} paused the run already")
            case "continue", _ if not self._state.wishes.paused:
                raise BadInput("the run is not paused")
        return said()

    def _running(self, name: str) -> str:
        segment = self._segment(name)
        if segment.end is not None:
            raise BadInput(f"segment {name} has ended: {segment.how}")
        return segment.name

    def _start(self, frame: str) -> FrameId:
        if why := self._steering.no_pins:
            raise BadInput(why)
        at, segment, last = self._frame("pin", frame)
        if not self._state.can_begin_at(at):
            instead = f"; pin {last}" if segment.state else ""
            problem = "this workflow needs a restart state, so it begins only where a segment ended that gave one"
            raise BadValue("pin", frame, problem + instead)
        return at

    def _frame(self, verb: str, frame: str) -> tuple[FrameId, Segment, FrameName]:
        """A frame, its segment, and the last frame of that."""
        named, segment = FrameName.parse(frame), self._segment(frame.partition(":")[0])
        row = segment.first + named.frame if named else -1
        end = self._state.walkers[segment.walker].rows_end(segment)
        last = FrameName(SegmentName(segment.walker, segment.number), end - segment.first - 1)
        if not segment.first <= row < end:
            raise BadValue(verb, frame, f"write SEGMENT:FRAME; {segment.name} has frames 0 to {last.frame}")
        return FrameId(segment.walker, row, segment.number), segment, last

    def _segment(self, name: str) -> Segment:
        named = SegmentName.parse(name)
        if named and named.walker in self._state.walkers:
            segments = self._state.walkers[named.walker].segments
            if named.number < len(segments):
                return segments[named.number]
        newest = [walker.segments[-1].name for walker in self._state.walkers.values() if walker.segments]
        raise no_segment(name, newest[-1] if newest else "")


def _checked(verb: str, words: list[str]) -> list[str]:
    wanted = {"stop": "SEGMENT", "pin": "SEGMENT:FRAME", "label": "SEGMENT:FRAME", "set": "key=value"}.get(verb)
    if len(words) != (wanted is not None):
        raise BadValue("tell", " ".join([verb, *words]), f"write: {verb} {wanted or ''}".rstrip())
    return words
