"""What a site answers -> the same, checked: the one place where values and paths of another machine come in.

A site, or who has its account, may answer anything. Every answer has the type of its question, a path that it names
lies in the run directory here and is no part of our own state, and numbers are such as can be shown.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, NotRequired, TypedDict, TypeVar

import msgspec
from msgspec import Meta

from steersman.journal import copies
from steersman.remote import transfer
from steersman.remote.errors import bad_answer
from steersman.system.files import PARTIAL

OURS = (*transfer.PRIVATE, copies.FOLDER)  # at the top of a run directory, and never taken from a site
MOST_FILES = 500_000  # in a listing
MOST_PATH, MOST_NAME = 1000, 200  # bytes: something still fits behind a name

T = TypeVar("T")
Size = Annotated[int, Meta(ge=0, le=2**50)]
Moment = Annotated[float, Meta(ge=0, le=1e11)]


class DriverState(TypedDict):
    """See `Submitted.state`."""

    state: Literal["unknown", "waiting", "running", "ended", "lost"]
    code: NotRequired[Annotated[int, Meta(ge=-64, le=255)]]
    ended: NotRequired[Moment]
    driver: NotRequired[str]
    where: NotRequired[str]
    why: NotRequired[str]


class Look(DriverState):
    """See `there.look`."""

    path: str
    now: Moment
    log: str
    log_end: Size
    fresh: NotRequired[bool]


class Part(TypedDict):
    """See `transfer.read`."""

    path: str
    gone: NotRequired[bool]
    of: NotRequired[Annotated[str, Meta(max_length=100)]]
    offset: NotRequired[Size]
    size: NotRequired[Size]
    data: NotRequired[bytes]
    sha256: NotRequired[str]


class Done(TypedDict):
    """What a program did there, see function.py."""

    code: int
    out: str
    err: str
    executable: str


Python = Annotated[str, Meta(pattern=r"^[0-9]{1,4}\.[0-9]{1,4}(\.|$)")]
Facts = TypedDict("Facts", {
    "python": Python, "endpoint_python": Python, "executable": str, "host": str, "user": str, "folder": str,
    "unwritable": str, "free": Size, "steersman": str, "parsl": str, "dill": str, "globus-compute-sdk": str,
    "globus-compute-endpoint": str, "torch": str, "openmm": str,
})  # fmt: skip


class Installed(TypedDict):
    """See install_there.py."""

    python: str
    problem: str


class Answer(msgspec.Struct):
    """What `there.main` prints."""

    protocol: int
    version: str
    answers: list[msgspec.Raw] = []
    refused: str | None = None
    failed: str | None = None


Listing = Annotated[dict[str, tuple[Size, str]], Meta(max_length=MOST_FILES)]
KINDS: dict[str, Any] = {
    **dict.fromkeys(("look", "start", "resume", "drive", "cancel"), Look),
    "tell": str, "draw": None, "listing": Listing, "read": list[Part], "names": dict[str, DriverState],
    "check_site": list[tuple[str, bool, str]],
}  # fmt: skip


def checked(questions: Sequence[tuple[str, dict[str, Any]]], answers: Sequence[msgspec.Raw]) -> list[Any]:
    """The answers to questions, see `Site.ask`. Raises: EngineError: they are none, or of another kind."""
    if len(answers) != len(questions):
        raise bad_answer(f"{len(answers)} answers to {len(questions)} questions")
    kept = []
    for (question, given), raw in zip(questions, answers, strict=True):
        answer = _taken(lambda: msgspec.msgpack.decode(raw, type=KINDS[question]))  # noqa: B023
        if question == "listing":
            for path in answer:
                _check_path(path)
        if question == "read":
            _check_parts(given["pieces"], answer)
        if question in ("look", "start", "resume", "drive", "cancel", "names"):
            for each in answer.values() if question == "names" else (answer,):
                _check_state(each)
        kept.append(answer)
    return kept


def done(result: dict[str, Any]) -> Done:
    """What a program did there. Raises: EngineError."""
    return _taken(lambda: msgspec.convert(result, Done))


def facts(text: str) -> dict[str, Any]:
    """What facts.py printed there. Raises: EngineError."""
    return dict(_taken(lambda: msgspec.json.decode(text, type=Facts)))


def installed(text: str) -> dict[str, str]:
    """What install_there.py printed there: python and problem. Raises: EngineError."""
    return dict(_taken(lambda: msgspec.json.decode(text, type=Installed)))


def place(folder: Path, path: str) -> Path:
    """Where a file of a run lies in its copy. Raises: EngineError: outside, or behind a symbolic link."""
    _check_path(path)
    target = folder
    for name in path.split("/"):
        target = target / name
        if target.is_symlink():
            raise bad_answer(f"{path!r} is behind the symbolic link {target}; remove it")
    return target


def _taken(decode: Callable[[], T]) -> T:
    try:
        return decode()
    except (ValueError, RecursionError) as error:
        raise bad_answer(str(error)) from None


def _check_path(path: str) -> None:
    """Raises: EngineError: no path of a file in a run directory, or one of a file that is ours alone."""
    names = path.split("/")
    strange = path.startswith("/") or "\0" in path or any(name in ("", ".", "..") for name in names)
    long = len(path.encode()) > MOST_PATH or any(len(name.encode()) > MOST_NAME for name in names)
    if strange or long or names[0] in OURS or path.endswith(PARTIAL):
        raise bad_answer(f"it names the file {path[:MOST_PATH]!r}, which a run's directory at a site has not")


def _check_parts(pieces: Sequence[transfer.Piece], parts: Sequence[Part]) -> None:
    """Raises: EngineError: not the pieces that were asked for, in their order."""
    if not parts or len(parts) > len(pieces):
        raise bad_answer(f"{len(parts)} pieces for {len(pieces)}")
    for (path, offset, of), part in zip(pieces, parts, strict=False):
        whole = {"of", "offset", "size", "data", "sha256"} <= part.keys()
        same = whole and part["offset"] == offset and (not of or part["of"] == of)
        if part["path"] != path or not (part.get("gone") or same):
            raise bad_answer(f"another piece than that of {path!r} from {offset:,}")


def _check_state(state: DriverState) -> None:
    """Raises: EngineError: it lacks what its state has."""
    needs = {"ended": "code", "lost": "why", "waiting": "where"}.get(state["state"])
    if needs and needs not in state:
        raise bad_answer(f"the state {state['state']!r} without {needs!r}")
