"""Laws of the codec: what goes in comes out, and no bytes whatever do more than raise ValueError."""

from __future__ import annotations

import contextlib
import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from steersman.bus import NotPlain, codec, entries

scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.text(st.characters(exclude_categories=["Cs"]))
    | st.binary()
)
keys = st.booleans() | st.integers(-(2**63), 2**63) | st.text(st.characters(exclude_categories=["Cs"]))
plain = st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(keys, inner), max_leaves=20)


def same(a: Any, b: Any) -> bool:
    """Equality that knows NaN, and 1 from True."""
    if isinstance(a, float) and isinstance(b, float):
        return a == b or (math.isnan(a) and math.isnan(b))
    if isinstance(a, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[k], b[k]) for k in a)
    return type(a) is type(b) and bool(a == b)


@pytest.mark.slow
@given(st.lists(plain, max_size=5))
def test_plain_values_come_out_as_they_went_in(fields: list[Any]) -> None:
    entry = entries.encode("x", tuple(fields), 1.0)
    assert same(entries.decode(entry.data), fields)
    assert len(entry.signature) == 1 + len(fields)


@given(
    arrays.arrays(
        st.sampled_from(["?", "<i4", ">f8", "<c16", "u1", "<U3", "S2"]), arrays.array_shapes(min_dims=0, min_side=0)
    )
)
def test_arrays_keep_dtype_shape_and_bytes(array: np.ndarray[Any, Any]) -> None:
    _, data = codec.pack_field("x", array)
    back = codec.unpack_field(data)
    assert (back.dtype, back.shape, back.tobytes()) == (array.dtype, array.shape, array.tobytes())
    assert back.flags.writeable


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.complex64])
@pytest.mark.parametrize("shape", [(), (0, 3), (2, 3)])
def test_tensors_keep_dtype_and_shape(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    tensor = torch.ones(shape, dtype=dtype).t() if len(shape) == 2 else torch.ones(shape, dtype=dtype)
    _, data = codec.pack_field("x", tensor)
    back = codec.unpack_field(data)
    assert back.dtype == dtype
    assert torch.equal(back, tensor)


@given(st.binary(max_size=200))
def test_no_bytes_do_more_than_raise_a_value_error(data: bytes) -> None:
    for read in (codec.unpack_field, entries.decode):
        with contextlib.suppress(ValueError):
            read(data)


@given(st.lists(plain, min_size=1, max_size=3), st.data())
def test_a_truncated_entry_is_refused(fields: list[Any], data: st.DataObject) -> None:
    entry = entries.encode("x", tuple(fields), 1.0).data
    cut = data.draw(st.integers(0, len(entry) - 1))
    with pytest.raises(ValueError, match=r".+"):
        entries.decode(entry[:cut])


def test_a_length_prefix_of_a_gibibyte_allocates_nothing() -> None:
    for prefix in (b"\xc6", b"\xdb", b"\xdd", b"\xdf"):
        with pytest.raises(ValueError, match=r".+"):
            codec.unpack_field(prefix + b"\x40\x00\x00\x00abc")


@pytest.mark.parametrize(
    "value",
    [
        np.array([object()]),
        np.ma.masked_array([1], [True]),
        np.zeros(2, dtype=[("a", "i4")]),
        torch.ones(2).to_sparse(),
        {(1,): 2},
        lambda: None,
    ],
)
def test_what_would_lose_its_meaning_is_refused(value: Any) -> None:
    with pytest.raises(NotPlain):
        codec.pack_field("x", value)


def test_subclasses_and_numpy_scalars_become_plain() -> None:
    class Name(str):
        __slots__ = ()

    for value, letter, expected in (
        (Name("a"), b"s", "a"),
        (np.float32(0.5), b"f", 0.5),
        (np.int16(3), b"i", 3),
        (np.bool_(True), b"b", True),
        (bytearray(b"x"), b"y", b"x"),
        ((1, (2,)), b"l", [1, [2]]),
        ({"a": np.int64(1)}, b"d", {"a": 1}),
    ):
        found, data = codec.pack_field("x", value)
        assert (found, codec.unpack_field(data)) == (letter, expected)


def test_a_value_nested_without_end_is_refused() -> None:
    value: list[Any] = []
    value.append(value)
    with pytest.raises(NotPlain, match="nested"):
        codec.pack_field("x", value)
