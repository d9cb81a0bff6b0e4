"""What a journal holds: one class for each kind of record. This file documents `journal.jsonl`.

A line of the file is one JSON object: {"v": 2, "n": 17, "prev": "1f0c9a3e", "kind": "began", "t": 1790000000.0,
<fields>, "crc": "8 hex digits"}: the oldest version of the format that has such a record, the number of the record, the
checksum of the record before it, its kind, the time in seconds since 1970, and the fields of its class. `crc` is the
CRC-32 of the line up to it. A field that has its default value is left out.

Numbers of walkers, starts, models, and of segments within their walker, begin at 0 (models at 1) and are never used
again. Times without a unit in their name are simulated times, in the run's unit (`Run.time_unit`).
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Annotated, Any, ClassVar

from msgspec import Meta, ValidationError, convert, json, to_builtins

from steersman.journal.given import Given
from steersman.journal.record import Amount, Name, Number, Text
from steersman.journal.record import FrameId as FrameId
from steersman.journal.record import Record as Record
from steersman.system.errors import EngineError

VERSIONED = ("model", "bias")  # what is learned in versions, each with files of its own
UNKNOWN = "unknown"  # in place of the policy of a start whose record was lost

# The run


class Run(Record, tag="run", frozen=True):
    """What is run; the first record."""

    workflow: str = ""
    seed: int = 0
    rounds: bool = False
    slots: Number = 0
    guided: bool = False  # steered by a known reference
    gpus: Number = 0  # of all slots together
    time_unit: str = "1"
    files: Mapping[str, str] = {}  # SHA-256 of what is written once, by name: run.yaml, workflow.py, environment.json
    stages: tuple[str, ...] = ()  # of prepare, simulate, train and score those that the workflow has
    exact: bool | None = None  # as the workflow says: segments begin where another gave its state; None: it is seen
    scattered: bool = False  # of each ten starts any one is held out, as `HeldOut` says; else the last


class Session(Record, tag="session", frozen=True):
    """A driver begins."""

    host: str
    pid: Number
    after: float | None = None  # time of the last record of the session before
    slots: Number | None = None  # and the GPUs of all of them together, from here on; None: as the run began
    gpus: Number | None = None


class Prepared(Record, tag="prepared", frozen=True):
    """The start of all walkers was made."""

    sha256: str  # of prepared.pkl
    labels: Number = 0  # that were there before, which it gave
    source: Text = ""  # of these


class End(Record, tag="end", frozen=True):
    """A driver ends: goal, budget, finished (by a person), failed or interrupted."""

    outcome: str
    reason: str


class Note(Record, tag="note", frozen=True):
    """Something that people should know."""

    text: str
    anew: bool = False  # scores were read back and ranked anew, as in a new session
    metric: str = ""  # that has no value yet


class Called(Record, tag="called", frozen=True):
    """A plan, before or after the loop, calls a task for the first time, or again after others of that task; or it is
    what a plan itself gives."""

    format: ClassVar[int] = 5  # who does not know it would end a run without what comes after the loop

    call: Name  # SHA-256 of the task's name, of its arguments and of the calls in these; "" of a plan that failed
    task: Name
    needs: tuple[Name, ...] = ()  # calls whose results are arguments
    words: Text = ""  # its arguments


class Task(Record, tag="task", frozen=True):
    """A call is done, and its result kept; or it failed for good."""

    format: ClassVar[int] = 5

    call: Name
    sha256: Name = ""  # of its result; "": it failed
    cause: str = ""
    node: Name = ""
    took_s: Amount = 0.0
    size: Number = 0  # of its result, bytes


# Walkers


class Hired(Record, tag="walker", frozen=True):
    """A walker is asked for; it has not come yet."""

    walker: Number
    slot: Number


class Joined(Record, tag="joined", frozen=True):
    """A walker came."""

    walker: Number
    node: Name = ""
    pool: Name = ""  # Parsl's name for the workers of a node in a block
    block_ends: float | None = None  # seconds since 1970
    pid: Number = 0


class Left(Record, tag="left", frozen=True):
    """A walker went home in good order."""

    walker: Number
    reason: str


class Lost(Record, tag="lost", frozen=True):
    """A walker died. What it had committed stays."""

    walker: Number
    cause: str
    keep: bool = False  # a segment that was cut short goes on from its last frame; else its start is run again
    blame: bool = False  # what it ran may have killed it


class Merged(Record, tag="merged", frozen=True):
    """The groups of walkers that have ended became one: their frames lie there from now on, under the same names."""

    format: ClassVar[int] = 3  # who does not know it would look for the frames in vain

    group: Name  # m0, m1, ...
    walkers: tuple[Number, ...]


class Aside(Record, tag="aside", frozen=True):
    """A node gets no more work."""

    node: str
    reason: str


class Damaged(Record, tag="damaged", frozen=True):
    """Something was not whole: frames of a walker, a model, or a version of the bias were set aside; or a file is
    taken as it is now, which may be one that a person gave the run in place of its own."""

    reason: str
    walker: Number | None = None
    segments: tuple[Number, ...] = ()  # of the walker: these alone count no more
    simulated: Amount = 0.0  # by those of them that counted
    model: Number | None = None
    bias: Number | None = None
    file: str = ""
    sha256: str = ""

    @property
    def versions(self) -> set[tuple[str, int]]:
        """Of what was learned: those that were set aside."""
        return {(what, n) for what in VERSIONED if (n := getattr(self, what)) is not None}


# Starts and segments


class Start(Record, tag="start", frozen=True):
    """A start is chosen. The walker that takes it gets this very record over the bus."""

    start: Number
    seed: Annotated[int, Meta(ge=0, le=2**63 - 1)]  # of its segment
    slot: Number = 0
    parent: FrameId | None = None  # None: the prepared start
    policy: Name = ""
    reason: str = ""
    model: Number = 0  # whose scores it was chosen by; 0: none
    exact: bool = False  # goes on with the full restart state
    draw: Mapping[str, float | list[float]] = {}  # of a new member, by name
    condition: Mapping[str, float] = {}  # whose turn it was, by name
    held_out: bool = False  # drawn before anything was steered: no training sees its frames
    weight: Amount = 0.0  # of a member of a weighted ensemble
    round: Number = 0  # of that member, from 1 on
    set: Mapping[str, Any] = {}  # parameters that people changed
    again: Number | None = None  # the start that this one repeats
    attempt: Number = 0  # how often it failed before
    failed_on: tuple[Number, ...] = ()  # walkers on which it did
    losses: Number = 0  # walkers that died while they ran it
    pin: str = ""  # id of the `tell` that pinned it
    instead: FrameId | None = None  # the end of a segment that nobody goes on from, for its walker was lost
    with_model: Number = 0  # version of the model that simulate gets as `start.model`
    bias: Number = 0  # version of the bias that pushes it, along the coordinate of that model
    bias_sha256: Name = ""  # of the file of that version
    share: Amount = 1.0  # of its energy: half of it each time that the start failed; 0 of a control, never pushed

    @property
    def given(self) -> Given:
        return Given(self.with_model, self.bias, self.share)

    @property
    def conditions(self) -> int:
        """A number of 63 bits, the same under the same bias, parameters and condition."""
        text = json.encode((self.set, self.given, *filter(None, [self.condition])), order="sorted")
        return int.from_bytes(sha256(text).digest()[:8], "big") >> 1

    @property
    def is_member(self) -> bool:
        """Whether it counts as a whole, so that one that is lost is run from its beginning."""
        return bool(self.draw or self.round)

    @property
    def member(self) -> dict[str, float]:
        """Of a member of an ensemble: its weight and its round."""
        return {"weight": self.weight, "round": self.round} if self.round else {}

    @property
    def not_from_frames(self) -> bool:
        """Whether it stands for more than its frame, so that nothing but its record says what it was."""
        return bool(self.round or self.held_out)

    def __str__(self) -> str:
        """Its number, and below it a line for each field that says something."""
        said = [name for name in to_builtins(self) if name not in ("kind", "t", "more", "start")]
        return "\n".join([str(self.start), *(f"{name}: {getattr(self, name)}" for name in said)])


class Began(Record, tag="began", frozen=True):
    """A walker begins a segment."""

    walker: Number
    segment: Number
    start: Number
    first_row: Number
    waited_s: Amount = 0.0  # for its start
    adopted: bool = False  # read from the store: nobody heard of it


class Published(Record, tag="frames", frozen=True):
    """Frames of a walker became readable; the numbers are of all its frames and all its ended segments."""

    walker: Number
    frames: Number
    segments: Number
    simulated: Amount = 0.0  # of the segment that runs, as far as its frames are among them
    reads: bool | None = None  # whether segments without a state look at `start.frame`; None: as said before, if it was
    adopted: bool = False


class Ended(Record, tag="ended", frozen=True):
    """A segment ended: finished, stopped or failed."""

    walker: Number
    segment: Number
    start: Number
    first_row: Number
    end_row: Number
    how: Name
    cause: Text = ""
    simulated: Amount = 0.0
    waited_s: Amount = 0.0
    read_s: Amount = 0.0
    ran_s: Amount = 0.0
    cut: Name = ""  # its block ended: by then it had left its full restart "state", or has a "frame" alone
    state: bool = True  # it left its full restart state; older journals do not say it
    asks: tuple[Number, ...] = ()  # rows whose labels it asked for
    repeats: bool = True  # all that it was told would be so again, bit for bit
    adopted: bool = False


class Blame(Record, tag="blame", frozen=True):
    """A start is given up, and its frame is not proposed again."""

    start: Number
    reason: str
    parent: FrameId | None = None


class Stop(Record, tag="stop", frozen=True):
    """The engine asks a segment to end."""

    segment: str
    reason: str
    by: str


# Learning


class Training(Record, tag="training", frozen=True):
    """The training of a model begins."""

    model: Number
    frames: Number  # published when it begins
    labels: Number = 0  # answered by then


class Epoch(Record, tag="epoch", frozen=True):
    """How far a training is."""

    model: Number
    epoch: Number
    epochs: Number
    loss: float | None = None


class Trained(Record, tag="model", frozen=True):
    """A training is over."""

    model: Number
    accepted: bool
    reason: str
    frames: Number = 0
    epochs: Number = 0
    seconds: float | None = None
    loss: float | None = None
    held_out: float | None = None
    predecessor: float | None = None
    files: Mapping[str, str] = {}  # SHA-256 of what is in its folder, by name
    ranks: Number = 1


class Scored(Record, tag="scored", frozen=True):
    """Scores were computed: the number of frames that have scores of a model (0: without a model)."""

    model: Number
    frames: Number
    took_s: Amount = 0.0  # to score the newest of them


class Biased(Record, tag="bias", frozen=True):
    """A version of the bias was made, of scored frames; starts from now on have it."""

    format: ClassVar[int] = 4  # who does not know it would take frames of biased segments for unbiased ones

    bias: Number  # its version, from 1 on
    model: Number  # whose scores it was made of
    frames: Number  # that had scores
    sha256: str  # of its file
    kernels: Number = 0


class Asked(Record, tag="asked", frozen=True):
    """The label of a frame is asked for."""

    format: ClassVar[int] = 6  # who does not know it would train on labels that the gate is to have

    label: Number  # of the run, from 0 on
    frame: FrameId
    reason: Text = ""
    drawn: bool = False  # at random among all that the model in use visited, as an audit
    model: Number = 0  # in use then
    version: Name = ""  # of the label function, as the workflow says
    doubt: float | None = None  # score of the frame that the rule looks at, then


class Answering(Record, tag="answering", frozen=True):
    """The label function is called for a frame."""

    format: ClassVar[int] = 6

    label: Number


class Answered(Record, tag="answered", frozen=True):
    """A label is there, or its calls failed and it is not asked again."""

    format: ClassVar[int] = 6

    label: Number
    group: Name = ""  # of labels.zarr that has it; "": it failed
    row: Number = 0
    cause: Text = ""
    error: float | None = None  # of the model in use when it was asked for, as the workflow measures it
    node: Name = ""
    took_s: Amount = 0.0


class Metrics(Record, tag="metrics", frozen=True):
    """Figures of merit after a scoring."""

    values: Mapping[str, float]
    frames: Number | None = None  # that they are of: those without a score are left out; None: of all that were scored


class Stage(Record, tag="stage", frozen=True):
    """A stage of the workflow failed, or works again, or works for the first time."""

    stage: str  # train, score, steer, or the name of a metric
    ok: bool
    cause: str = ""


# People


class Tell(Record, tag="tell", frozen=True):
    """A person said a word: pause, continue, stop, pin, label, set or finish."""

    id: Name
    who: Name
    verb: Name
    text: str
    segment: str = ""  # stop
    frame: FrameId | None = None  # pin, label
    settings: Mapping[str, Any] = {}  # set


def words(record: Record) -> str:
    """What a record says to people, of those that displays show."""
    match record:
        case Note() | Tell():
            return record.text
        case Stage():
            return f"the {record.stage} stage failed: {record.cause}"
        case Stop():
            return f"{record.segment} is asked to stop: {record.reason}"
        case Blame() | Aside() | Damaged() | End():
            return record.reason
    return record.kind


KINDS: dict[str, type[Record]] = {
    str(kind.__struct_config__.tag): kind
    for kind in (
        Run, Session, Prepared, Called, Task, End, Note, Hired, Joined, Left, Lost, Merged, Aside, Damaged, Start,
        Began, Published, Ended, Blame, Stop, Training, Epoch, Trained, Scored, Biased, Asked,
        Answering, Answered, Metrics, Stage, Tell,
    )
}  # fmt: skip
OF_WALKERS = (Joined, Began, Published, Ended)  # what walkers say over the bus, as their record
FROM_WORKERS = {str(kind.__struct_config__.tag): kind for kind in (*OF_WALKERS, Epoch)}


class BadRecord(EngineError, ValueError):
    """A record, or a message that would become one, that does not fit its type."""

    kind: str
    problem: str

    def __str__(self) -> str:
        return f"{self.kind!r:.60}: {self.problem}"


def checked(kind: str, fields: Mapping[str, Any], kinds: Mapping[str, type[Record]] = KINDS) -> Record:
    """Make a record of plain values.

    Args:
        kinds: those that may come from where it came from.
    Raises: BadRecord: there is no such kind, or a field is missing or of another type.
    """
    if kind not in kinds:
        raise BadRecord(kind, f"unknown kind of record; known: {', '.join(kinds)}")
    try:
        record: Record = convert(fields, kinds[kind])
    except ValidationError as error:
        raise BadRecord(kind, str(error)) from None
    return record
