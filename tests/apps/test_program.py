"""Real programs in C++, Fortran and on ranks of MPI that call steersman.h, beside the same solver in Python."""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
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
from steersman.system.errors import EngineError
from steersman.worker.orders import HANGS, plain, stop_name
from tests.apps.programs import EXAMPLES, FRAMES, NX, NY, STEPS, WAIT_S, Plate, frames, tool
from tests.worker.test_walker import events, run_orders


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


def test_a_program_that_ends_well_before_it_closes_has_failed_and_its_frames_are_kept(
    calling: Callable[..., list[str]],
) -> None:
    """STOP of Fortran ends with 0, whatever it stops for."""
    given = program(calling("commit(1.0, u=np.zeros(3))", closes=False), Start(), Out(seed=5, frames=9, seconds=99))
    assert next(given)["time"] == 1.0
    with pytest.raises(EngineError):
        next(given)


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
