"""An external executable as a simulation: a C program that writes a number per line, as slowly as it is told."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steersman.apps.command import command, lines, records
from steersman.apps.errors import CommandFailed
from steersman.system.errors import BadInput, BadValue, EngineError

PENDULUM = r"""
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
int main(int argc, char **argv) {            /* frames, microseconds between them, exit code */
    FILE *out = fopen("angles.txt", "w");
    double angle = 1, speed = 0;
    for (int i = 0; i < atoi(argv[1]); i++) {
        speed -= 0.01 * angle; angle += 0.01 * speed;
        fprintf(out, "%.17g\n", angle); fflush(out);
        usleep(atoi(argv[2]));
    }
    fprintf(stderr, "pendulum: done\n");
    return atoi(argv[3]);
}
"""


@pytest.fixture(scope="module")
def pendulum(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A real executable, compiled here."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    folder = tmp_path_factory.mktemp("pendulum")
    (folder / "pendulum.c").write_text(PENDULUM)
    subprocess.run([compiler, "-o", folder / "pendulum", folder / "pendulum.c"], check=True)
    return str(folder / "pendulum")


def angles() -> Callable[[Path], Iterator[float]]:
    read = lines("angles.txt")
    return lambda folder: map(float, read(folder))


def test_every_frame_of_an_executable_arrives_once_and_in_order(pendulum: str, tmp_path: Path) -> None:
    """What was written just before the end is read too."""
    frames = list(command([pendulum, "200", "500", "0"], reader=angles(), cwd=tmp_path, poll_s=0.01))
    assert frames == [float(line) for line in (tmp_path / "angles.txt").read_text().split()]
    assert len(frames) == 200


def test_frames_arrive_while_the_executable_runs(pendulum: str, tmp_path: Path) -> None:
    """The first frame is given long before the 100 s that the program would take."""
    running = command([pendulum, "10000", "10000", "0"], reader=angles(), cwd=tmp_path, poll_s=0.01)
    began_s = time.monotonic()
    assert next(running) == pytest.approx(1, abs=1e-3)
    running.close()
    assert time.monotonic() - began_s < 50


def test_stop_ends_the_executable_without_an_error(pendulum: str, tmp_path: Path) -> None:
    """Being stopped is no failure."""
    seen: list[float] = []
    for angle in command(
        [pendulum, "3000", "10000", "0"], reader=angles(), cwd=tmp_path, poll_s=0.01, stop=lambda: len(seen) >= 5
    ):
        seen.append(angle)
    assert 5 <= len(seen) < 3000


def test_what_it_said_before_it_was_stopped_is_passed_on(capfd: pytest.CaptureFixture[str]) -> None:
    """It may be why it hangs: a rank that failed, while the others wait for it."""
    code = "import sys, time; print('a rank failed', file=sys.stderr, flush=True); time.sleep(60)"
    program = [sys.executable, "-c", code]
    seen: list[str] = []

    def said(folder: Path) -> list[str]:
        seen.append((folder / "stderr.txt").read_text())
        return []

    assert list(command(program, reader=said, poll_s=0.02, stop=lambda: "failed" in seen[-1])) == []
    assert "a rank failed" in capfd.readouterr().err


def test_a_failure_tells_the_exit_code_and_the_end_of_stderr_after_its_frames(pendulum: str) -> None:
    """Its frames are given first: a crash at the end loses nothing."""
    seen: list[float] = []
    with pytest.raises(CommandFailed, match="code 3:\npendulum: done") as failed:
        seen.extend(command([pendulum, "4", "0", "3"], reader=angles(), poll_s=0.01))
    assert failed.value.exit_code == 3
    assert failed.value.tail == "pendulum: done\n"


def test_what_a_program_says_on_stdout_alone_is_quoted_and_both_are_noted(tmp_path: Path) -> None:
    """LAMMPS writes its errors there."""
    for script, tail, stream in (
        ("echo ERROR: no such style; exit 1", "ERROR: no such style\n", "stdout"),
        ("echo step 1; echo oh >&2; exit 1", "oh\n", "stderr"),
    ):
        with pytest.raises(CommandFailed) as failed:
            list(command(["sh", "-c", script], reader=lambda _: [], cwd=tmp_path))
        assert (failed.value.tail, failed.value.stream) == (tail, stream)
    assert ["stderr" in note for note in failed.value.__notes__] == [True, False]


def test_a_killed_executable_tells_its_signal(tmp_path: Path) -> None:
    with pytest.raises(CommandFailed, match=r"signal 9") as failed:
        list(command(["sh", "-c", "kill -9 $$"], reader=angles(), cwd=tmp_path, poll_s=0.01))
    assert failed.value.exit_code == -9, "as Popen counts"
    assert "by signal 40:" in str(CommandFailed("x", -40, "")), "a signal without a name"


def test_an_executable_that_is_not_there_is_told(tmp_path: Path) -> None:
    """Before anything ran."""
    with pytest.raises(BadInput, match="no-such-program"):
        list(command(["no-such-program"], reader=angles(), cwd=tmp_path))


def test_closing_ends_what_the_executable_started_even_if_it_ignores_term(tmp_path: Path) -> None:
    """The whole session ends: a rank must not outlive its mpiexec."""
    script = "trap '' TERM; sleep 60 & echo $! > child.txt; echo 1 > angles.txt; wait; sleep 60"
    running = command(["sh", "-c", script], reader=angles(), cwd=tmp_path, poll_s=0.01, grace_s=0.2)
    next(running)
    child = int((tmp_path / "child.txt").read_text())
    running.close()
    assert not _runs(child)


def test_what_is_dead_and_reaped_by_nobody_is_not_waited_for(tmp_path: Path) -> None:
    """Here this process takes orphans in and leaves them; elsewhere the first one of a container does."""
    prctl, be_subreaper = ctypes.CDLL(None).prctl, 36
    assert prctl(be_subreaper, 1, 0, 0, 0) == 0
    try:
        began = time.monotonic()
        list(command(["sh", "-c", "sleep 60 & echo $! > child.txt"], reader=angles(), cwd=tmp_path, grace_s=100))
        assert time.monotonic() - began < 50, "s, half of the grace"
        os.waitpid(int((tmp_path / "child.txt").read_text()), 0)
    finally:
        prctl(be_subreaper, 0, 0, 0, 0)


def _runs(pid: int) -> bool:
    """Whether a process runs; a zombie that nobody reaps does not."""
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False


def test_lines_are_read_once_and_whole(tmp_path: Path) -> None:
    read = lines("log.txt")
    assert list(read(tmp_path)) == [], "not there yet"
    with (tmp_path / "log.txt").open("w") as file:
        for text, new in (("one\ntw", ["one"]), ("", []), ("o\n\nthree\n", ["two", "", "three"]), ("fo", [])):
            file.write(text)
            file.flush()
            assert list(read(tmp_path)) == new


def chunks(whole: bytes, cuts: list[int]) -> Iterator[bytes]:
    ends = sorted({min(cut, len(whole)) for cut in cuts} | {len(whole)})
    return (whole[first:end] for first, end in pairwise([0, *ends]))


@given(
    st.lists(st.one_of(st.binary(), st.sampled_from([b"10 %\r20 %\r", "a\u2028b\x85\f".encode(), b"\xff\x0b\x1c"]))),
    st.lists(st.integers(0, 200)),
)
def test_a_line_is_what_lies_between_line_feeds_whatever_its_bytes(parts: list[bytes], cuts: list[int]) -> None:
    """A progress bar, a form feed or binary output breaks no line; it may come in any pieces."""
    whole = b"\n".join(parts)
    read, seen = lines("log.txt"), list[str]()
    with TemporaryDirectory() as name, (Path(name) / "log.txt").open("wb", buffering=0) as file:
        for piece in chunks(whole, cuts):
            file.write(piece)
            seen += read(Path(name))
    assert seen == [line.removesuffix(b"\r").decode(errors="replace") for line in whole.split(b"\n")[:-1]]


FRAME = np.dtype([("time", "<f8"), ("position", "<f4", (3, 2))])


@given(st.binary(max_size=300), st.lists(st.integers(0, 300)), st.sampled_from([FRAME, ("<f4", (2, 3)), "<i8", "u1"]))
def test_a_record_is_given_once_and_only_when_it_is_whole(whole: bytes, cuts: list[int], dtype: Any) -> None:
    """Whatever the pieces in which a program writes them."""
    read, seen, size, written = records("traj.bin", dtype), list[bytes](), np.dtype(dtype).itemsize, 0
    with TemporaryDirectory() as name, (Path(name) / "traj.bin").open("wb", buffering=0) as file:
        for piece in chunks(whole, cuts):
            file.write(piece)
            written += len(piece)
            seen += [record.tobytes() for record in read(Path(name))]
            assert len(seen) == written // size
    assert b"".join(seen) == whole[: len(whole) // size * size]


def test_records_have_the_shapes_of_their_dtype(tmp_path: Path) -> None:
    assert list(records("traj.bin", FRAME)(tmp_path)) == [], "not there yet"
    frames = np.zeros(2, FRAME)
    frames["time"] = 1, 2
    (tmp_path / "traj.bin").write_bytes(frames.tobytes())
    first, second = records("traj.bin", FRAME)(tmp_path)
    assert (first["time"], second["time"]) == (1, 2)
    assert first["position"].shape == (3, 2)
    for odd in ("V0", "O", [("x", "O")]):
        with pytest.raises(ValueError, match="traj"):
            records("traj.bin", odd)


READERS: dict[str, Callable[[], Callable[[Path], Iterator[Any]]]] = {
    "lines": lambda: lines("out"),
    "records": lambda: records("out", "S4"),
}


@pytest.mark.parametrize("reader", READERS.values(), ids=READERS)
def test_frames_of_a_program_before_are_not_taken_for_those_of_the_next(reader: Any, tmp_path: Path) -> None:
    """Whether it begins the file anew or appends to it; what it prints begins anew by itself."""
    for redirection in (">", ">>"):
        program = ["sh", "-c", f"sleep 0.05; printf 'abc\\ndef\\n' {redirection} out"]
        assert len(list(command(program, reader=reader(), cwd=tmp_path, poll_s=0.01))) == 2
        with pytest.raises(EngineError):
            list(command(program, reader=reader(), cwd=tmp_path, poll_s=0.01))
        (tmp_path / "out").unlink()
    for _ in range(2):
        assert list(command(["echo", "one"], reader=lines("stdout.txt"), cwd=tmp_path)) == ["one"]


@given(st.binary(min_size=4), st.binary(), st.booleans(), st.sampled_from(sorted(READERS)))
def test_a_file_that_is_written_anew_after_it_was_read_is_refused(
    before: bytes, after: bytes, moved: bool, kind: str
) -> None:
    """However long the new one is; as long as what was read is still there it has only grown."""
    with TemporaryDirectory() as name:
        folder, read = Path(name), READERS[kind]()
        (folder / "out").write_bytes(before)
        seen = len(list(read(folder)))
        whole = before.rpartition(b"\n")[0] + b"\n" if kind == "lines" else before[: seen * 4]
        (folder / "new").write_bytes(after)
        (folder / "new").replace(folder / "out") if moved else (folder / "out").write_bytes(after)
        if seen and not after.startswith(whole):
            with pytest.raises(EngineError):
                list(read(folder))
        else:
            list(read(folder))


@pytest.mark.parametrize("args", [[], "true", Path("/bin/true")])
def test_what_is_no_list_of_words_is_refused(args: Any) -> None:
    with pytest.raises(BadValue):
        next(command(args, reader=lines("out")))


@pytest.mark.parametrize(
    ("reader", "code", "given", "raised"),
    [
        (lines("stdout.txt"), 0, ["ab", "cd"], None),
        (lines("stdout.txt"), 1, ["ab"], CommandFailed),
        (records("stdout.txt", "S3"), 0, [b"ab\n"], EngineError),
        (records("stdout.txt", "S3"), 1, [b"ab\n"], CommandFailed),
    ],
)
def test_what_is_left_at_the_end_counts_where_the_program_ended_well(
    reader: Any, code: int, given: list[Any], raised: type[Exception] | None
) -> None:
    """A last line without a line feed is one; a part of a record says that the records are others."""
    found = []
    with pytest.raises(raised) if raised else nullcontext():
        for each in command(["sh", "-c", f"printf 'ab\ncd'; exit {code}"], reader=reader):
            found.append(each)
    assert found == given
