"""Walkers of a node that ask together are told what each would be told alone, by one of them."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import signal
from collections.abc import Iterator, Mapping
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from steersman import Params, Workflow, budget
from steersman.stages.shared import Shared, UnknownInput
from steersman.system.errors import BadValue

WALKERS, WAIT_MS = 3, 3_000.0  # those who ask at once are not answered by the clock


def answered(params: Any, model: float, inputs: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Who answers, how many at once, and numbers that mix no two walkers."""
    x, n = inputs["x"], len(inputs["x"])
    if (x == -1).any():
        raise ValueError("minus one")
    if (x == -2).any():
        os.kill(os.getpid(), signal.SIGKILL)
    wrong = {"wrong": np.zeros(n + 1)} if (x == -3).any() else {}
    return {"y": model * x, "by": np.full(n, os.getpid()), "together": np.full(n, n), **wrong}


def walker(file: str, batch: int, wait_ms: float, line: Connection) -> None:
    ask = Shared(answered, file, batch, wait_ms, 0)
    while True:
        model, x = line.recv()
        try:
            line.send(ask(None, model, {"x": x}))
        except RuntimeError as error:
            line.send(str(error))


@contextlib.contextmanager
def walkers(file: str, batch: int = 8, wait_ms: float = WAIT_MS) -> Iterator[list[tuple[Any, Connection]]]:
    spawn, started = multiprocessing.get_context("spawn"), []
    try:
        for _ in range(WALKERS):
            here, there = spawn.Pipe()
            process = spawn.Process(target=walker, args=(file, batch, wait_ms, there), daemon=True)
            process.start()
            there.close()
            started.append((process, here))
        yield started
    finally:
        for process, _ in started:
            process.kill()
            process.join()


def told(lines: list[Connection], model: Any, xs: list[np.ndarray]) -> list[Any]:
    for i, (line, x) in enumerate(zip(lines, xs, strict=True)):
        line.send((model[i] if isinstance(model, list) else model, x))
    return [line.recv() for line in lines]


@pytest.mark.slow
def test_walkers_are_answered_together_by_one_who_another_follows(tmp_path: Path) -> None:
    """All that are connected wait: then nobody waits longer. Who has another model, or shape, is answered apart."""
    file = tmp_path / "workflow.py"
    file.write_text("one")
    with walkers(str(file)) as started:
        lines = [line for _, line in started]
        xs = [np.arange(3.0) + 10 * i for i in range(WALKERS)]
        for line, x in zip(lines, xs, strict=True):  # each alone, so that all are connected
            for other in lines[: lines.index(line)]:
                other.send((2.0, x))
            line.send((2.0, x))
            assert all((each.recv()["y"] == 2 * x).all() for each in lines[: lines.index(line) + 1])
        first = told(lines, 2.0, xs)
        assert [each["y"].tolist() for each in first] == [(2 * x).tolist() for x in xs]
        assert [int(each["together"]) for each in first] == [WALKERS] * WALKERS
        by = {int(each["by"]) for each in first}
        assert len(by) == 1
        apart = told(lines, [2.0, 5.0, 5.0], [xs[0], xs[1], xs[2][:2]])
        assert [each["y"].tolist() for each in apart] == [
            (2 * xs[0]).tolist(),
            (5 * xs[1]).tolist(),
            (5 * xs[2][:2]).tolist(),
        ]
        assert [int(each["together"]) for each in apart] == [1, 1, 1]
        failed = told(lines, 5.0, [xs[0], np.full(3, -1.0), xs[2]])
        assert all("minus one" in each for each in failed)
        assert all("wrong" in each for each in told(lines, 5.0, [xs[0], np.full(3, -3.0), xs[2]]))
        assert told(lines, 2.0, xs)[0]["y"].tolist() == (2 * xs[0]).tolist()
        (leader,) = (process for process, _ in started if process.pid in by)
        os.kill(leader.pid, signal.SIGKILL)
        leader.join()
        left = [line for process, line in started if process is not leader]
        again = told(left, 2.0, xs[:2])
        assert [each["y"].tolist() for each in again] == [(2 * x).tolist() for x in xs[:2]]
        assert {int(each["by"]) for each in again} < {process.pid for process, _ in started if process is not leader}


@pytest.mark.slow
def test_a_batch_is_no_larger_than_it_may_be_and_one_who_waits_alone_is_answered(tmp_path: Path) -> None:
    (tmp_path / "workflow.py").write_text("one")
    with walkers(str(tmp_path / "workflow.py"), batch=2, wait_ms=20.0) as started:
        lines = [line for _, line in started]
        for _ in range(5):
            told_ = told(lines, 2.0, [np.full(2, i) for i in range(WALKERS)])
            assert [each["y"].tolist() for each in told_] == [[2.0 * i] * 2 for i in range(WALKERS)]
            assert {int(each["together"]) for each in told_} <= {1, 2}
        (alone,) = told(lines[:1], 2.0, [np.ones(2)])
        assert int(alone["together"]) == 1


def test_a_file_that_was_changed_and_a_notebook_are_answered_by_their_own_code(tmp_path: Path) -> None:
    file = tmp_path / "workflow.py"
    places = set()
    for code in ("one", "two"):
        file.write_text(code)
        places |= {Shared(answered, of, 8, 1.0, 0)._name for of in (str(file), None)}
    assert len(places) == 3
    assert pickle.loads(pickle.dumps(Shared(answered, str(file), 8, 1.0, 0)))._name in places


def test_an_input_that_is_not_sent_is_refused_with_what_was_sent(tmp_path: Path) -> None:
    """By this process, which has come first, as by another one."""
    with pytest.raises(UnknownInput) as refused:
        Shared(answered, None, 1, 0.0, 0)(None, 2.0, {"z": np.ones(2)})
    assert refused.value.args == ("input of answered", "x", ("z",))


def test_what_is_not_shared_has_no_batches() -> None:
    workflow = Workflow("w", Params, stop=budget(frames=1))
    for alone in ({"gpus": 1}, {"batch": 4}, {"wait_ms": 2.0}):
        with pytest.raises(BadValue):
            workflow.answer(**alone)
