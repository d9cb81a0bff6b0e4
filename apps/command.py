"""Command line -> frames: a simulation that is not Python, read while it runs."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import numpy as np
from numpy.typing import DTypeLike

from steersman.apps.errors import CommandFailed
from steersman.system.errors import BadInput, BadValue, EngineError
from steersman.system.processes import end

FrameT = TypeVar("FrameT")
GRACE_S = 5.0  # between TERM and KILL: time enough to write a checkpoint
TAIL_CHARS = 4000  # of what a program said that an error quotes
KNOWN = 4096  # bytes by which a file is known again


def command(
    args: Sequence[str | Path],
    *,
    reader: Callable[[Path], Iterable[FrameT]],
    cwd: str | Path | None = None,
    poll_s: float = 0.2,
    stop: Callable[[], bool] = lambda: False,
    grace_s: float = GRACE_S,
) -> Generator[FrameT, None, None]:
    """Run an executable and give the frames that it writes while it runs.

    It runs in a session of its own, with its output in stdout.txt and stderr.txt of the working directory. It and
    all that it started end with this iterator: when it is closed, or when `stop` says so.

    Args:
        args: the program and its arguments; no shell.
        reader: called again and again with the working directory; gives the frames that are new since its last call.
            Called once more after the end; if it has a method `rest`, this gives what is left when the program has
            ended well.
        cwd: the working directory, without frames of another program; None makes one and removes it afterwards.
        poll_s: between two calls of reader and stop.
        stop: whether to end the program now; that is no failure. Asked after each frame, and every `poll_s`.
        grace_s: between asking (TERM) and killing (KILL).
    Raises:
        BadInput: the program cannot be started.
        CommandFailed: it ended with another exit code than 0; the frames before that have been given.
        EngineError: `cwd` has frames before the program begins.
        BadValue: `args` is no list with a program.
    """
    with (
        directory(cwd) as folder,
        started(args, folder, grace_s, before=lambda: _check_no_frames(folder, reader)) as process,
    ):
        running, asked = True, False
        while running:
            running = not _ended(process, poll_s)  # before reading: what it wrote last is read as well
            for frame in reader(folder):  # what is written is given, however many it is
                yield frame
                asked = asked or stop()
            if running and (asked or stop()):
                stopped(args, process, grace_s, folder)
                return
        if process.returncode:
            raise failed(args, process.returncode, folder)
        if rest := getattr(reader, "rest", None):
            yield from rest(folder)


def lines(name: str) -> Callable[[Path], Iterator[str]]:
    """A reader for `command`: the lines that are new in a file of the working directory; each is whole.

    A line ends with a line feed, or carriage return and line feed, and with nothing else; but the last one of a program
    that ended well may end with the file.
    Raises, while it reads: EngineError: what was read is not there any more.
    """
    return _Lines(name)


def records(name: str, dtype: DTypeLike) -> Callable[[Path], Iterator[Any]]:
    """A reader for `command`: the records of one size that are new in a binary file of the working directory.

    Args:
        dtype: of one record, e.g. [("time", "<f8"), ("position", "<f4", (22, 3))], or ("<f4", (22, 3)) for an array; a
            record is given as NumPy has it, and only when all its bytes are there.
    Raises: ValueError: a dtype without bytes, or of Python objects. While it reads, EngineError, as `lines`,
        and where a program that ended well left a part of a record.
    """
    record = np.dtype(dtype)
    if record.hasobject or not record.itemsize:
        raise ValueError(f"records({name!r}, {record}): a record has bytes, at least one, and no Python objects")
    return _Records(name, record)


class _Lines:
    def __init__(self, name: str) -> None:
        self._name, self._file = name, Growing()

    def __call__(self, folder: Path) -> Iterator[str]:
        whole, end, _ = self._file.unread(folder / self._name).rpartition(b"\n")
        self._file.take(whole + end)
        for line in whole.split(b"\n") if end else ():  # splitlines() also splits at \r, \f and U+2028
            yield line.removesuffix(b"\r").decode(errors="replace")

    def rest(self, folder: Path) -> Iterator[str]:
        if text := self._file.unread(folder / self._name):
            self._file.take(text)
            yield text.decode(errors="replace")


class _Records:
    def __init__(self, name: str, record: np.dtype[Any]) -> None:
        self._name, self._record, self._file = name, record, Growing()

    def __call__(self, folder: Path) -> Iterator[Any]:
        tail = self._file.unread(folder / self._name)
        whole = tail[: len(tail) - len(tail) % self._record.itemsize]
        self._file.take(whole)
        yield from np.frombuffer(whole, self._record)

    def rest(self, folder: Path) -> Iterator[Any]:
        if left := len(self._file.unread(folder / self._name)):
            size = self._record.itemsize
            problem = f"{left} bytes are left behind its last record of {size}: is a record of it as the dtype says?"
            raise EngineError(f"{folder / self._name}: {problem}")
        return iter(())


class Growing:
    """A file to whose end a program writes: what of it was not taken yet."""

    def __init__(self) -> None:
        self._taken, self._last = 0, b""

    def unread(self, file: Path) -> bytes:
        """What follows what was taken; nothing where there is no file yet.

        Raises: EngineError: what was taken is not there any more: the program writes the file anew.
        """
        try:
            with file.open("rb") as opened:
                opened.seek(self._taken - len(self._last))
                content = opened.read()
        except FileNotFoundError:
            content = b""
        if not content.startswith(self._last):
            problem = f"its first {self._taken:,} bytes, of which frames were read, are not there any more"
            advice = "let the program append to the file, or give `command` a reader of your own"
            raise EngineError(f"{file}: {problem}; {advice}")
        return content[len(self._last) :]

    def take(self, data: bytes) -> None:
        """Args: data: the first bytes of those that were unread."""
        self._taken += len(data)
        self._last = (self._last + data[-KNOWN:])[-KNOWN:]


@contextmanager
def directory(cwd: str | Path | None) -> Iterator[Path]:
    """Where a program works; None makes a directory and removes it afterwards."""
    if cwd is not None:
        yield Path(cwd)
        return
    with TemporaryDirectory(prefix="steersman-") as name:
        yield Path(name)


@contextmanager
def started(
    args: Sequence[str | Path],
    folder: Path,
    grace_s: float,
    *,
    environment: Mapping[str, str] | None = None,
    before: Callable[[], None] = lambda: None,
) -> Iterator[subprocess.Popen[bytes]]:
    """A program in a session of its own, which ends with this context, and all that it started.

    Args:
        environment: in place of this process's own.
        before: called when the files of its output are there, and it has not begun.
    Raises: BadInput: it cannot be started. BadValue: `args` is no list with a program.
    """
    if isinstance(args, str | Path) or not args:
        raise BadValue("args", repr(args), 'give a list: the program and its arguments, ["gmx", "mdrun"]')
    with (folder / "stdout.txt").open("wb") as out, (folder / "stderr.txt").open("wb") as err:
        before()
        try:
            process = subprocess.Popen(
                [str(arg) for arg in args], cwd=folder, stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                start_new_session=True, env=environment,
            )  # fmt: skip
        except OSError as refused:
            raise BadInput(
                f"{_text(args)} could not be started: {refused}; it is started in a directory of its own: write the "
                "absolute path of the program, or put it on PATH"
            ) from refused
        try:
            yield process
        finally:
            end(process.pid, grace_s, group=True)  # a rank that outlives its mpiexec would hold the node
            process.poll()


def _check_no_frames(folder: Path, reader: Callable[[Path], Iterable[Any]]) -> None:
    with suppress(FileNotFoundError):  # a reader may count on a file
        for _ in reader(folder):
            problem = "it has frames before the program begins, which would be taken for its own"
            advice = "remove their file, or leave out `cwd`: each call has a new directory then"
            raise EngineError(f"{folder}: {problem}; {advice}")


def stopped(args: Sequence[str | Path], process: subprocess.Popen[bytes], grace_s: float, folder: Path) -> None:
    """End it, and print what it said last: that is kept if the segment has failed, for it hung, say."""
    end(process.pid, grace_s, group=True)
    stream, text = _said(folder)
    if text.strip():
        print(f"{_text(args)} was ended; its {stream} ends with:\n{text.strip()}", file=sys.stderr)


def failed(args: Sequence[str | Path], exit_code: int, folder: Path) -> CommandFailed:
    """With what the program said last, on stderr or else on stdout; what it said on both is noted."""
    stream, text = _said(folder)
    error = CommandFailed(_text(args), exit_code, text, stream)
    for name in ("stderr", "stdout"):
        if (text := _tail(folder / f"{name}.txt")).strip():
            error.add_note(f"its {name} ends with:\n{text.strip()}")
    return error


def _said(folder: Path) -> tuple[str, str]:
    """Where the program said something last, on stderr or else on stdout, and what."""
    text = _tail(folder / "stderr.txt")
    return ("stderr", text) if text.strip() else ("stdout", _tail(folder / "stdout.txt"))


def _ended(process: subprocess.Popen[bytes], within_s: float) -> bool:
    with suppress(subprocess.TimeoutExpired):
        process.wait(within_s)
    return process.poll() is not None


def _tail(path: Path) -> str:
    return path.read_text(errors="replace")[-TAIL_CHARS:]


def _text(args: Sequence[str | Path]) -> str:
    return shlex.join(str(arg) for arg in args)
