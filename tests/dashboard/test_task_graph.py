"""Calls of tasks as a graph: each behind what it needs, many by the names of their tasks."""

from pathlib import Path

from steersman.dashboard.live.views.stages import graph
from steersman.data.facts import facts
from steersman.data.overview import overview
from steersman.journal.records import Called, Run, Session, Task
from steersman.journal.state import State


def story(calls: int) -> State:
    """So many of `one`, a `total` that needs all, and a plan; one failed, one is begun."""
    keys = [f"k{i}" for i in range(calls)]
    records = [Called(call=key, task="one", words=key) for key in keys]
    records += [Called(call="t", task="total", needs=tuple(keys)), Called(call="p", task="plan", needs=("t",))]
    ended = [Task(call=key, sha256="s") for key in keys[2:]]
    return State([Run(), Session(host="here", pid=1), *records, Task(call="k0", cause="no"), *ended])


def test_each_call_lies_behind_what_it_needs() -> None:
    found = graph(story(4))
    assert [(node["name"], node["column"], dict(node["counts"])) for node in found["nodes"]] == [
        ("one", 0, {"failed": 1}), ("one", 0, {"begun": 1}), ("one", 0, {"done": 1}), ("one", 0, {"done": 1}),
        ("total", 1, {"waiting": 1}), ("plan", 2, {"waiting": 1}),
    ]  # fmt: skip
    assert found["edges"] == [(0, 4), (1, 4), (2, 4), (3, 4), (4, 5)]


def test_many_calls_are_shown_by_the_names_of_their_tasks() -> None:
    found = graph(story(200))
    assert [(node["name"], node["words"], dict(node["counts"])) for node in found["nodes"]] == [
        ("one", "", {"failed": 1, "begun": 1, "done": 198}),
        ("total", "", {"waiting": 1}),
        ("plan", "", {"waiting": 1}),
    ]
    assert found["edges"] == [(0, 1), (1, 2)]


def test_status_counts_them() -> None:
    state = story(4)
    assert facts(overview(state, Path()))["tasks"] == "2 done, 1 begun, 2 waiting, 1 failed"
    assert "tasks" not in facts(overview(State([Run(), Session(host="here", pid=1)]), Path()))
