"""Real programs in C++, Fortran and on ranks of MPI that call steersman.h, beside the same solver in Python."""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import psutil
import pytest

import steersman
import steersman.models
from steersman import Out, Params, Start
from steersman.apps.errors import CommandFailed
from steersman.apps.line import ANSWER, HEAD, MAGIC, MAJOR, MINOR, REFUSED, Do, Line
from steersman.apps.program import program
from steersman.bus import Server, TupleSpace
from steersman.client.__main__ import HERE
from steersman.data.history import History
from steersman.data.verify import verify
from steersman.data.why import lines, tree
from steersman.journal.records import Start as Order
from steersman.journal.run_directory import RunDirectory
from steersman.stages import loading
from steersman.stages.segment import Segment
from steersman.store import SEGMENT, SEGMENT_FIELDS, Frames, Span, Window
from steersman.system.errors import BadInput, EngineError
from steersman.worker.orders import HANGS, plain, stop_name
from tests.worker.test_walker import events, run_orders

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "solvers"
NX, NY, STEPS, FRAMES = 12, 16, 10, 6
EXACT = "-O2", "-ffp-contract=off"  # sums as Python makes them
WAIT_S = 60.0


class Plate(Params):
    spark: float = 0.75
    frames_each: int = FRAMES
    name: str = "plate"
    many: int = 2**40


def tool(name: str) -> str:
    """A compiler, or mpiexec, which may lie beside this Python."""
    there = shutil.which(name) or shutil.which(name, path=str(Path(sys.executable).parent))
    return there or pytest.skip(f"there is no {name}")


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., str]:
    """Compile the client, or a program with it, once."""
    folder = tmp_path_factory.mktemp("solvers")

    def build(compiler: str, *words: str | Path, name: str) -> str:
        if not (folder / name).exists():
            given = [tool(compiler), *EXACT, f"-I{HERE}", *map(str, words), "-o", name]
            subprocess.run(given, cwd=folder, check=True, capture_output=True)
        return str(folder / name)

    return build


@pytest.fixture(scope="session")
def library(built: Callable[..., str]) -> str:
    return built(
        "gcc", "-std=c99", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", HERE / "steersman.c", name="lib.so"
    )


@pytest.fixture
def calling(library: str, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """A program of these lines, which has opened its line, and closes it."""
    monkeypatch.setenv("STEERSMAN_LIBRARY", library)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))

    def words(lines: str, opened: bool = True, closes: bool = True) -> list[str]:
        head = (
            "import os, signal, sys, time\nfrom tests.apps.solver import *\n" + "must(lib.steersman_open())\n" * opened
        )
        tail = "\nmust(lib.steersman_close())" * (closes and "steersman_close" not in lines)
        return [sys.executable, "-c", head + textwrap.dedent(lines) + tail]

    return words


@pytest.fixture(params=["near", "far"])
def placed(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Callable[[list[str]], list[str]]:
    """A program on its walker's node, and as on another one, from which the socket is not to be seen."""
    if request.param == "near":
        return lambda words: words
    monkeypatch.setenv("PARSL_MPI_PREFIX", "mpiexec -n 1 -ppn 1 -hosts 127.0.0.1,127.0.0.2")
    return lambda words: ["env", "-u", "STEERSMAN_SOCKET", *words]


def frames(
    words: list[str], start: Start | None = None, out: Out | None = None, answers: Any = None, **options: Any
) -> list[dict[str, Any]]:
    out = out or Out(seed=5, frames=1000, seconds=1000)
    out.workflow = SimpleNamespace(answers=answers or {})
    return list(program(words, start or Start(params=Plate()), out, **options))


def in_python(
    u: np.ndarray, dice: int, answer: Callable[[np.ndarray], Any] = lambda u: 0.0, frames: int = FRAMES
) -> Iterator[np.ndarray]:
    """The plate of examples/solvers in Python."""
    u = np.array(u)
    for _ in range(frames):
        for _ in range(STEPS):
            at = []
            for points in (NX, NY):
                dice = 16807 * dice % 2147483647
                at.append(1 + dice % (points - 2))
            u[tuple(at)] += Plate().spark
            b = u[1:-1, 1:-1]
            around = (u[:-2, 1:-1] + u[2:, 1:-1]) + (u[1:-1, :-2] + u[1:-1, 2:])
            u[1:-1, 1:-1] = b + 0.125 * (around - 4 * b)
        u = u + answer(u)
        yield u.copy()


@pytest.fixture(params=["fortran", "c++", pytest.param("mpi", marks=pytest.mark.slow),
                        pytest.param("mpi4py", marks=pytest.mark.slow)])  # fmt: skip
def heat(request: pytest.FixtureRequest, built: Callable[..., str]) -> list[str]:
    client, two = HERE / "steersman.c", ["-n", "2"]
    match request.param:
        case "fortran":
            built("gcc", "-c", client, name="client.o")
            return [built("gfortran", HERE / "steersman.f90", EXAMPLES / "heat.f90", "client.o", name="heat_f")]
        case "c++":
            built("gcc", "-c", client, name="client.o")
            return [built("g++", "-std=c++11", EXAMPLES / "heat.cpp", "client.o", name="heat_c")]
        case "mpi":
            built("gcc", "-c", client, name="client.o")
            words = "-DWITH_MPI", "-std=c++11", EXAMPLES / "heat.cpp", "client.o"
            return [tool("mpiexec"), *two, built("mpicxx", *words, name="heat_m")]
    pytest.importorskip("mpi4py")
    return [tool("mpiexec"), *two, sys.executable, str(EXAMPLES / "heat_mpi4py.py"), request.getfixturevalue("library")]


def halved(p: Plate, model: Any, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {"source": -0.5 * inputs["u"] * model}


def test_a_solver_in_another_language_gives_the_frames_of_the_same_one_in_python(heat: list[str]) -> None:
    """Bit for bit: from nothing, with what a model says, and on from the end of a segment."""
    known: dict[str, Any] = {"params": Plate(), "learns": True}
    out = Out(seed=5, frames=1000, seconds=1000)
    out.workflow = SimpleNamespace(answers={"source": halved})
    for frame in program(heat, Start(**known), out):
        out.append(**frame)
    assert out.stored["u"].tolist() == [u.tolist() for u in in_python(np.zeros((NX, NY)), out.seed31 % 2147483646 + 1)]
    assert out.stored["time"].tolist() == [STEPS * (frame + 1) for frame in range(FRAMES)]
    hottest = [np.add(np.unravel_index(u.argmax(), u.shape), 1) for u in out.stored["u"]]
    assert out.stored["hottest"].tolist() == np.array(hottest).tolist()
    later = Out(seed=9, frames=1000, seconds=1000, after=out)
    later.workflow = out.workflow
    there = Start(frame=out.frame(), state=out.restart, load=lambda: 1.0, **known)
    for frame in program(heat, there, later):
        later.append(**frame)
    expected = in_python(out.frame()["u"], int(out.restart["dice"]), lambda u: -0.5 * u)
    assert later.stored["u"].tolist() == [u.tolist() for u in expected]


class Lorenz(Params):
    frames_each: int = 3
    coarse: int = 0
    spin: int = 0
    every: int = 1
    fast: bool = False
    h: float = 0.5


def slow(x: np.ndarray, u: np.ndarray) -> np.ndarray:
    """Rates of the slow variables of Lorenz (1996)."""
    return np.asarray(np.roll(x, 1) * (np.roll(x, -1) - np.roll(x, 2)) - x + 20 - u)


@pytest.mark.slow
def test_lorenz_steps_as_python_does_by_what_is_answered_and_by_its_own_fast_variables(
    built: Callable[..., str],
) -> None:
    built("gcc", "-c", HERE / "steersman.c", name="client.o")
    words = [built("gfortran", HERE / "steersman.f90", EXAMPLES / "lorenz.f90", "client.o", name="lorenz")]

    def tenth(p: Any, model: Any, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        return {"u": 0.1 * inputs["x"]}

    x, d = 10 * np.random.default_rng(2).random(512), 0.005
    for frame in frames(words, Start(params=Lorenz(), frame={"x": x}), answers={"closure": tenth}):
        x = x + step(functools.partial(slow, u=0.1 * x), x, d)
        assert np.allclose(frame["x"], x, rtol=0, atol=1e-12)
    solved = frames(words, Start(params=Lorenz(fast=True, spin=200), frame={"x": x}))
    for one, other in itertools.pairwise(solved):
        between = slow((one["x"] + other["x"]) / 2, (one["u"] + other["u"]) / 2)  # right to the second order
        apart = (other["x"] - one["x"]) / d - between
        assert np.sqrt((apart**2).mean()) < 0.02 * np.sqrt((between**2).mean())
        assert abs(one["u"].mean()) > 0.5


def step(of: Callable[[np.ndarray], np.ndarray], x: np.ndarray, d: float) -> np.ndarray:
    """What x grows by in a step of Runge and Kutta."""
    a = of(x)
    b = of(x + d / 2 * a)
    c = of(x + d / 2 * b)
    return np.asarray(d / 6 * (a + 2 * b + 2 * c + of(x + d * c)))


@pytest.mark.slow
def test_a_campaign_of_a_program_has_the_frames_that_python_makes_of_its_starts(
    built: Callable[..., str], tmp_path: Path
) -> None:
    """Each segment again: from its frame, with its state, its seed, and the answers of its model; which is asked with
    others of its node, of whom there are none, so that the numbers are the same. It is said of each that asked."""
    text = (EXAMPLES / "heat.py").read_text().replace("@wf.answer()", "@wf.answer(shared=True)")
    (tmp_path / "heat.py").write_text(text.replace("model.encode(u[None])", "model.encode(u)"))
    built("gcc", "-c", HERE / "steersman.c", name="client.o")
    words = {"program": built("gfortran", HERE / "steersman.f90", EXAMPLES / "heat.f90", "client.o", name="heat_f")}
    given = words | {"frames": 100, "train_every": 40, "spark": Plate().spark}
    run = steersman.run(tmp_path / "heat.py", run_dir=tmp_path / "run", rounds=True, workers=1, seed=1, set=given)
    workflow, stored, asked = loading.load(EXAMPLES / "heat.py"), Frames(tmp_path / "run" / "frames.zarr"), 0
    table = stored.read("segments", Span("w0", 0, stored.rows("w0", SEGMENT)), dimension=SEGMENT)
    history, pairs = History(RunDirectory(run.path)), Window(stored, [Span("w0", 0, 100)]).lagged(1).tolist()
    for fields in (dict(zip(SEGMENT_FIELDS, row, strict=True)) for row in table.tolist()):
        version = int(run.segments.loc[f"w0.{fields['number']}"].with_model)
        model = steersman.models.Model.load(tmp_path / "run" / "models" / f"{version:04d}") if version else None
        u, state, asked = np.zeros((NX, NY)), {}, asked + bool(version)
        if fields["parent_row"] >= 0:
            u = stored.row("w0", fields["parent_row"])["u"]
            parent = int(stored.row("w0", fields["parent_row"])["segment"])
            state = dict(stored.state("w0", parent)) if fields["exact"] else {}
        dice = int(state.get("dice", (1 + fields["seed"] % (2**31 - 1)) % 2147483646 + 1))

        def answer(u: np.ndarray, model: Any = model) -> Any:
            return workflow.answers["source"](None, model, {"u": u})["source"] if model else 0.0

        again = in_python(u, dice, answer, frames=fields["end_row"] - fields["first_row"])
        there = stored.read("u", Span("w0", fields["first_row"], fields["end_row"]))
        assert there.tolist() == [each.tolist() for each in again]
        here, asks = f"w0.{fields['number']}", bool(version)
        assert (bool(fields["repeats"]), run.why(here)["repeats"], run.segments.repeats[here]) == (not asks,) * 3
        assert ("bit for bit" in " ".join(lines(run.why(here)))) == asks
        assert tree(history, here)["segments"][0]["exact"] == (bool(state) and not asks)
        assert not state or [fields["parent_row"], fields["first_row"]] in pairs, "it goes on all the same"
    assert 0 < asked < len(table)
    assert not verify(history.directory)


def test_without_steersman_it_runs_alone(heat: list[str]) -> None:
    subprocess.run(heat, check=True)


TYPES = """
program types
  use, intrinsic :: iso_fortran_env
  use steersman
  implicit none
  real(real32) :: r4(3, 2)
  real(real64) :: r8(2, 3, 4), big(200, 100)
  integer(int8) :: i1
  integer(int16) :: i2(2)
  integer(int32) :: i4(0)
  integer(int64) :: i8(2, 2)
  logical :: flags(2, 3)
  character(len=8) :: name
  character(len=300) :: sentence
  real(real128) :: long
  integer :: codes(6)
  call steersman_must(steersman_open())
  call steersman_must(steersman_frame("r4", r4))
  call steersman_must(steersman_frame("r8", r8))
  call steersman_must(steersman_frame("big", big))
  call steersman_must(steersman_frame("i1", i1))
  call steersman_must(steersman_state_get("i2", i2))
  call steersman_must(steersman_frame("i4", i4))
  call steersman_must(steersman_frame("i8", i8))
  call steersman_must(steersman_frame("flags", flags))
  call steersman_must(steersman_parameter("name", name))
  codes(1) = steersman_frame("r8", r4)          ! another type
  codes(2) = steersman_frame("r4", r4(:2, :))   ! another shape
  codes(3) = steersman_frame("r5", r4)          ! another name
  codes(4) = steersman_append("long", long)     ! a type that does not travel
  codes(5) = steersman_parameter("many", i1)    ! a number that does not fit
  call steersman_said(sentence)
  codes(6) = merge(1, 0, index(sentence, "int8") > 0)
  r4(1, 2) = r4(1, 2) + 1
  big(200, 1) = -1
  call steersman_must(steersman_append("r4", r4))
  call steersman_must(steersman_append("part", r8(2, ::2, :)))
  call steersman_must(steersman_append("r8", r8))
  call steersman_must(steersman_append("big", big))
  call steersman_must(steersman_append("i1", i1))
  call steersman_must(steersman_append("i2", i2))
  call steersman_must(steersman_append("i4", i4))
  call steersman_must(steersman_append("i8", i8))
  call steersman_must(steersman_append("flags", flags))
  call steersman_must(steersman_append("plate", name == "plate"))
  call steersman_must(steersman_append("codes", codes))
  call steersman_must(steersman_commit(0.0_real64))
  call steersman_must(steersman_close())
end program
"""


def test_arrays_of_fortran_arrive_with_its_shapes_and_types(
    built: Callable[..., str], placed: Callable[[list[str]], list[str]], tmp_path: Path
) -> None:
    """Small ones and a large one, in both directions; a section with gaps, too."""
    (tmp_path / "types.f90").write_text(TYPES)
    built("gcc", "-c", HERE / "steersman.c", name="client.o")
    words = placed([built("gfortran", HERE / "steersman.f90", tmp_path / "types.f90", "client.o", name="types")])
    rng = np.random.default_rng(1)
    given: dict[str, Any] = {
        "r4": rng.random((3, 2), np.float32), "r8": rng.random((2, 3, 4)), "big": rng.random((200, 100)),
        "i1": np.int8(-3), "i4": np.zeros(0, np.int32), "i8": np.array([[2**60, 1], [2, 3]]),
        "flags": rng.random((2, 3)) < 0.5,
    }  # fmt: skip
    state = {"i2": np.array([300, -1], np.int16)}
    (frame,) = frames(words, Start(frame=given, state=state, params=Plate()))
    changed = given | state | {"part": given["r8"][1, ::2, :], "plate": True, "codes": [-1, -1, -1, -1, -1, 1]}
    changed["r4"], changed["big"] = given["r4"].copy(), given["big"].copy()
    changed["r4"][0, 1] += 1
    changed["big"][199, 0] = -1
    assert frame.pop("time") == 0.0
    assert frame.keys() == changed.keys()
    for name, value in frame.items():
        assert np.array_equal(value, changed[name]), name
        assert name == "codes" or value.dtype == np.asarray(changed[name]).dtype


def test_a_wrong_name_shape_or_type_is_refused_at_the_call(calling: Callable[..., list[str]], tmp_path: Path) -> None:
    """With what is expected; nothing of it is stored, and the program may go on."""
    refused = """
        u, long = np.zeros((2, 3)), np.zeros((2, 9000))
        commit(1, u=u, long=long)
        wrong = {"v": u, "u": u.T, "long": long.astype(np.float32), "time": np.zeros(())}
        for name, array in wrong.items():
            code = lib.steersman_append(of(name, np.ascontiguousarray(array)))
            print(code, said())
        print(lib.steersman_commit(ctypes.c_double(2)), said())
        lib.steersman_append(of("u", u + 1))
        print(lib.steersman_commit(ctypes.c_double(2)), said())
        print(lib.steersman_append(of("u", u)), said())
        eight = of("long", long)
        eight.rank = 8
        print(lib.steersman_append(eight), said())
        must(lib.steersman_append(of("long", long)))
        must(lib.steersman_commit(ctypes.c_double(2)))
        print(lib.steersman_parameter(of("frames_eech", np.zeros((), np.int32))), said())
        print(lib.steersman_parameter(of("spark", np.zeros((), np.int32))), said())
        print(lib.steersman_parameter(of("many", np.zeros(()))), said())
        print(ask("tendency", {}, {}), said())
        must(lib.steersman_close())
    """
    found = frames(calling(refused), Start(params=Plate(many=2**53 + 1)), cwd=tmp_path)
    assert [(frame["time"], frame["u"].tolist(), frame["long"].shape) for frame in found] == [
        (time, [[value] * 3] * 2, (2, 9000)) for time, value in ((1, 0), (2, 1))
    ]
    said = (tmp_path / "stdout.txt").read_text().splitlines()
    expected = [
        "long, u", "(2, 3)", "float64", "time", "lacks u, long", "long", "u", "7", "frames_each", "float64", "float64",
        "tendency",
    ]  # fmt: skip
    for line, word in zip(said, expected, strict=True):
        assert line.startswith("-1 ")
        assert word in line


def test_a_program_that_is_killed_loses_nothing_that_it_committed(calling: Callable[..., list[str]]) -> None:
    """And nothing comes twice."""
    killed = """
        for i in range(5):
            must(commit(i, u=np.full(20_000, i)))
        lib.steersman_append(of("u", np.zeros(20_000, int)))
        os.kill(os.getpid(), signal.SIGKILL)
    """
    kept: list[Any] = []
    with pytest.raises(CommandFailed) as error:
        kept.extend(frame["u"][0] for frame in program(calling(killed), Start(), Out()))
    assert (kept, error.value.exit_code) == ([0, 1, 2, 3, 4], -signal.SIGKILL)


@pytest.mark.parametrize("ranks", [0, pytest.param(2, marks=pytest.mark.slow)])
def test_a_walker_that_dies_ends_its_program(
    calling: Callable[..., list[str]],
    placed: Callable[[list[str]], list[str]],
    tmp_path: Path,
    ranks: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also one that calls nothing for hours; and under MPI the ranks that never call."""
    monkeypatch.setenv("FOLDER", str(tmp_path))
    lines = """
        rank = MPI.COMM_WORLD.rank if "mpi4py" in sys.modules else 0
        open(f"{os.environ['FOLDER']}/{rank}.pid", "w").write(str(os.getpid()))
        if rank == 0:
            must(lib.steersman_open())
            commit(0, u=np.zeros(1))
        time.sleep(1000)
    """
    head = "from mpi4py import MPI\n" if ranks else ""
    words = placed(calling(head + textwrap.dedent(lines), opened=False))
    if ranks:
        pytest.importorskip("mpi4py")
        words = [tool("mpiexec"), "-n", str(ranks), *words]
    files = [str(tmp_path / f"{rank}.pid") for rank in range(max(1, ranks))]
    walker = f"""
        import os, signal, time
        from steersman import Out, Start
        from steersman.apps.program import program
        for frame in program({words!r}, Start(), Out()):
            while not all(os.path.exists(file) and os.path.getsize(file) for file in {files}):
                time.sleep(0.01)
            os.kill(os.getpid(), signal.SIGKILL)
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(walker)], check=False, timeout=WAIT_S)
    for file in files:
        pid = int(Path(file).read_text())
        with contextlib.suppress(psutil.NoSuchProcess):
            psutil.Process(pid).wait(WAIT_S)
        assert not psutil.pid_exists(pid)


def test_the_socket_is_for_this_user_and_asks_for_the_token(calling: Callable[..., list[str]]) -> None:
    with Line() as line:
        path = Path(line.environment["STEERSMAN_SOCKET"])
        assert [stat.S_IMODE(each.stat().st_mode) for each in (path, path.parent)] == [0o600, 0o700]
    assert not path.parent.exists()
    another = calling(
        """
        token, os.environ["STEERSMAN_TOKEN"] = os.environ["STEERSMAN_TOKEN"], "0" * 32
        found = [lib.steersman_open(), lib.steersman_commit(ctypes.c_double(0))]
        os.environ["STEERSMAN_TOKEN"] = token
        must(lib.steersman_open())
        found += [lib.steersman_open()]
        must(commit(1, codes=np.array(found)))
        """,
        opened=False,
    )
    (frame,) = frames(another)
    assert frame["codes"].tolist() == [-1, -1, -1]


def test_by_tcp_strangers_are_refused_and_hold_nobody_up(calling: Callable[..., list[str]]) -> None:
    """There is a port only where ranks may be on other nodes. Of a stranger nothing is read but a token of one size."""
    with Line() as line:
        assert "STEERSMAN_ADDRESS" not in line.environment
    with Line("127.0.0.1") as line, contextlib.ExitStack() as stack:
        host, port = line.environment["STEERSMAN_ADDRESS"].split(":")
        assert host == "127.0.0.1"

        def stranger() -> socket.socket:
            return stack.enter_context(socket.create_connection((host, int(port)), WAIT_S))

        silent = [stranger() for _ in range(3)]
        token = line.environment["STEERSMAN_TOKEN"]
        heads = [
            ("0" * 32, Do.OPEN, 0),
            (token, Do.OPEN, 2**40),
            (token, Do.WATCH, 0),
            (token, Do.COMMIT, 0),
            ("", 1, 0),
        ]
        for said, what, length in heads:
            wire = stranger()
            wire.sendall(HEAD.pack(MAGIC, what, 0, 0, length, 0, MAJOR, MINOR, said.encode()) + b"0" * 9)
            wire.settimeout(0)
            answer = b""
            while len(answer) < ANSWER.size:
                assert line.next(WAIT_S) is None
                with contextlib.suppress(BlockingIOError):
                    answer = wire.recv(ANSWER.size, socket.MSG_PEEK)
            assert ANSWER.unpack(answer)[1] == REFUSED
            assert not line.connected
        program = calling('print(ask("x", {}, {}))', closes=False)
        environment = {**os.environ, **line.environment, "STEERSMAN_SOCKET": "/nowhere"}
        with subprocess.Popen(program, env=environment) as process:
            while (call := line.next(WAIT_S)) is None:
                pass
            assert (call.what, call.name) == (Do.ASK, "x")
            line.answer(0)
        assert process.returncode == 0
        assert all(each.fileno() >= 0 for each in silent)


def test_a_second_process_of_a_program_is_refused(calling: Callable[..., list[str]], tmp_path: Path) -> None:
    """Ranks that all call open would take turns in one frame."""
    twice = calling("""
        import subprocess
        again = [sys.executable, "-c", "from tests.apps.solver import *; print(lib.steersman_open())"]
        child = subprocess.Popen(again, stdout=subprocess.PIPE)
        commit(0, code=np.array(int(child.communicate()[0])))
    """)
    assert [frame["code"] for frame in frames(twice)] == [-1]


def test_another_major_version_is_refused_with_both_numbers(
    built: Callable[..., str], calling: Callable[..., list[str]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    newer = (HERE / "steersman.h").read_text().replace("STEERSMAN_MAJOR 1", "STEERSMAN_MAJOR 7")
    (tmp_path / "steersman.h").write_text(newer)
    shutil.copy(HERE / "steersman.c", tmp_path)
    words = calling("print(lib.steersman_open(), said())", opened=False, closes=False)
    library = built("gcc", "-shared", "-fPIC", tmp_path / "steersman.c", name="newer.so")
    monkeypatch.setenv("STEERSMAN_LIBRARY", library)
    assert frames(words, cwd=tmp_path) == []
    said = (tmp_path / "stdout.txt").read_text()
    assert said.startswith("-3 ")
    assert "7.0" in said
    assert "1.0" in said


def test_it_hears_that_it_is_to_stop_and_one_that_does_not_is_ended(calling: Callable[..., list[str]]) -> None:
    out = Out(frames=3)
    ends = calling("""
        i = 0
        while not stopped():
            must(commit(i := i + 1, u=np.array(i)))
        must(lib.steersman_state_put(of("i", np.array(i))))
        must(lib.steersman_close())
    """)
    for frame in program(ends, Start(), out):
        out.append(**frame)
    assert (out.stored["u"].tolist(), dict[str, Any](out.restart)) == ([1, 2, 3], {"i": 3})
    deaf = calling("""
        for i in range(3): commit(i, u=np.array(i))
        time.sleep(1000)
    """)
    out = Out(frames=3)
    for frame in program(deaf, Start(), out, stop_s=0.1):
        out.append(**frame)
    assert out.frames == 3


def test_a_model_answers_with_what_fits_and_nothing_else(
    calling: Callable[..., list[str]], placed: Callable[[list[str]], list[str]]
) -> None:
    """Before the first one it says that there is none; a number is never rounded for a program."""

    def doubled(p: Plate, model: Any, inputs: Mapping[str, Any]) -> dict[str, Any]:
        return {"y": model * inputs["x"], "n": inputs["x"].size, "half": np.float64(0.1)}

    asks = calling("""
        small, large = np.arange(5.0), np.arange(50_000.0)
        for x in (small, large):
            y, n = np.zeros_like(x), np.zeros((), np.int32)
            code = ask("doubled", {"x": x}, {"y": y, "n": n})
            assert code == NONE or (y == 2 * x).all() and n == x.size
            wrong = [{"z": y}, {"y": y.astype(np.float32)}, {"y": y[1:]}, {"half": np.zeros((), np.float32)}]
            codes = [code, *(ask("doubled", {"x": x}, each) for each in wrong), ask("doubled", {"u": x}, {"y": y})]
            assert code == NONE or "input of doubled 'x'" in said() and "u" in said()
            commit(x.size, codes=np.array(codes))
    """)
    asks = placed(asks)
    known: dict[str, Any] = {"params": Plate(), "learns": True}
    answers = {"doubled": doubled}
    assert [frame["codes"].tolist() for frame in frames(asks, Start(**known), answers=answers)] == [[2] * 6] * 2
    with_model = frames(asks, Start(**known, load=lambda: 2.0), answers=answers)
    assert [frame["codes"].tolist() for frame in with_model] == [[0, -1, -1, -1, -1, -1]] * 2


@pytest.mark.parametrize(("size", "fails"), [(5, False), (50_000, True)])
def test_an_answer_that_keeps_what_the_next_call_overwrites_fails(
    calling: Callable[..., list[str]], size: int, fails: bool
) -> None:
    """A small array is its own; a large one lies in memory to which the program writes again."""
    memory: list[Any] = []

    def keeps(p: Any, model: Any, inputs: Mapping[str, Any]) -> dict[str, Any]:
        memory.append(inputs["x"][1:])
        return {"y": inputs["x"]}

    asks = calling(f"""
        for i in range(2):
            x, y = np.full({size}, float(i)), np.zeros({size})
            must(ask("keeps", {{"x": x}}, {{"y": y}}))
            commit(i, same=np.array((y == x).all()))
    """)
    with pytest.raises(EngineError) if fails else contextlib.nullcontext():
        assert [bool(frame["same"]) for frame in frames(asks, Start(), answers={"keeps": keeps})] == [True, True]
    assert [each.max() for each in memory] == [0.0, 1.0][: len(memory)]


def test_what_an_answer_raises_fails_the_segment(calling: Callable[..., list[str]]) -> None:
    """A program that looks at no code would go on with numbers of nobody."""

    def fails(p: Any, model: Any, inputs: Any) -> Any:
        raise BadInput("no such latent space")

    with pytest.raises(RuntimeError, match="latent space"):
        frames(calling('ask("fails", {}, {"y": np.zeros(1)})'), answers={"fails": fails})


def test_a_state_is_that_of_the_newest_frame(calling: Callable[..., list[str]]) -> None:
    """All that was put beside it, before its commit and after it, and nothing that was put beside another one."""
    put = 'must(lib.steersman_state_put(of("{0}", np.array({1}))));'
    for last, kept in ((put.format("w", 23), {"v": 3, "w": 23}), ("", {"v": 3})):
        both = "for i in (1, 2, 3): lib.steersman_append(of('u', np.zeros(3))); " + put.format("v", "i")
        out = Out(frames=9, seconds=99)
        for frame in program(calling(f"{both} must(commit(float(i)))\n{last}"), Start(), out):
            out.append(**frame)
        assert dict[str, Any](out.restart) == kept
    out = Out(frames=9, seconds=99)
    first = put.format("v", 1) + "[commit(float(i), u=np.zeros(3)) for i in (2, 3)]"
    for frame in program(calling("commit(1.0, u=np.zeros(3))\n" + first), Start(), out):
        out.append(**frame)
    assert not out.restart


def test_arrays_that_were_appended_and_not_committed_are_told(calling: Callable[..., list[str]]) -> None:
    with pytest.raises(EngineError):
        frames(calling('lib.steersman_append(of("u", np.zeros(3)))'))


def test_a_program_that_ends_well_before_it_closes_has_failed_and_its_frames_are_kept(
    calling: Callable[..., list[str]],
) -> None:
    """STOP of Fortran ends with 0, whatever it stops for."""
    given = program(calling("commit(1.0, u=np.zeros(3))", closes=False), Start(), Out(seed=5, frames=9, seconds=99))
    assert next(given)["time"] == 1.0
    with pytest.raises(EngineError):
        next(given)


def test_tuples_are_exchanged_by_the_walker(calling: Callable[..., list[str]], tmp_path: Path) -> None:
    """One under a lease that nobody acknowledges is offered again; one of another shape stays for others."""
    exchange = calling("""
        must(fields("put", "halo", [np.array(3), np.arange(4.0)]))
        n, u, wrong = np.zeros((), int), np.zeros(4), np.zeros(5)
        codes = [fields("take", "halo", [n, wrong], 10.0, 0.0)]
        codes += [fields("read", "halo", [n, u], 10.0), fields("take", "halo", [n, u], 10.0, 60.0)]
        codes += [fields("take", "halo", [n, u], 0.0, 0.0), lib.steersman_ack(b"halo")]
        codes += [fields("take", "from_python", [n], 10.0, 0.0)]
        commit(0, codes=np.array(codes), n=n, u=u)
    """)
    with Server.start(tmp_path / "bus") as server, TupleSpace.connect(server.url) as space:
        out = Out()
        out.space = space
        space.put("program.from_python", 8)
        (frame,) = frames(exchange, Start(), out)
        assert (frame["codes"].tolist(), int(frame["n"]), frame["u"].tolist()) == ([-1, 0, 0, 2, 0, 0], 8, [0, 1, 2, 3])
        assert space.names() == [] or space.count("program.halo", int, np.ndarray) == 0


def test_a_program_that_hangs_fails_as_a_function_does(calling: Callable[..., list[str]], tmp_path: Path) -> None:
    """It is ended, and its walker goes on."""
    words = calling("""
        commit(0, u=np.array(os.getpid()))
        time.sleep(1000)
    """)

    def simulate(p: Any, start: Start, out: Segment) -> None:
        for frame in program(words, start, out, stop_s=0.1):
            out.append(**frame)
            out.space.put(HANGS, out.name, out.first_row + 1, "it is silent")
            out.space.put(stop_name(out.name), out.name)

    with Server.start(tmp_path / "bus") as server, TupleSpace.connect(server.url) as space:
        run_orders(space, tmp_path, simulate, [(n, plain(Order(start=n, seed=n))) for n in range(2)])
        assert [(each["how"], each["cause"]) for each in events(space, "ended")] == [("failed", "it is silent")] * 2
    pids = Frames(tmp_path / "frames").read("u", Span("w0", 0, 2))
    assert not any(psutil.pid_exists(pid) for pid in pids.tolist())


def test_a_walker_stores_the_frames_of_its_programs(calling: Callable[..., list[str]], tmp_path: Path) -> None:
    """One that is killed has failed and keeps what it committed; state and seed are those of the start."""
    words = calling("""
        seed = np.zeros((), np.int64)
        lib.steersman_seed(seed.ctypes.data_as(ctypes.c_void_p), None)
        for i in range(3):
            must(commit(i, u=np.array(10 * seed + i)))
        must(lib.steersman_state_put(of("v", seed)))
        if seed == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        must(lib.steersman_close())
    """)

    def simulate(p: Any, start: Start, out: Segment) -> None:
        for frame in program(words, start, out):
            out.append(**frame)

    with Server.start(tmp_path / "bus") as server, TupleSpace.connect(server.url) as space:
        run_orders(space, tmp_path, simulate, [(n, plain(Order(start=n, seed=n))) for n in range(3)])
        assert [each["how"] for each in events(space, "ended")] == ["finished", "failed", "finished"]
    stored = Frames(tmp_path / "frames")
    assert stored.read("u", Span("w0", 0, 9)).tolist() == [0, 1, 2, 10, 11, 12, 20, 21, 22]
    assert [stored.state("w0", segment) for segment in range(3)] == [{"v": 0}, {}, {"v": 2}]
