"""Messages that somebody broke, or wrote to break us: one BusError, the message aside, and the name goes on."""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Callable
from typing import Any

import msgpack
import pytest
import redis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from steersman.bus import DamagedMessage, Server, TupleSpace, entries
from tests.waiting import until

from .conftest import later

HEAD = struct.pack(">BBd", 0, 1, 0.0) + b"i"
Plant = Callable[[bytes], None]


def entry(field: bytes, length: int | None = None) -> bytes:
    """An entry of one field of these bytes, saying this length."""
    return HEAD + struct.pack(">I", len(field) if length is None else length) + field


def extension(code: int, data: bytes) -> bytes:
    """An entry whose field is a msgpack extension."""
    return entry(msgpack.packb(msgpack.ExtType(code, data)))


def described(dtype: str, *shape: int) -> bytes:
    """The head of an array or a tensor."""
    description: bytes = msgpack.packb([dtype, shape])
    return len(description).to_bytes(2, "big") + description


HOSTILE = {
    "nothing": b"",
    "short": b"\x00\x01",
    "no header": b"hello, this is no entry at all",
    "truncated msgpack": entry(b"\xdc\x00\x05\x01\x02"),
    "1 GiB of bytes promised": entry(b"\xc6\x40\x00\x00\x00abc"),
    "1 GiB of list promised": entry(b"\xdd\x40\x00\x00\x00\x01"),
    "1 GiB of map promised": entry(b"\xdf\x40\x00\x00\x00\x01\x01"),
    "a length of 1 GiB": entry(b"\x01", 1 << 30),
    "wrong type letters": struct.pack(">BBd", 0, 1, 0.0) + b"Q" + struct.pack(">I", 1) + b"\x01",
    "never used byte": entry(b"\xc1"),
    "nested without end": entry(b"\x91" * 5000 + b"\x01"),
    "an unknown extension": extension(77, b"x"),
    "an array of 2^60": extension(1, described("<f8", 2**60)),
    "an array of objects": extension(1, described("|O", 1) + bytes(8)),
    "a tensor of no dtype": extension(2, described("manual_seed", 1)),
    "chunks that are not there": struct.pack(">BBd", 1, 1, 0.0) + b"y" + struct.pack(">I", 18)
    + struct.pack(">12sI", b"x" * 12, 2**32 - 1) + b"\xd8\x03" + struct.pack(">12sI", b"x" * 12, 2**32 - 1),
}  # fmt: skip


@pytest.fixture
def plant(server: Server, space: TupleSpace) -> Any:
    """Store raw bytes as the next tuple of the name x, as one could who has the password."""
    base = f"steersman:{space.space}:{{x}}"
    client: Any = redis.Redis.from_url(server.url)
    with client:

        def put_raw(data: bytes) -> None:
            number = client.hincrby(f"{base}:m", "n", 1)
            client.hset(f"{base}:m", "q", " .i ")
            client.hset(f"{base}:t", str(number), data)
            client.zadd(f"{base}:q:.i", {str(number): number})

        yield put_raw


@pytest.mark.slow
@pytest.mark.parametrize("what", HOSTILE)
def test_a_hostile_message_is_moved_aside_and_named(space: TupleSpace, plant: Plant, what: str) -> None:
    plant(HOSTILE[what])
    space.put("x", 8)
    with pytest.raises(DamagedMessage, match="x: message 1"):
        space.take("x", int)
    assert space.take("x", int) == ("x", 8), "the name goes on"
    assert space.damaged("x") == [HOSTILE[what]]
    looked = space.statistics("x")["x"]
    assert (looked.damaged, looked.ready, looked.leases) == (1, 0, 0)


def test_a_read_or_a_leased_take_moves_it_aside_too(space: TupleSpace, plant: Plant) -> None:
    acts: list[Callable[[], object]] = [lambda: space.read("x", int), lambda: space.take("x", int, lease_s=60)]
    for act in acts:
        plant(HOSTILE["truncated msgpack"])
        with pytest.raises(DamagedMessage):
            act()
    assert space.count("x", int) == 0
    assert len(space.damaged("x")) == 2


@pytest.mark.parametrize("lease_s", [None, 60.0])
def test_good_messages_beside_a_damaged_one_are_not_lost(
    space: TupleSpace, plant: Plant, lease_s: float | None
) -> None:
    for number in range(3):
        space.put("x", number)
        plant(HOSTILE["truncated msgpack"])
    assert [found[1] for found in space.take_many("x", int, lease_s=lease_s)] == [0, 1, 2]
    assert len(space.damaged("x")) == 3


@given(st.binary(max_size=80), st.integers(0, 60), st.integers(0, 255))
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_the_bytes_are_it_is_a_tuple_or_a_damaged_message(
    space: TupleSpace, plant: Plant, noise: bytes, at: int, value: int
) -> None:
    good = bytearray(entries.encode("x", (12345,), 0.0).data)
    good[at % len(good)] = value
    for data in (noise, bytes(good), entry(noise)):
        plant(data)
        with contextlib.suppress(DamagedMessage):
            assert space.take("x", int, timeout_s=0)[0] == "x"
        assert space.count("x", int) == 0


def test_a_hostile_note_does_not_crash_a_blocked_taker(server: Server, space: TupleSpace) -> None:
    taker = later(lambda: space.take("x", int, timeout_s=10))
    until(lambda: space.statistics("x")["x"].blocked == 1)
    client: Any = redis.Redis.from_url(server.url)
    with client:
        place = client.zrange(f"steersman:{space.space}:{{x}}:o", 0, 0)[0]
        _, session, number = place.split()
        client.spublish(f"steersman:{space.space}:{{x}}:c:{session.decode()}", number + b" a b\nc")
    space.put("x", 1)
    assert taker.result(10) == ("x", 1)
