"""Laws of the tuple space, on real servers."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import time
from typing import Any

import pytest
import redis

from steersman.bus import ANY, BusTimeout, LeaseExpired, NotPlain, TupleSpace
from steersman.system.errors import BadValue
from tests.waiting import until

from .conftest import Clock, later


def test_what_is_put_is_taken_once(space: TupleSpace) -> None:
    space.put("frames", "w0", 3, {"rows": 64})
    assert space.read("frames", str, int, dict) == ("frames", "w0", 3, {"rows": 64})
    assert space.take("frames", str, int, dict) == ("frames", "w0", 3, {"rows": 64})
    assert space.take_nowait("frames", ANY, ANY, ANY) is None


def test_a_template_sees_its_tuples_in_the_order_they_were_put(space: TupleSpace) -> None:
    space.put_many([("job", kind, n) for n, kind in enumerate("abcabcabc")])
    assert [t[2] for t in space.read_many("job", "b", int)] == [1, 4, 7]
    assert space.take("job", "c", ANY) == ("job", "c", 2)
    assert [t[2] for t in space.take_many("job", str, int)] == [0, 1, 3, 4, 5, 6, 7, 8]


def test_order_holds_over_tuples_of_different_types(space: TupleSpace) -> None:
    for value in (1, "two", 3.0, b"four", None, True, [7], {"n": 8}):
        space.put("mixed", value)
    assert [t[1] for t in space.take_many("mixed", ANY)] == [1, "two", 3.0, b"four", None, True, [7], {"n": 8}]


def test_a_bool_is_not_an_int_and_an_int_not_a_float(space: TupleSpace) -> None:
    space.put("x", True)
    assert space.read_nowait("x", int) is None
    assert space.read_nowait("x", 1) is None
    assert space.read_nowait("x", 1.0) is None
    assert space.read_nowait("x", bool) == ("x", True)
    assert space.read_nowait("x", True) == ("x", True)


def test_the_number_of_fields_must_match(space: TupleSpace) -> None:
    space.put("x", 1)
    space.put("x")
    assert space.count("x") == 1
    assert space.count("x", ANY) == 1
    assert space.count("x", ANY, ANY) == 0


@pytest.mark.parametrize("field", [complex, {"a": 1}, object(), [{}]])
def test_a_template_that_could_not_be_meant_is_refused(space: TupleSpace, field: object) -> None:
    with pytest.raises(BadValue):
        space.take_nowait("x", field)


@pytest.mark.parametrize("value", [object(), 2**70, {(1, 2): 3}, {1, 2}, "\ud800"])
def test_what_does_not_travel_is_refused_when_put(space: TupleSpace, value: object) -> None:
    with pytest.raises(NotPlain):
        space.put("x", value)
    assert space.count("x", ANY) == 0


def test_nothing_in_time_is_an_error_that_says_so(space: TupleSpace) -> None:
    with pytest.raises(BusTimeout, match=r"x: .*0\.05 s"):
        space.take("x", timeout_s=0.05)
    space.put("x")
    assert space.count("x") == 1, "who gave up is out of the line"


def test_blocked_takers_are_served_in_order_of_arrival(space: TupleSpace) -> None:
    takers = []
    for n in range(5):
        takers.append(later(lambda: space.take("x", int, timeout_s=10)))
        until(lambda n=n: space.statistics("x")["x"].blocked == n + 1)  # type: ignore[misc]
    space.put_many([("x", n) for n in range(5)])
    assert [taker.result(10)[1] for taker in takers] == [0, 1, 2, 3, 4]


def test_a_put_wakes_the_taker_it_matches_and_no_other(space: TupleSpace) -> None:
    ones, twos = later(lambda: space.take("x", 1)), later(lambda: space.take("x", 2))
    until(lambda: space.statistics("x")["x"].blocked == 2)
    space.put("x", 2)
    assert twos.result(10) == ("x", 2)
    assert not ones.done()
    space.put("x", 1)
    assert ones.result(10) == ("x", 1)


def test_a_dead_worker_loses_no_task(space: TupleSpace, clock: Clock) -> None:
    """At-least-once: an unacknowledged tuple is offered again when its lease ends, first in line."""
    space.put_many([("task", 7), ("task", 8)])
    assert space.take("task", int, lease_s=30) == ("task", 7)
    clock.advance(30)
    again = space.take("task", int, lease_s=30)
    assert (again.deliveries, again) == (2, ("task", 7))


def test_a_late_acknowledgement_is_refused(space: TupleSpace, clock: Clock) -> None:
    space.put("task", 7)
    late = space.take("task", int, lease_s=30)
    clock.advance(31)
    with pytest.raises(LeaseExpired, match="30 s"):
        space.ack(late)
    again = space.take("task", int, lease_s=30)
    space.ack(again)
    clock.advance(31)
    assert space.count("task", int) == 0


def test_a_renewed_lease_lasts(space: TupleSpace, clock: Clock) -> None:
    space.put("task", 7)
    ours = space.take("task", int, lease_s=30)
    clock.advance(20)
    space.renew(ours, 30)
    clock.advance(20)
    assert space.count("task", int) == 0
    space.release(ours)
    assert space.take("task", int) == ("task", 7)


def test_an_ended_lease_goes_to_a_taker_already_blocked(server: Any) -> None:
    """Real time: one blocked client watches the end of the lease."""
    with TupleSpace.connect(server.url, space="watch") as space:
        space.put("task", 1)
        space.take("task", int, lease_s=0.3)
        began = time.monotonic()
        blocked = [later(lambda: space.take("task", int, timeout_s=60)) for _ in range(3)]
        until(lambda: any(b.done() for b in blocked))
        assert 0.2 < time.monotonic() - began < 30
        space.put("task", 2)
        space.put("task", 3)


def test_iteration_takes_one_after_another_until_nothing_comes(space: TupleSpace) -> None:
    space.put_many([("frames", "w0", n) for n in range(3)])
    assert [t[2] for t in space.takes("frames", str, int, timeout_s=0.05)] == [0, 1, 2]


def test_a_put_is_taken_by_one_and_read_by_all(space: TupleSpace) -> None:
    readers = [later(lambda: space.read("x", int, timeout_s=10)) for _ in range(3)]
    until(lambda: space.statistics("x")["x"].blocked == 3)
    takers = [later(lambda: space.take("x", int, timeout_s=10)) for _ in range(3)]
    until(lambda: space.statistics("x")["x"].blocked == 6)
    space.put_many([("x", n) for n in range(3)])
    assert [reader.result(10)[1] for reader in readers] == [0, 0, 0]
    assert sorted(taker.result(10)[1] for taker in takers) == [0, 1, 2]


def test_threads_share_a_space_and_a_pickled_one_is_the_same(space: TupleSpace, server: Any) -> None:
    sent = pickle.loads(pickle.dumps(TupleSpace.connect(server.url, space=space.space)))
    putters = [later(lambda n=n: [space.put("x", n, k) for k in range(50)]) for n in range(4)]  # type: ignore[misc]
    found = [sent.take("x", int, int, timeout_s=10) for _ in range(200)]
    assert all(all(putter.result(10)) for putter in putters)
    assert sorted(t[1:] for t in found) == [(n, k) for n in range(4) for k in range(50)]
    assert all([t[2] for t in found if t[1] == n] == list(range(50)) for n in range(4)), "in order for each putter"


def test_a_forked_child_opens_connections_of_its_own(server: Any) -> None:
    code = (
        "import os, sys\nfrom steersman.bus import TupleSpace\n"
        "space = TupleSpace.connect(sys.argv[1], space='fork')\nspace.put('x', 0)\n"
        "child = os.fork()\n"
        "for n in range(100):\n    space.put('x', child == 0, n); assert space.take('x', child == 0, int)[2] == n\n"
        "if child: assert os.waitpid(child, 0)[1] == 0"
    )
    subprocess.run([sys.executable, "-c", code, server.url], check=True, timeout=60)


def test_an_interrupted_take_leaves_the_line(server: Any) -> None:
    code = (
        "import signal, sys\nfrom steersman.bus import TupleSpace\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)  # whatever started the tests\n"
        "try:\n    TupleSpace.connect(sys.argv[1], space='interrupt').take('x', int, timeout_s=60)\n"
        "except KeyboardInterrupt:\n    print('interrupted')"
    )
    with (
        subprocess.Popen([sys.executable, "-c", code, server.url], stdout=subprocess.PIPE, text=True) as child,
        TupleSpace.connect(server.url, space="interrupt") as space,
    ):
        until(lambda: space.statistics("x")["x"].blocked == 1)
        os.kill(child.pid, signal.SIGINT)
        assert child.communicate(timeout=120)[0] == "interrupted\n"
        assert space.statistics("x")["x"].blocked == 0


def calls(server: Any, act: Any) -> dict[str, int]:
    """How often each command was called by an act, those that functions call too."""
    with redis.Redis.from_url(server.url) as client:
        before, _, after = (client.info("commandstats"), act(), client.info("commandstats"))
    counts = {name.removeprefix("cmdstat_"): told["calls"] for name, told in after.items()}
    return {name: n - before.get(f"cmdstat_{name}", {"calls": 0})["calls"] for name, n in counts.items()}


def test_every_operation_is_one_round_trip(server: Any, space: TupleSpace) -> None:
    space.put_many([("x", n) for n in range(10)])
    held = space.take("x", 3, lease_s=60)
    acts = [
        lambda: space.put("x", 1), lambda: space.put_many([("x", n) for n in range(100)]), lambda: space.ack(held),
        lambda: space.take("x", int), lambda: space.take("x", 5), lambda: space.take_many("x", int, n=20),
        lambda: space.read("x", int), lambda: space.count("x", int), lambda: space.take_nowait("x", "none"),
    ]  # fmt: skip
    for act in acts:
        assert calls(server, act)["fcall"] == 1


def test_a_hand_over_is_one_round_trip_for_each_side(server: Any, space: TupleSpace) -> None:
    """The taker asks once and is told; nobody polls, and the others in line are not woken."""

    def waiting(n: int) -> bool:
        with redis.Redis.from_url(server.url) as client:
            return bool(client.zcard(f"steersman:{space.space}:{{x}}:o") == n)

    def hand_over() -> None:
        takers = []
        for n in range(3):
            takers.append(later(lambda n=n: space.take("x", n, timeout_s=10)))  # type: ignore[misc]
            until(lambda n=n: waiting(n + 1))  # type: ignore[misc]
        for n in range(3):
            space.put("x", n)
            assert takers[n].result(10) == ("x", n)

    assert calls(server, hand_over)["fcall"] == 6


def test_a_take_by_value_does_as_much_among_many_as_among_few(server: Any, space: TupleSpace) -> None:
    for name, size in (("few", 100), ("many", 10_000)):
        space.put_many([(name, n, b"") for n in range(size)])
        space.take(name, 0, bytes)
    few, many = (calls(server, lambda name=name: space.take(name, 77, bytes)) for name in ("few", "many"))
    few.pop("info")
    many.pop("info")
    assert {name: n for name, n in few.items() if n} == {name: n for name, n in many.items() if n}
