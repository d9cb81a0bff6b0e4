"""Values of any size: fields above a mebibyte travel in chunks, and the caller does not notice."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import redis
import torch

from steersman.bus import DamagedMessage, Server, TupleSpace
from tests.waiting import until

from .conftest import Clock, later

MIB = 1 << 20


@pytest.mark.parametrize("size", [MIB - 1, MIB, MIB + 1, 3 * MIB + 7, 64 * MIB])
def test_bytes_of_any_size_come_out_as_they_went_in(space: TupleSpace, size: int) -> None:
    value = np.random.default_rng(size).bytes(size)
    space.put("x", size, value, "after")
    assert space.count("x", size, bytes, str) == 1, "the other fields still match by value"
    assert space.take("x", size, bytes, str) == ("x", size, value, "after")


def test_large_values_are_handed_to_a_blocked_taker(space: TupleSpace) -> None:
    taker = later(lambda: space.take("x", bytes, timeout_s=20))
    until(lambda: space.statistics("x")["x"].blocked == 1)
    space.put("x", b"y" * (5 * MIB))
    assert taker.result(20) == ("x", b"y" * (5 * MIB))


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (2, 3), (600, 1000)])
@pytest.mark.parametrize("dtype", ["float64", "float32", "int8", "bool", "complex64", ">i2", "datetime64[s]"])
def test_arrays_keep_dtype_and_shape(space: TupleSpace, shape: tuple[int, ...], dtype: str) -> None:
    array = (np.arange(np.prod(shape, dtype=int)) % 2).astype(dtype).reshape(shape)
    space.put("x", array, array.T)
    _, found, turned = space.take("x", np.ndarray, np.ndarray, timeout_s=10)
    assert (found.dtype, found.shape, turned.shape) == (array.dtype, array.shape, array.T.shape)
    np.testing.assert_array_equal(found, array)
    np.testing.assert_array_equal(turned, array.T)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.complex64])
def test_tensors_keep_dtype_and_shape(space: TupleSpace, dtype: torch.dtype) -> None:
    tensor = torch.arange(12).reshape(3, 4).to(dtype)
    space.put("x", tensor, tensor.t(), torch.tensor(3).to(dtype))
    _, found, turned, scalar = space.take("x", torch.Tensor, torch.Tensor, torch.Tensor)
    assert (found.dtype, turned.shape, scalar.shape) == (dtype, (4, 3), ())
    assert torch.equal(found, tensor)
    assert torch.equal(turned, tensor.t())


def test_what_was_put_does_not_change_with_the_array(space: TupleSpace) -> None:
    array = np.zeros(MIB, dtype=np.int8)
    space.put("x", array)
    array += 1
    found = space.take("x", np.ndarray)[1]
    assert not found.any()
    found += 1  # what comes out is writable


def test_a_leased_large_value_comes_again(space: TupleSpace, clock: Clock) -> None:
    space.put("x", bytes(2 * MIB))
    space.take("x", bytes, lease_s=5)
    clock.advance(6)
    again = space.take("x", bytes, lease_s=5)
    assert (again.deliveries, len(again[1])) == (2, 2 * MIB)
    space.ack(again)


def test_no_chunk_is_left_for_ever(server: Server, space: TupleSpace) -> None:
    """What was taken keeps its chunks only as long as its taker may need to fetch them."""
    space.put("x", bytes(3 * MIB))
    with redis.Redis.from_url(server.url) as client:
        chunks = list(client.scan_iter(f"steersman:{space.space}:*:v:*"))
        ends_before = [client.execute_command("PEXPIRE", key, 10**7, "XX") for key in chunks]
        space.take("x", bytes)
        ends_after = [client.execute_command("PEXPIRE", key, 10**7, "XX") for key in chunks]
    assert (len(chunks), ends_before, ends_after) == (4, [False] * 4, [True] * 4)


def test_a_lost_chunk_is_a_damaged_message(server: Server, space: TupleSpace) -> None:
    space.put("x", bytes(3 * MIB))
    with redis.Redis.from_url(server.url) as client:
        victim: Any = next(iter(client.scan_iter(f"steersman:{space.space}:*:v:*:1")))
        client.delete(victim)
    with pytest.raises(DamagedMessage, match="chunk 1"):
        space.take("x", bytes)
