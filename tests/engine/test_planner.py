"""Calls of tasks on a real Parsl: known by content, done once, in the order of what they need."""

from __future__ import annotations

import pickle
import stat
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch
from parsl.config import Config
from parsl.dataflow.dflow import DataFlowKernel
from parsl.executors import ThreadPoolExecutor
from pydantic import BaseModel, Field
from torch import nn

from steersman.data import task_results
from steersman.data.history import History
from steersman.data.repair import repair
from steersman.data.verify import verify
from steersman.engine.errors import PlanFailed
from steersman.engine.planner import Planner
from steersman.journal import calls, records
from steersman.journal import file as journal
from steersman.journal.calls import RESULT
from steersman.journal.file import Journal
from steersman.journal.recorder import Recorder
from steersman.journal.records import Called, Run, Session, Task
from steersman.journal.run_directory import RunDirectory, sha256
from steersman.journal.state import State
from steersman.stages import loading
from steersman.stages.modules import MODULE
from steersman.stages.task import key_of, pack, words_of
from steersman.system.errors import BadInput, DamagedFile, UnknownName
from steersman.worker import tasks
from steersman.worker.calls import Receipt, result

FILE = """
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from steersman import Workflow, budget

wf = Workflow("mine", stop=budget(frames=1))


@dataclass
class Box:
    inside: object


@wf.task
def one(i):
    Path("file.txt").write_text("mine")
    print("one", i)
    assert list(Path().iterdir()), "it is in a folder of its own"
    return np.full(3, float(i))


@wf.task
def total(*given):
    inner = [each.inside if isinstance(each, Box) else each for each in given]
    return float(sum(total(*each) if isinstance(each, (list, tuple)) else np.sum(each) for each in inner))


@wf.task(retries=2)
def third(folder):
    file = Path(folder, "tries.txt")
    file.write_text(file.read_text() + "x" if file.exists() else "x")
    if len(file.read_text()) < 3:
        raise ValueError("not yet")
    return len(file.read_text())


def factor():
    return 1


def times(x):
    return x * factor()


@wf.task
def draw():
    return np.random.random()


@wf.task
def apply(function, x):
    return function(x)


@wf.task
def bad(i):
    raise ValueError(f"no {i}")


@wf.simulate
def segment(p, start, out):
    out.append(x=1.0)
"""


class One(BaseModel):
    pass


class Other(BaseModel):
    pass


class Job(BaseModel):
    """Its fields hold more than its dump has."""

    method: One | Other
    hidden: int = Field(default=1, exclude=True)


@dataclass
class Plans:
    """A run directory whose plans are followed on a thread of Parsl."""

    directory: RunDirectory
    workflow: Any
    kernel: Any
    module: Any

    def recorder(self) -> Recorder:
        state = State()
        return Recorder(Journal(self.directory.journal, replay=state.apply), state)

    def follow(self, plan: Any) -> Any:
        """The result of a plan, in a session of its own."""
        recorder = self.recorder()

        def submit(role: str, function: Any, *args: Any, ended: Any) -> Any:
            given: dict[str, Any] = {"app_args": args, "app_kwargs": {}, "executors": [role], "ignore_for_cache": None}
            job = self.kernel.submit(function, cache=False, **given)
            job.add_done_callback(lambda _: ended())
            return job

        jobs: Any = SimpleNamespace(submit=submit)
        planner = Planner(self.directory, self.workflow, recorder, jobs)
        made = planner.followed("before", lambda act: act(), lambda: None, plan)
        recorder.journal.close()
        return result(self.directory, made) if isinstance(made, Receipt) else made

    def records(self, kind: type[records.Record]) -> list[Any]:
        return list(journal.read(self.directory.journal, kind))


@pytest.fixture
def plans(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Plans]:
    directory = RunDirectory(tmp_path / "run")
    directory.path.mkdir()
    directory.settings_file.write_text("{seed: 1}")
    directory.errors.mkdir(parents=True)
    directory.workflow.write_text(FILE)
    directory.modules.mkdir()
    workflow = loading.load(directory.workflow)
    Journal(directory.journal).append(Run(workflow="mine"), Session(host="here", pid=1))
    monkeypatch.setattr(tasks, "opened", lambda run: (directory, workflow, None))
    one = ThreadPoolExecutor("simulation", 1)
    kernel = DataFlowKernel(Config(executors=[one], run_dir=str(tmp_path / "parsl"), initialize_logging=False))
    yield Plans(directory, workflow, kernel, sys.modules[MODULE])
    kernel.cleanup()


def test_a_future_is_waited_for_wherever_it_is_in_an_argument(plans: Plans) -> None:
    """A tuple, a list in a dict, an object: its result stands in its place."""
    one, total, box = plans.module.one, plans.module.total, plans.module.Box

    def plan() -> Any:
        a, b, c, d = (one.later(i) for i in range(4))
        return {"sum": total.later(a, [b, (c,)], box(d)), "first": [a]}

    found = plans.follow(plan)
    assert found["sum"] == 3 * (0 + 1 + 2 + 3)
    assert found["first"][0].tolist() == [0.0, 0.0, 0.0]
    needs = {each.task: len(each.needs) for each in plans.records(Called)}
    assert needs == {"one": 0, "total": 4, "plan": 2}


def test_equal_arguments_are_called_once_and_copies_twice(plans: Plans) -> None:
    one = plans.module.one
    plans.follow(lambda: [one.later(1), one.later(1), one.later(1, copy=1), one.later(1.0)])
    assert [each.task for each in plans.records(Task) and plans.records(Called)].count("one") == 3


@pytest.mark.parametrize(
    ("old", "new", "calls"),
    [("return 1\n", "return 7\n", 2), ("len(file.read_text()) < 3", "len(file.read_text()) < 2", 1), ("no {i}", "", 1)],
)
def test_a_function_that_is_given_counts_by_what_it_says_and_uses(plans: Plans, old: str, new: str, calls: int) -> None:
    """And what else stands in the file does not."""

    def plan() -> Any:
        return [plans.module.apply.later(plans.module.times, 2)]

    assert plans.follow(plan) == [2]
    plans.directory.workflow.write_text(FILE.replace(old, new))
    plans.follow(plan)
    assert [each.task for each in plans.records(Called)].count("apply") == calls


def test_what_is_done_is_not_done_again_and_its_bytes_stay(plans: Plans) -> None:
    one, total = plans.module.one, plans.module.total

    def plan() -> Any:
        return total.later([one.later(i) for i in range(3)])

    first = plans.follow(plan)
    there = {file: (file.read_bytes(), file.stat().st_mtime_ns) for file in plans.directory.path.glob("tasks/*/*")}
    assert plans.follow(plan) == first == 9.0
    assert {file: (file.read_bytes(), file.stat().st_mtime_ns) for file in there} == there
    assert len(plans.records(Task)) == len(plans.records(Called)) == 5
    results = list(plans.directory.path.glob(f"tasks/*/{RESULT}"))
    assert {stat.S_IMODE(file.stat().st_mode) for file in results} == {0o600}
    assert {file.read_text() for file in plans.directory.path.glob("tasks/*/file.txt")} == {"mine"}


def test_calls_draw_numbers_of_their_own_which_the_seed_repeats(plans: Plans) -> None:
    """Workers are forks of one process: from its state each would draw the same."""
    before = np.random.get_state()[1].tolist()  # type: ignore[index] # noqa: NPY002
    drawn = plans.follow(lambda: [plans.module.draw.later(copy=copy) for copy in range(3)])
    assert len(set(drawn)) == 3
    assert np.random.get_state()[1].tolist() == before  # type: ignore[index] # noqa: NPY002
    for file in plans.directory.path.glob(f"tasks/*/{RESULT}"):
        file.unlink()
    assert plans.follow(lambda: [plans.module.draw.later(copy=copy) for copy in range(3)]) == drawn


def test_a_result_that_was_changed_is_found_is_not_loaded_and_is_made_again(plans: Plans) -> None:
    one = plans.module.one
    plans.follow(lambda: [one.later(7)])
    key = key_of("one", ((7,), {}), 0)
    file = plans.directory.task(key) / RESULT
    whole = file.read_bytes()
    file.write_bytes(pickle.dumps(Trap()))
    with pytest.raises(DamagedFile):
        result(plans.directory, Receipt(key, plans.records(Task)[0].sha256))
    problems = verify(plans.directory)
    assert [each.where for each in problems if each.what == "task"] == [f"tasks/{key}/{RESULT}"]
    assert plans.follow(lambda: [one.later(7)])[0].tolist() == [7.0] * 3
    assert file.read_bytes() == whole
    file.write_bytes(b"other")
    repair(plans.directory, [each for each in verify(plans.directory) if each.what == "task"])
    assert not [each for each in verify(plans.directory) if each.what == "task"]
    assert plans.follow(lambda: [one.later(7)])[0].tolist() == [7.0] * 3
    assert file.read_bytes() == whole


def test_what_a_worker_had_written_when_the_driver_died_is_taken_and_nothing_else(plans: Plans) -> None:
    """Not what a call made before its task was mended, and not what was changed."""
    numbers = range(3)

    def plan() -> Any:
        return [plans.module.one.later(i) for i in numbers]

    plans.follow(plan)
    keys = [key_of("one", ((i,), {}), 0) for i in numbers]
    taken, gone, changed = files = [plans.directory.task(key) / RESULT for key in keys]
    story = list(journal.read(plans.directory.journal))
    killed = [each for each in story if not (isinstance(each, Task) and each.call in keys[:2])]
    journal.rewrite(plans.directory.journal, killed)
    gone.unlink()
    changed.write_bytes(pickle.dumps(Trap()))
    before = taken.stat().st_mtime_ns
    assert [each.tolist() for each in plans.follow(plan)] == [[i] * 3 for i in numbers]
    assert taken.stat().st_mtime_ns == before
    recorded = {each.call: each.sha256 for each in plans.records(Task)}
    assert [recorded[key] for key in keys] == [sha256(file) for file in files]
    journal.rewrite(plans.directory.journal, [each for each in story if getattr(each, "call", "") != keys[0]])
    recorder, jobs = plans.recorder(), SimpleNamespace(submit=lambda *_, **__: Future())
    planner = Planner(plans.directory, plans.workflow, recorder, jobs)  # type: ignore[arg-type]
    planner.call("one", ((0,), {}), 0)
    planner.advance()
    recorder.journal.close()
    assert plans.records(Called)[-1].call == keys[0]
    assert not taken.exists(), "a driver that dies now takes it for what this call gave"


class Trap:
    def __reduce__(self) -> Any:
        return pytest.fail, ("what nobody made was loaded",)


def test_a_task_that_fails_fails_what_needs_it_by_its_name(plans: Plans) -> None:
    bad, one, total = plans.module.bad, plans.module.one, plans.module.total
    end = plans.follow(lambda: total.later(one.later(1), total.later([bad.later(5)])))
    assert end.outcome == "failed"
    assert "bad(5) failed: ValueError:" in end.reason
    failed = {each.call: each.cause for each in plans.records(Task) if not each.sha256}
    assert len(failed) == 4, "bad, both totals, and the plan"
    assert all("bad(5)" in cause for cause in failed.values() if not cause.startswith("ValueError"))
    assert len([each for each in plans.records(Task) if each.sha256]) == 1, "what does not need it is done"


def test_one_that_fails_is_tried_again_and_one_that_failed_is_called_again_in_the_next_session(plans: Plans) -> None:
    folder = plans.directory.path.parent
    assert plans.follow(lambda: plans.module.third.later(str(folder))) == 3
    (folder / "tries.txt").unlink()
    assert plans.follow(lambda: plans.module.third.later(str(folder))) == 3
    assert not (folder / "tries.txt").exists()
    for _ in range(2):
        assert plans.follow(lambda: plans.module.bad.later(1)).outcome == "failed"
    assert [each.task for each in plans.records(Called)].count("bad") == 1
    assert len([each for each in plans.records(Task) if each.cause.startswith("ValueError: no 1")]) == 2


def test_a_plan_may_wait_for_a_result_and_go_on_from_it(plans: Plans) -> None:
    one, total = plans.module.one, plans.module.total
    assert plans.follow(lambda: total.later(one.later(int(one.later(2).result()[0]) + 1))) == 9.0


def test_the_answer_of_a_task_is_that_of_the_call_that_was_asked_for_last(plans: Plans) -> None:
    """Also where that was answered from the record, in this session or another; there is none where it failed."""
    one, apply = plans.module.one, plans.module.apply

    def answer(name: str) -> Any:
        return task_results.result(History(plans.directory), name)

    def plan(*numbers: int) -> Callable[[], Any]:
        def asks() -> Any:
            return [one.later(number).result()[0] for number in numbers]

        return asks

    for numbers in ((1, 2, 1), (2, 1), (1, 2), (2,), (2, 1, 2, 3, 1)):
        plans.follow(plan(*numbers))
        assert answer("one")[0] == numbers[-1]
        assert answer("asks") == [*map(float, numbers)]
    assert len({each.call for each in plans.records(Called) if each.task == "one"}) == 3
    for good, bad in ((plan(3), lambda: apply.later(len, 0)), (plan(1), lambda: apply.later(len, "a").result() // 0)):
        assert plans.follow(good) is not None
        bad.__name__ = "asks"
        assert plans.follow(bad).outcome == "failed"
        with pytest.raises(BadInput):
            answer("asks")
    assert answer("apply") == 1
    plans.follow(lambda: apply.later(len, 0))
    with pytest.raises(BadInput, match="type 'int'"):
        answer("apply")


def test_the_beginning_of_a_key_is_no_name(plans: Plans) -> None:
    plans.follow(lambda: [plans.module.one.later(i) for i in range(20)])
    history = History(plans.directory)
    for key in plans.directory.path.glob("tasks/*"):
        for digits in (1, 4, 11):
            assert calls.why(history.state.calls, key.name[:digits]) == []
            with pytest.raises(UnknownName):
                task_results.result(history, key.name[:digits])
        for digits in (12, 64):
            [each] = calls.why(history.state.calls, key.name[:digits])
            assert each["call"] == key.name


def test_what_a_plan_raises_ends_the_run(plans: Plans) -> None:
    end = plans.follow(lambda: plans.module.one.later(lambda: 0))
    assert (end.outcome, end.reason.startswith("before: ")) == ("failed", True)
    assert "test_planner.py" in plans.directory.traceback("before").read_text(), "the line of the plan is kept"
    recorder = plans.recorder()
    planner = Planner(plans.directory, plans.workflow, recorder, None)  # type: ignore[arg-type]
    planner.begin(exit)
    with pytest.raises(PlanFailed):
        list(iter(lambda: planner.made, 0))
    recorder.journal.close()


def test_outside_a_run_later_calls_the_function(plans: Plans) -> None:
    total = plans.module.total
    assert total.later([3.0, 4.0]).result() == 7.0
    inner = total.later(1.0)
    assert total.later([inner, (inner,)], inner).result() == 3.0
    assert total(1.0, 2.0) == 3.0
    assert pickle.loads(pickle.dumps(total)) is total


TENSORS: list[Callable[[], Any]] = [
    lambda: torch.tensor(1), lambda: torch.tensor([1]), lambda: torch.tensor([[1]]), lambda: torch.tensor([1.0]),
    lambda: torch.tensor([1.0], dtype=torch.bfloat16), lambda: torch.tensor([True]), lambda: torch.tensor([1 + 0j]),
    lambda: torch.empty(0), lambda: torch.tensor([1.0]).to_sparse(),
]  # fmt: skip


class Atoms:
    """They know what calculates their energy, and that knows them."""

    def __init__(self, x: float) -> None:
        self.x, self.calculator = np.array([x]), {"atoms": self}


class Metres(np.ndarray): ...


class Feet(np.ndarray): ...


def test_a_key_depends_on_content_alone() -> None:
    text, other = "ab" * 30, "".join(["ab"] * 30)
    same = [
        ((text, text), (text, other)),
        ((float("nan"),), (-float("nan"),)),
        (({"x", "y", "z"},), ({"z", "y", "x"},)),
        ((np.arange(6).reshape(2, 3),), (np.asfortranarray(np.arange(6).reshape(2, 3)),)),
        *(((each(),), (each(),)) for each in TENSORS),
        ((torch.arange(6)[::2],), (torch.tensor([0, 2, 4]),)),
        ((nn.Parameter(torch.ones(2)),), (torch.ones(2),)),
        ((Atoms(1.0),), (Atoms(1.0),)),
    ]
    for one, two in same:
        assert key_of("f", (one, {}), 0) == key_of("f", (two, {}), 0)
    different = [1, 1.0, True, "1", b"1", None, [1], (1,), {1}, np.array([1]), np.array([1.0]), np.array([[1]]), {1: 1}]
    different += [{1: 2, "a": 3}, {"a": 3, 1: 2}, float("nan"), np.float64("nan"), np.float64(1), np.float32(1)]
    different += [each() for each in TENSORS]
    different += [torch.zeros(2, dtype=each) for each in (torch.int32, torch.float32, torch.int64, torch.float64)]
    x, pair = np.arange(3.0), [(1.0, 2.0)]
    different += [
        x,
        np.ma.array(x, mask=[False, False, True]),
        np.ma.array(x, mask=[True, False, False]),
        x.view(Metres),
        x.view(Feet),
    ]
    different += [np.array(pair, dtype=[(a, "f8"), (b, "f8")]) for a, b in ("xy", "yx")]
    different += [np.zeros(2, dtype) for dtype in (ml_dtypes.bfloat16, ml_dtypes.float8_e5m2, np.uint8, np.float16)]
    different += [np.zeros(2, dtype) for dtype in (ml_dtypes.float8_e4m3fn, "M8[s]", "M8[ns]")]
    different += [Job(method=One()), Job(method=Other()), Job(method=One(), hidden=2)]
    different += [Atoms(1.0), Atoms(2.0), torch.tensor([1j]), torch.tensor([1j]).conj()]
    keys = {key_of("f", ((each,), {}), 0) for each in different}
    keys |= {key_of("g", ((1,), {}), 0), key_of("f", ((1,), {}), 1), key_of("f", ((), {"a": 1}), 0)}
    assert len(keys) == len(different) + 3
    assert len(words_of(((1, "x" * 500), {"y": [2] * 500}))) <= 80


def test_an_argument_that_cannot_go_to_a_worker_is_refused() -> None:
    """A function of a module goes by its name."""
    assert pack((1, [len]))[0]
    with pytest.raises(BadInput):
        pack({"given": [lambda x: x]})
