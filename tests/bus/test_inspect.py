"""What a colleague sees of a space: statistics, the table, and `steersman bus RUN`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from steersman.bus import Server, TupleSpace, inspect, rows
from tests.waiting import until

from .conftest import Clock, later


def test_statistics_tell_depths_rates_ages_and_who_waits(space: TupleSpace, clock: Clock) -> None:
    space.put_many([("x", n) for n in range(5)])
    clock.advance(10)
    space.take("x", int)
    space.take("x", int, lease_s=60)
    waiting = later(lambda: space.take("x", "never", timeout_s=10))
    until(lambda: space.statistics("x")["x"].blocked == 1)
    with TupleSpace.connect(*space.places, space=space.space, clock=clock) as other:
        looked = other.statistics()["x"]
        assert (looked.put, looked.done, looked.ready, looked.leases, looked.blocked) == (5, 1, 3, 1, 1)
        assert looked.age_s == pytest.approx(10, abs=0.01)
        assert (looked.put_per_s, looked.done_per_s) == pytest.approx((0.5, 0.1), rel=0.01), "since the first put"
        clock.advance(10)
        space.put_many([("x", n) for n in range(20)])
        again = other.statistics()["x"]
        assert (again.put_per_s, again.done_per_s) == pytest.approx((2.0, 0.0), rel=0.01), "since the last look"
    space.put("x", "never")
    waiting.result(10)


def test_the_oldest_unread_is_told(server: Server) -> None:
    with TupleSpace.connect(server.url, space="oldest") as space:
        space.put("x", 1)
        until(lambda: space.statistics("x")["x"].oldest_s > 0.05)
        space.take("x", int)
        assert space.statistics("x")["x"].oldest_s == 0


def test_the_table_shows_each_name_and_its_newest_tuples(space: TupleSpace) -> None:
    space.put("b", 1)
    space.put("a", "x" * 200, np.zeros((2, 3)), [1] * 100)
    found = rows(space, last=2)
    assert [row.name for row in found] == ["a", "b"]
    assert found[1].last == ("('b', 1)",)
    assert "(200)" in found[0].last[0]
    assert "<float64 (2, 3)>" in found[0].last[0]
    assert len(found[0].cells) == len(found[0].COLUMNS)
    assert space.count("b", int) == 1, "looking takes nothing"


def test_following_shows_what_is_put_and_takes_nothing(space: TupleSpace) -> None:
    space.put("x", 0)
    seen = inspect.follow(space, "x")
    first = later(lambda: next(seen))
    until(lambda: tapped(space))
    space.put("x", 7)
    assert first.result(10) == "2  ('x', 7)"
    assert space.take_many("x", int) == [("x", 0), ("x", 7)]


def tapped(space: TupleSpace) -> bool:
    """Has somebody said that he follows x?"""
    connection = space._routes.pool("x").take()
    try:
        key = space._operations.keys.base("x")
        answer = connection.command(b"HEXISTS", key + b":m", b"tap")
        listening = connection.command(b"PUBSUB", b"SHARDNUMSUB", key + b":tap")
        return bool(answer) and b":tap" in listening[0] and listening[1] > 0
    finally:
        connection.close()


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A run directory, as far as the bus goes."""
    home = tmp_path_factory.mktemp("run")
    with Server.start(home / "bus"), TupleSpace.connect(home / "bus") as space:
        space.put_many([("starts", "w0", n) for n in range(4)])
        space.take("starts", str, int, lease_s=600)
        yield home


def steersman_bus(run: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"COLUMNS": "160", "NO_COLOR": "1"}
    line = [sys.executable, "-m", "steersman.cli", "bus", str(run), *words]
    return subprocess.run(line, capture_output=True, text=True, timeout=60, env=environment)


@pytest.mark.slow
def test_the_command_shows_a_run(run: Path) -> None:
    shown = steersman_bus(run)
    assert shown.returncode == 0, shown.stderr
    header, row = shown.stdout.splitlines()[:2]
    assert "blocked takers" in header
    assert row.split()[:3] == ["starts", "3", "1"]
    assert "('starts', 'w0', 3)" in shown.stdout


@pytest.mark.slow
def test_the_command_speaks_json(run: Path) -> None:
    told = json.loads(steersman_bus(run, "--json").stdout)
    assert (told["starts"]["ready"], told["starts"]["leases"], told["starts"]["put"]) == (3, 1, 4)
    assert told["starts"]["last"][0] == "('starts', 'w0', 3)"
    assert steersman_bus(run, "--json", "--follow", "starts").returncode == 2, "it would be several objects"


def test_the_command_follows_a_name(run: Path) -> None:
    following = later(lambda: steersman_bus(run, "--follow", "news", "--count", "2", "--jsonl"))
    with TupleSpace.connect(run / "bus") as space:
        until(lambda: "news" in space.names())  # who follows a name subscribes first, then says so
        space.put("news", 1)
        space.put("news", 2)
    lines = [json.loads(line) for line in following.result(60).stdout.splitlines()]
    assert [line["tuple"].partition("  ")[2] for line in lines] == ["('news', 1)", "('news', 2)"]


def test_a_run_that_is_over_is_told_in_one_line(tmp_path: Path) -> None:
    shown = steersman_bus(tmp_path)
    assert shown.returncode == 2
    assert shown.stderr.count("\n") == 1
