"""What people tell a running campaign -> records: `steersman tell RUN pause | continue | stop | pin | set | finish`."""

from __future__ import annotations

import platform
import secrets
from typing import TYPE_CHECKING, Any

from steersman.bus import BusTimeout, TupleSpace
from steersman.engine.errors import NotRunning
from steersman.journal import file as journal
from steersman.journal.errors import NoSuchSegment
from steersman.journal.lock import owner
from steersman.journal.run_directory import RunDirectory, user
from steersman.journal.segments import Segment
from steersman.journal.state import State
from steersman.stages import loading
from steersman.system.errors import BadInput, BadRequest, BadValue, UnknownName

if TYPE_CHECKING:
    from steersman.engine.run import Run

TELL, ANSWER = "tell", "tell.answer"  # names of tuples on the bus
VERBS = ("pause", "continue", "stop", "pin", "set", "finish")
ANSWER_S = 30.0
OLD_S = 120.0  # nobody waits for these answers any more


def tell(directory: RunDirectory, words: list[str]) -> str:
    """Tell a running campaign something and wait for its answer.

    Raises: BadInput: the campaign refused it. NotRunning.
    """
    expect_driver(directory)
    number = secrets.token_hex(6)
    message = {"id": number, "who": f"{user()}@{platform.node()}", "words": words}
    try:
        with TupleSpace.connect(directory.bus, patience_s=ANSWER_S) as space:
            space.put(TELL, message, ttl_s=OLD_S)
            _, _, done, text = space.take(ANSWER, number, bool, str, timeout_s=ANSWER_S)
    except BusTimeout:
        raise NotRunning(str(directory.path)) from None
    if not done:
        raise BadRequest(text)
    return str(text)


def expect_driver(directory: RunDirectory) -> None:
    """Raises: NotRunning: no process drives this run; how it ended, if it did."""
    holder = owner(directory.path)
    if holder is None or holder.why_gone:
        told = [record for record in journal.read(directory.journal) if record["kind"] in ("session", "end")]
        end = told[-1] if told and told[-1]["kind"] == "end" else {"outcome": "", "reason": ""}
        raise NotRunning(str(directory.path), end["outcome"], end["reason"])


class People:
    """Takes what people tell a run: checked, journalled with who and when, then acted upon."""

    def __init__(self, run: Run) -> None:
        self._run = run

    @property
    def _state(self) -> State:
        return self._run.state

    def listen(self) -> None:
        for _, message in self._run.space.take_many_nowait(TELL, dict):
            try:
                done, text = True, self._take(message["words"], message)
            except BadInput as error:
                done, text = False, str(error)
            self._run.space.put(ANSWER, message["id"], done, text, ttl_s=OLD_S)

    def apply_settings(self) -> None:
        """Make the changed parameters those of the engine: its stop rule and when it trains."""
        run = self._run
        if self._state.settings:
            params = loading.checked(run.workflow, run.params.model_dump(mode="json") | self._state.settings)
            run.stop_rule, run.learner.rule = run.workflow.stop_rule(params), run.workflow.train_rule(params)

    def _take(self, words: list[str], message: dict[str, Any]) -> str:
        verb, *rest = words or [""]
        if verb not in VERBS:
            raise UnknownName("word to tell", verb, VERBS)
        fields = getattr(self, f"_{verb}")(*_exactly(verb, rest))
        text = f"{message['who']} told: {' '.join(words)}"
        self._run.recorder.record("told", id=message["id"], who=message["who"], verb=verb, text=text, **fields)
        self._act(verb, fields, message["who"])
        return text

    def _act(self, verb: str, fields: dict[str, Any], who: str) -> None:
        run = self._run
        match verb:
            case "pause":
                run.bag.empty(run.slots)
            case "continue":
                run.bag.restore()
            case "stop":
                run.crew.stop_segment(fields["segment"], "told to", by=who)
            case "set":
                self.apply_settings()

    def _pause(self) -> dict[str, Any]:
        return {}

    def _continue(self) -> dict[str, Any]:
        return {}

    def _finish(self) -> dict[str, Any]:
        return {}

    def _stop(self, name: str) -> dict[str, Any]:
        segment = self._segment(name)
        if segment.end is not None:
            raise BadRequest(f"segment {name} has ended: {segment.how}")
        return {"segment": name}

    def _pin(self, frame: str) -> dict[str, Any]:
        name, _, text = frame.partition(":")
        segment = self._segment(name)
        row = segment.first + int(text) if text.isdecimal() else -1
        end = self._state.walkers[segment.walker].rows_end(segment)
        if not segment.first <= row < end:
            raise BadValue("pin", frame, f"write SEGMENT:FRAME; {name} has frames 0 to {end - segment.first - 1}")
        return {"frame": [segment.walker, row, segment.number]}

    def _set(self, assignment: str) -> dict[str, Any]:
        key, equals, text = assignment.partition("=")
        if not equals:
            raise BadValue("set", assignment, "write set key=value")
        settings = self._state.settings | {key.strip(): loading.value(key, text)}
        workflow, params = self._run.workflow, self._run.params
        changed = loading.checked(workflow, params.model_dump(mode="json") | settings)
        loading.check_rules(workflow, changed)
        return {"settings": {key.strip(): settings[key.strip()]}}

    def _segment(self, name: str) -> Segment:
        walker, _, number = name.removeprefix("w").partition(".")
        if walker.isdecimal() and number.isdecimal() and int(walker) in self._state.walkers:
            segments = self._state.walkers[int(walker)].segments
            if int(number) < len(segments):
                return segments[int(number)]
        newest = [walker.segments[-1].name for walker in self._state.walkers.values() if walker.segments]
        raise NoSuchSegment(name, newest[-1] if newest else "none yet")


def _exactly(verb: str, words: list[str]) -> list[str]:
    wanted = {"stop": "SEGMENT", "pin": "SEGMENT:FRAME", "set": "key=value"}.get(verb)
    if len(words) != (wanted is not None):
        raise BadValue("tell", " ".join([verb, *words]), f"write: {verb} {wanted or ''}".rstrip())
    return words
