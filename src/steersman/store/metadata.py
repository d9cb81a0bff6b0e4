"""The `zarr.json` of an array, written and read by zarr-python, which only those import who describe an array."""

from __future__ import annotations

import functools
import json
import warnings
from typing import Any

import numpy as np
import zarr
from zarr.codecs import Crc32cCodec
from zarr.core.buffer import default_buffer_prototype
from zarr.core.metadata.v3 import ArrayV3Metadata

from steersman.store.variables import SINCE, Variable

with warnings.catch_warnings():  # packbits is not yet in the Zarr 3 text; every zarr-python that reads this has it
    warnings.simplefilter("ignore")
    from zarr.codecs.numcodecs import PackBits

    _PACK_BITS = PackBits()


def described(
    row: tuple[int, ...],
    dtype: np.dtype,
    fill: Any,
    layout: tuple[int, int],
    dims: tuple[str, ...],
    meaning: Variable,
    since: int,
) -> dict[str, Any]:
    """What is written of an array that has no rows yet; see Stored."""
    array = zarr.create_array(
        {},
        shape=(0, *row),
        chunks=(layout[0], *row),
        shards=(layout[1], *row),
        dtype=dtype,
        filters=[_PACK_BITS] if dtype.kind == "b" else None,
        compressors=[Crc32cCodec()],
        fill_value=fill,
        dimension_names=dims,
        attributes={"units": meaning.units, "long_name": meaning.long_name} | ({SINCE: since} if since else {}),
    )
    text = array.metadata.to_buffer_dict(default_buffer_prototype())["zarr.json"].to_bytes()
    written: dict[str, Any] = json.loads(text)
    return written


@functools.lru_cache(maxsize=256)
def layout(described: str) -> tuple[np.ndarray, tuple[int, int], tuple[str, ...], dict[str, Any], int]:
    """like, layout, dims, attributes and since of a Stored, of an array without rows."""
    with warnings.catch_warnings():  # packed booleans are not in the Zarr 3 text yet
        warnings.simplefilter("ignore", zarr.errors.ZarrUserWarning)
        array = ArrayV3Metadata.from_dict(json.loads(described))
    like = np.full(array.shape[1:], array.fill_value, array.dtype.to_native_dtype())
    like.flags.writeable = False
    assert array.shards is not None
    attributes = dict(array.attributes)
    since = int(attributes.pop(SINCE, 0))
    return like, (array.chunks[0], array.shards[0]), tuple(map(str, array.dimension_names or ())), attributes, since
