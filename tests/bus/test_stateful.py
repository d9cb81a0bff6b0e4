"""The space against a plain model of it: whatever is done in whatever order, both say the same."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from steersman.bus import ANY, LeaseExpired, NameFull, Server, Tuple, TupleSpace, dead_letters

from .conftest import Clock

NAMES = ("a", "b")
VALUES = st.sampled_from([0, 1, "s", b"y", 1.5, True, None, [1, "s"], "long enough to be hashed " * 3])
FIELDS = st.lists(VALUES, max_size=2).map(tuple)
PATTERN = st.sampled_from(
    [ANY, int, str, bytes, float, bool, list, 0, 1, "s", "long enough to be hashed " * 3, [1, "s"]]
)
PATTERNS = st.lists(PATTERN, max_size=2).map(tuple)
LEASE_S, LIFE_S, BOUND, DELIVERIES = 10, 15, 8, 3
_numbers = itertools.count()


def fits(pattern: Any, value: Any) -> bool:
    if pattern is ANY:
        return True
    if isinstance(pattern, type):
        return type(value) is pattern
    return type(pattern) is type(value) and bool(pattern == value)


@dataclass
class Item:
    """A tuple in the model."""

    order: tuple[int, int]
    fields: tuple[Any, ...]
    ends: float | None = None
    leased_until: float | None = None
    deliveries: int = 0

    def free(self) -> bool:
        return self.leased_until is None


@dataclass
class Name:
    """All of a name, as plain Python."""

    items: list[Item] = field(default_factory=list)
    once: set[str] = field(default_factory=set)
    dead: list[tuple[Any, ...]] = field(default_factory=list)
    put: int = 0

    def pass_time(self, now: float) -> None:
        self.items = [i for i in self.items if i.ends is None or i.ends > now]
        for item in self.items[:]:
            if item.leased_until is not None and item.leased_until <= now:
                self.give_back(item)

    def give_back(self, item: Item) -> None:
        item.leased_until, item.order = None, (0, item.order[1])
        if item.deliveries >= DELIVERIES:
            self.items.remove(item)
            self.dead.append(item.fields)

    def matching(self, patterns: tuple[Any, ...]) -> list[Item]:
        fitting = [
            i for i in self.items
            if i.free() and len(i.fields) == len(patterns) and all(map(fits, patterns, i.fields))
        ]  # fmt: skip
        return sorted(fitting, key=lambda i: i.order)


class Space(RuleBasedStateMachine):
    """Each rule does the same to the space and to the model."""

    server: Server

    def __init__(self) -> None:
        super().__init__()
        self.clock = Clock()
        self.space = TupleSpace.connect(self.server.url, space=f"model{next(_numbers)}", clock=self.clock)
        self.model = {name: Name() for name in NAMES}
        self.held: list[tuple[Tuple, Item]] = []
        for name in NAMES:
            self.space.configure(name, bound=BOUND, deliveries=DELIVERIES)

    def teardown(self) -> None:
        self.space.close()

    @rule(name=st.sampled_from(NAMES), fields=FIELDS, brief=st.booleans(), once=st.sampled_from(["", "", "k", "l"]))
    def put(self, name: str, fields: tuple[Any, ...], brief: bool, once: str) -> None:
        model, life = self.model[name], LIFE_S if brief else None
        try:
            done = self.space.put(name, *fields, ttl_s=life, once=once, timeout_s=0)
        except NameFull:
            assert len(model.items) == BOUND
            return
        assert done == (not once or once not in model.once)
        if done:
            self._add(model, fields, life)
            model.once |= {once} - {""}

    @rule(name=st.sampled_from(NAMES), many=st.lists(FIELDS, min_size=1, max_size=3))
    def put_many(self, name: str, many: list[tuple[Any, ...]]) -> None:
        model = self.model[name]
        try:
            self.space.put_many([(name, *fields) for fields in many], timeout_s=0)
        except NameFull:
            assert len(model.items) + len(many) > BOUND
            return
        for fields in many:
            self._add(model, fields, None)

    def _add(self, model: Name, fields: tuple[Any, ...], life: float | None) -> None:
        assert len(model.items) < BOUND
        model.put += 1
        model.items.append(Item((1, model.put), fields, None if life is None else self.clock() + life))

    @rule(name=st.sampled_from(NAMES), patterns=PATTERNS, n=st.sampled_from([1, 1, 2, -1]), keep=st.booleans())
    def take(self, name: str, patterns: tuple[Any, ...], n: int, keep: bool) -> None:
        found = self.space.take_many_nowait(name, *patterns, n=n, lease_s=LEASE_S if keep else None)
        expected = self.model[name].matching(patterns)[: None if n < 0 else n]
        assert [t[1:] for t in found] == [i.fields for i in expected]
        for got, item in zip(found, expected, strict=True):
            item.deliveries += 1
            assert got.deliveries == item.deliveries
            assert len(got.history) == item.deliveries - 1
            if keep:
                item.leased_until = self.clock() + LEASE_S
                self.held.append((got, item))
            else:
                self.model[name].items.remove(item)

    @rule(name=st.sampled_from(NAMES), patterns=PATTERNS)
    def read_and_count(self, name: str, patterns: tuple[Any, ...]) -> None:
        expected = [i.fields for i in self.model[name].matching(patterns)]
        assert [t[1:] for t in self.space.read_many_nowait(name, *patterns)] == expected
        assert self.space.count(name, *patterns) == len(expected)

    @precondition(lambda self: self.held)
    @rule(at=st.integers(0, 20), how=st.sampled_from(["ack", "release", "renew"]))
    def settle(self, at: int, how: str) -> None:
        got, item = self.held.pop(at % len(self.held))
        model = self.model[got.name]
        ours = item in model.items and item.leased_until is not None and item.deliveries == got.deliveries
        try:
            self.space.renew(got, LEASE_S) if how == "renew" else getattr(self.space, how)(got)
        except LeaseExpired:
            assert not ours
            return
        assert ours
        if how == "ack":
            model.items.remove(item)
        elif how == "release":
            model.give_back(item)
        else:
            item.leased_until = self.clock() + LEASE_S
            self.held.append((got, item))

    @rule(patterns=PATTERNS, fields=FIELDS, fails=st.booleans())
    def move_in_a_transaction(self, patterns: tuple[Any, ...], fields: tuple[Any, ...], fails: bool) -> None:
        source, target = (self.model[name] for name in NAMES)
        expected = source.matching(patterns)[:1]
        if not expected:
            return
        try:
            with self.space.transaction() as change:
                assert change.take("a", *patterns, timeout_s=0)[1:] == expected[0].fields
                change.put("b", *fields)
                if fails:
                    raise ZeroDivisionError
        except ZeroDivisionError:
            expected[0].order = (0, expected[0].order[1])
            return
        except NameFull:
            assert len(target.items) == BOUND
            expected[0].order = (0, expected[0].order[1])
            return
        source.items.remove(expected[0])
        self._add(target, fields, None)

    @rule(seconds=st.sampled_from([1, 5, 10, 15]))
    def time_passes(self, seconds: int) -> None:
        self.clock.advance(seconds)
        for name, model in self.model.items():
            self.space.count(name)  # the server, too, gives back in the order of the names
            model.pass_time(self.clock())

    @invariant()
    def the_depths_agree(self) -> None:
        for name, looked in self.space.statistics(*NAMES).items():
            model = self.model[name]
            leased = sum(not i.free() for i in model.items)
            assert (looked.put, looked.ready, looked.leases) == (model.put, len(model.items) - leased, leased)
            assert looked.dead == len(model.dead)

    @invariant()
    def the_dead_are_the_same(self) -> None:
        for name, model in self.model.items():
            found = self.space.last(dead_letters(name), 100)
            assert sorted(map(repr, (t[1:] for t in found))) == sorted(map(repr, model.dead))


@pytest.mark.slow
def test_the_space_is_its_model(server: Server) -> None:
    class OnThisServer(Space):
        pass

    OnThisServer.server = server
    checks = list(HealthCheck)
    run_state_machine_as_test(
        OnThisServer,
        settings=settings(max_examples=120, stateful_step_count=50, deadline=None, suppress_health_check=checks),
    )
