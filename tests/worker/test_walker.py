"""A walker in this process: real server, real frames."""

import errno
import functools
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import ValidationError, convert

from steersman.bus import ALL, Server, TupleSpace
from steersman.bus.tuples import dead_letters
from steersman.journal.records import Start
from steersman.stages import loading
from steersman.stages.params import Params
from steersman.stages.segment import Segment
from steersman.stages.workflow import Workflow
from steersman.steering import budget
from steersman.store import SEGMENT, SEGMENT_FIELDS, Frames, GroupWriter
from steersman.worker import walker as walker_module
from steersman.worker.last_words import last_words
from steersman.worker.orders import DONE, EVENT, plain
from steersman.worker.walker import DISMISSED, MOST_CAUSES, WalkerProcess
from tests.worker.conftest import MadeRun


def run_walker(space: TupleSpace, folder: Path, simulate: Callable[[Any, Any, Segment], None], starts: int = 1) -> str:
    """Give a walker so many starts and then the word to go home; returns why it went."""
    orders = [(n, plain(Start(start=n, seed=n))) for n in range(starts)]
    return run_orders(space, folder, simulate, orders)


def run_orders(
    space: TupleSpace,
    folder: Path,
    simulate: Callable[[Any, Any, Segment], None],
    orders: Sequence[tuple[int, dict[Any, Any]]],
    **others: Any,
) -> str:
    space.put_many(("bag", *order) for order in [*orders, (-1, {"end": True})])
    return walker_of(space, folder, simulate, **others).run()


def walker_of(
    space: TupleSpace, folder: Path, simulate: Callable[[Any, Any, Segment], None], **others: Any
) -> WalkerProcess:
    (folder / "errors").mkdir(exist_ok=True)
    workflow = Workflow("w", stop=budget(frames=1))
    made: dict[str, Any] = {"number": 0, "frames": Frames(folder / "frames")}
    made |= {"with_settings": functools.partial(loading.changed, workflow), **others}
    return WalkerProcess(
        bag="bag", simulate=simulate, params=Params(), prepared=None, space=space, variables={}, attributes={},
        errors=folder / "errors", **made,
    )  # fmt: skip


def events(space: TupleSpace, kind: str) -> list[dict[str, Any]]:
    return [fields for _, name, fields in space.take_many_nowait(EVENT, str, dict, n=ALL) if name == kind]


numbers = st.integers(-2, 3)
odd = (
    st.none() | st.booleans() | numbers | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text(max_size=9)
    | st.just(np.zeros(2)) | st.lists(numbers, max_size=4) | st.dictionaries(st.text(max_size=5), numbers, max_size=2)
)  # fmt: skip
garbage = st.dictionaries(st.sampled_from(Start.__struct_fields__) | st.text(max_size=9) | numbers, odd, max_size=8)
sound = st.builds(
    lambda start, parent, odd: plain(Start(start=start, seed=start)) | parent | odd,
    st.integers(0, 3),
    st.just({}) | st.builds(lambda parent: {"parent": parent}, st.lists(st.integers(0, 2), min_size=3, max_size=3)),
    st.just({}) | st.just({}) | garbage.map(lambda fields: dict(list(fields.items())[:1])),
)


@pytest.mark.slow
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(numbers, sound | sound | garbage), max_size=6))
def test_a_start_that_is_none_costs_no_walker_and_is_found_among_the_dead_letters(
    space: TupleSpace, orders: list[tuple[int, dict[Any, Any]]]
) -> None:
    """All others are run, each once; one whose frame is not there, or whose parameters are none, has failed."""
    with TemporaryDirectory() as folder:
        assert run_orders(space, Path(folder), lambda p, start, out: out.append(x=1.0), orders) == DISMISSED
        good = [number for number, fields in orders if is_start(number, fields)]
        assert [each["start"] for each in events(space, "ended")] == good
        dead = space.take_many_nowait(dead_letters("bag"), int, dict, n=ALL)
        unfit = [order for order in orders if not is_start(*order)]
        assert [repr((number, fields)) for _, number, fields in dead] == [repr(order) for order in unfit]
        assert Frames(Path(folder) / "frames").rows("w0", SEGMENT) == len(good)
        assert space.count("bag", int, dict) == 0


def is_start(number: int, fields: dict[Any, Any]) -> bool:
    try:
        return convert(fields, Start).start == number
    except ValidationError:
        return False


def test_frames_of_another_molecule_than_the_first_walkers_are_refused_at_once(
    space: TupleSpace, tmp_path: Path
) -> None:
    """Else it is known when a training reads both, and the budget is spent.

    Many walkers before them may have made no frame.
    """

    def atoms(number: int, **more: Any) -> Callable[[Any, Any, Segment], None]:
        def simulate(p: Any, start: Any, out: Segment) -> None:
            for _ in range(5):
                out.append(x=np.zeros((number, 3)), **more)

        return simulate

    orders = [(n, plain(Start(start=n, seed=n))) for n in range(2)]
    for walker, simulate in enumerate([atoms(3), atoms(3), atoms(4), atoms(3, y=1.0)], 9):
        run_orders(space, tmp_path, simulate, orders, number=walker)
    frames, ended = Frames(tmp_path / "frames"), events(space, "ended")
    assert [frames.count(f"w{walker}") for walker in range(9, 13)] == [10, 10, 0, 0]
    assert [each["how"] for each in ended] == ["finished"] * 4 + ["failed"] * 4
    assert all("(3, 3) (of w9)" in each["cause"] for each in ended[4:6])
    assert all("'y'" in each["cause"] for each in ended[6:])


@pytest.mark.parametrize(
    ("draw", "drew"),
    [
        (lambda seed: np.random.default_rng(seed()).random(), True),
        (lambda seed: np.random.random(), True),  # noqa: NPY002 (begins with the segment's seed)
        (lambda seed: np.random.default_rng(1).random(), False),
        (lambda seed: 0.5, False),
    ],
)
def test_a_walker_says_whether_its_first_segment_drew_of_its_seed(
    space: TupleSpace, tmp_path: Path, draw: Callable[[Callable[[], int]], float], drew: bool
) -> None:
    run_walker(space, tmp_path, lambda p, start, out: out.append(x=draw(lambda: out.seed)))
    assert Frames(tmp_path / "frames").attributes("w0")["drew"] == drew


@pytest.mark.parametrize("looks", [False, True])
def test_a_model_changes_the_conditions_of_a_segment_that_looks_at_it(
    space: TupleSpace, tmp_path: Path, looks: bool
) -> None:
    """Pairs of frames across a new model count else, and what comes of a frame."""
    orders = [(n, plain(Start(start=n, seed=n, with_model=1 + n))) for n in range(2)]
    run_orders(space, tmp_path, lambda p, start, out: out.append(x=0.0 if looks and start.model else 1.0), orders,
               learned=lambda order: {"load": lambda: None})  # fmt: skip
    conditions = Frames(tmp_path / "frames").read_table("w0")[:, SEGMENT_FIELDS.index("conditions")]
    assert (len(set(conditions.tolist())) == 1) == (not looks)


def wait_until_stopped(p: Any, start: Any, out: Segment) -> None:
    out.append(x=1.0)
    while not out.stopped:
        pass


def never_look(p: Any, start: Any, out: Segment) -> None:
    while True:
        out.append(x=1.0)


@pytest.mark.slow
@pytest.mark.parametrize(
    "error", [OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), ValueError("not of ours")], ids=["full disk", "a bug"]
)
@pytest.mark.parametrize("simulate", [wait_until_stopped, never_look])
def test_whatever_keeps_frames_from_being_published_ends_a_segment_and_blames_no_start(
    space: TupleSpace,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    simulate: Callable[[Any, Any, Segment], None],
    error: Exception,
) -> None:
    def full(self: GroupWriter) -> dict[str, int]:
        raise error

    monkeypatch.setattr(GroupWriter, "_write", full)
    with pytest.raises(type(error)) as ended:
        run_walker(space, tmp_path, simulate)
    assert ended.value is error
    assert events(space, "ended") == []
    assert list((tmp_path / "errors").iterdir()) == []


def test_a_start_that_was_settled_meanwhile_is_left_and_forgotten(space: TupleSpace, tmp_path: Path) -> None:
    """Its walker was lost, and came back by its lease after the engine had gone on from its frames."""
    space.put("bag", 0, plain(Start(start=0, seed=0)))
    space.release(space.take("bag", int, dict, lease_s=60))
    space.put(DONE, 0)
    assert run_walker(space, tmp_path, lambda p, start, out: out.append(x=1.0), starts=0) == DISMISSED
    assert events(space, "began") == []
    assert space.count(DONE, int) == 0


def test_a_start_that_was_given_to_another_keeps_no_others_from_being_done_with(
    space: TupleSpace, tmp_path: Path
) -> None:
    """What was published together is acknowledged together."""
    later = TupleSpace.connect(*space.places, space=space.space, clock=lambda: time.time() + 1000)

    def simulate(params: Any, start: Any, out: Segment) -> None:
        out.append(x=1.0)
        if out.number == 1:  # by then the leases of the first two are over
            assert [each[1] for each in later.take_many_nowait("bag", int, dict, n=2, lease_s=1000)] == [0, 1]

    run_walker(space, tmp_path, simulate, starts=3)
    assert [each["how"] for each in events(space, "ended")] == ["finished"] * 3
    assert space.statistics("bag")["bag"].leases == 2


def test_a_stage_that_calls_exit_has_failed_and_its_walker_goes_on(space: TupleSpace, tmp_path: Path) -> None:
    def leave(p: Any, start: Any, out: Segment) -> None:
        out.append(x=1.0)
        sys.exit(3)

    assert run_walker(space, tmp_path, leave, starts=2) == DISMISSED
    assert [each["cause"] for each in events(space, "ended")] == ["SystemExit: 3"] * 2


def test_a_cause_with_half_a_character_costs_no_walker(space: TupleSpace, tmp_path: Path) -> None:
    """As the name of a file has it that is no text."""

    def fail(p: Any, start: Any, out: Segment) -> None:
        raise FileNotFoundError(os.fsdecode(b"frame\xff.xyz"))

    assert run_walker(space, tmp_path, fail, starts=2) == DISMISSED
    assert [each["how"] for each in events(space, "ended")] == ["failed"] * 2
    assert "FileNotFoundError: frame\\udcff.xyz" in (tmp_path / "errors" / "w0.0.txt").read_text()


def test_an_error_whose_text_fails_costs_no_walker(space: TupleSpace, tmp_path: Path) -> None:
    class Wordless(Exception):
        def __str__(self) -> str:
            return str(1 / 0)

    def fail(p: Any, start: Any, out: Segment) -> None:
        raise Wordless

    assert run_walker(space, tmp_path, fail, starts=2) == DISMISSED
    assert all("Wordless" in each["cause"] and "ZeroDivisionError" in each["cause"] for each in events(space, "ended"))


@pytest.mark.parametrize("ends", ["return", "raise ValueError", "import sys; sys.exit(1)"])
def test_a_child_that_a_simulation_forks_does_not_become_a_second_walker(
    ends: str, space: TupleSpace, tmp_path: Path
) -> None:
    """It would take starts, and write into the same group."""
    named: dict[str, Any] = {"pid": os.getpid()}
    exec(
        "import os\ndef simulate(p, start, out):\n out.append(x=1.0)\n if os.fork() == 0:\n"
        f"  out.append(x=2.0)\n  {ends}\n os.wait()\n",
        named,
    )
    assert run_walker(space, tmp_path, named["simulate"], starts=3) == DISMISSED
    assert os.getpid() == named["pid"]
    assert [each["how"] for each in events(space, "ended")] == ["finished"] * 3
    assert Frames(tmp_path / "frames").count("w0") == 3


@pytest.mark.parametrize(
    ("expression", "explained"), [('start.prepared["x"]', True), ('start.frame.get("x")["x"]', False), ("1 / 0", False)]
)
def test_a_segment_that_needs_what_was_not_prepared_fails_with_that_cause(
    expression: str, explained: bool, space: TupleSpace, tmp_path: Path
) -> None:
    """Python itself names only None, which may as well be something else."""
    named: dict[str, Any] = {}
    exec(f"def simulate(p, start, out): {expression}", named)
    run_walker(space, tmp_path, named["simulate"])
    (ended,) = events(space, "ended")
    assert ended["how"] == "failed"
    assert ("start.prepared is None" in ended["cause"]) == explained


FAULTS = {
    "Segmentation fault": "faulthandler._sigsegv()",
    "Aborted": "os.abort()",
    "Floating": "faulthandler._sigfpe()",
}


@pytest.mark.slow
@pytest.mark.parametrize(("said", "fault"), FAULTS.items())
def test_a_process_that_dies_says_of_what_and_what_it_printed_lies_beside(
    said: str, fault: str, made_run: MadeRun, tmp_path: Path
) -> None:
    directory = made_run(f"""
        import faulthandler, os

        @wf.simulate()
        def simulate(p, start, out):
            print("so far", p)
            {fault}
        """)
    with Server.start(directory.bus) as server, TupleSpace.connect(server.url) as space:
        space.put("bag", 0, plain(Start(start=0, seed=1)))
        code = f"from steersman.worker import tasks; tasks.walk({str(directory.path)!r}, 3, 'bag')"
        died = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert died.returncode < 0
    assert died.stdout == died.stderr == ""
    assert (directory.errors / "w3.stdout").read_text() == "so far \n"
    assert "in simulate" in (directory.errors / "w3.stderr").read_text()
    told = last_words(directory.errors, 3)
    assert said in told
    assert told.endswith("see errors/w3.stderr")


@pytest.mark.slow
def test_what_segments_print_does_not_fill_the_disk(made_run: MadeRun) -> None:
    """Of each file the end is kept, and standard error too, from which the cause of a failure is taken."""
    directory = made_run("""
        import sys

        @wf.simulate()
        def simulate(p, start, out):
            for file in (sys.stdout, sys.stderr):
                print("x" * 600, file=file)
        """)
    code = "from steersman.worker import tasks, walker; walker.MOST_PRINTED = 1000; "
    code += f"tasks.walk({str(directory.path)!r}, 3, 'bag')"
    with Server.start(directory.bus) as server, TupleSpace.connect(server.url) as space:
        for number in range(5):
            space.put("bag", number, plain(Start(start=number, seed=number)))
        space.put("bag", -1, {"end": True})
        subprocess.run([sys.executable, "-c", code], timeout=60, check=True)
    for name in ("stdout", "stderr"):
        printed = (directory.errors / f"w3.{name}").read_text()
        assert printed.startswith("(the beginning was cut off)\n")
        assert len(printed) < 2000


def test_causes_of_failed_segments_do_not_fill_the_disk(
    space: TupleSpace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first is kept, which is worth most, and the newest."""
    monkeypatch.setattr(walker_module, "FAILING_S", 0.0)

    def fail(p: Any, start: Any, out: Segment) -> None:
        raise RuntimeError("a dead context")

    run_walker(space, tmp_path, fail, starts=MOST_CAUSES + 10)
    kept = {path.name for path in (tmp_path / "errors").glob("w0.*.txt")}
    assert len(kept) == MOST_CAUSES
    assert {"w0.0.txt", f"w0.{MOST_CAUSES + 9}.txt"} <= kept
