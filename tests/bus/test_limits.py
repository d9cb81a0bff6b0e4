"""Bounds, lives, keys, dead letters, transactions: what keeps a space orderly."""

from __future__ import annotations

import pytest

from steersman.bus import BusTimeout, LeaseExpired, NameFull, TupleSpace, dead_letters
from tests.waiting import until

from .conftest import Clock, later


@pytest.mark.slow
def test_a_put_with_the_same_key_changes_nothing(space: TupleSpace) -> None:
    assert space.put("result", 1, once="task 7") is True
    assert space.put("result", 1, once="task 7") is False
    assert space.put("result", 1, once="task 8") is True
    assert space.count("result", int) == 2


def test_a_tuple_vanishes_when_its_life_ends(space: TupleSpace, clock: Clock) -> None:
    space.put("news", "old", ttl_s=10)
    space.put("news", "kept")
    clock.advance(10)
    assert space.take_many("news", str) == [("news", "kept")]


def test_a_tuple_that_failed_too_often_goes_to_the_dead_letters_with_its_history(
    space: TupleSpace, clock: Clock
) -> None:
    space.configure("task", deliveries=3)
    space.put("task", 7)
    space.release(space.take("task", int, lease_s=30), reason="bad weights")
    space.take("task", int, lease_s=30)
    clock.advance(30)
    space.release(space.take("task", int, lease_s=30))
    assert space.count("task", int) == 0
    dead = space.take(dead_letters("task"), int)
    assert [line.split(" ", 1)[1] for line in dead.history] == ["bad weights", "lease ended", "released"]
    assert (dead.deliveries, dead) == (4, ("task!dead", 7))


def test_a_full_name_refuses_or_waits_as_asked(space: TupleSpace) -> None:
    space.configure("small", bound=2)
    space.put_many([("small", 1), ("small", 2)])
    with pytest.raises(NameFull, match="2 tuples"):
        space.put("small", 3, timeout_s=0)
    waiting = later(lambda: space.put("small", 3, timeout_s=10))
    until(lambda: space.statistics("small")["small"].blocked_puts == 1)
    space.take("small", int)
    assert waiting.result(10) is True
    assert [t[1] for t in space.take_many("small", int)] == [2, 3]


def test_a_bound_that_is_lifted_lets_waiting_puts_through(space: TupleSpace) -> None:
    space.configure("small", bound=1)
    space.put("small", 1)
    waiting = [later(lambda: space.put("small", 2, timeout_s=10)) for _ in range(3)]
    until(lambda: space.statistics("small")["small"].blocked_puts == 3)
    space.configure("small", bound=0)
    assert [w.result(10) for w in waiting] == [True] * 3


def test_a_leased_tuple_still_counts_against_the_bound(space: TupleSpace) -> None:
    space.configure("small", bound=1)
    space.put("small", 1)
    held = space.take("small", int, lease_s=30)
    with pytest.raises(NameFull):
        space.put("small", 2, timeout_s=0)
    space.ack(held)
    space.put("small", 2, timeout_s=0)


def test_a_transaction_happens_whole(space: TupleSpace) -> None:
    space.put_many([("account", "a", 10), ("account", "b", 0)])
    with space.transaction() as change:
        a, b = change.take("account", "a", int), change.take("account", "b", int)
        change.put("account", "a", a[2] - 4)
        change.put("account", "b", b[2] + 4)
        assert space.count("account", str, int) == 0, "nobody sees the middle of it"
    assert space.read("account", "a", int)[2] == 6
    assert space.read("account", "b", int)[2] == 4


def test_a_transaction_that_fails_changes_nothing(space: TupleSpace) -> None:
    space.put_many([("account", "a", 10), ("account", "b", 0)])
    with pytest.raises(ZeroDivisionError), space.transaction() as change:  # noqa: PT012
        change.take("account", "a", int)
        change.put("log", "never")
        _ = 1 / 0
    assert space.count("log", str) == 0
    back = space.take("account", str, int)
    assert (back.deliveries, back) == (1, ("account", "a", 10)), "and it does not count as a delivery"


def test_a_transaction_whose_puts_find_no_room_gives_back_at_once(space: TupleSpace) -> None:
    space.configure("small", bound=1)
    space.put_many([("fork", 1), ("small", 1)])
    with pytest.raises(NameFull), space.transaction() as change:  # noqa: PT012
        change.take("fork", 1)
        change.put("small", 2)
    assert (space.count("fork", int), space.count("small", int)) == (1, 1)


def test_a_transaction_that_cannot_get_everything_gives_back_what_it_has(space: TupleSpace) -> None:
    space.put("fork", 1)
    with pytest.raises(BusTimeout), space.transaction() as change:  # noqa: PT012
        change.take("fork", 1)
        change.take("fork", 2, timeout_s=0.05)
    assert space.count("fork", int) == 1


def test_a_transaction_that_takes_too_long_puts_nothing(space: TupleSpace, clock: Clock) -> None:
    space.put("fork", 1)
    with pytest.raises(LeaseExpired), space.transaction(lease_s=5) as change:  # noqa: PT012
        change.take("fork", 1)
        change.put("eaten", 1)
        clock.advance(6)
    assert space.count("eaten", int) == 0
    assert space.count("fork", int) == 1
