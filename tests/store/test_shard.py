"""Shards are written by us and read by every Zarr: they are the bytes that zarr-python itself would write."""

import numpy as np
import pytest
import zarr
from zarr.codecs import Crc32cCodec

from steersman.store.column import _PACK_BITS
from steersman.store.shard import encode_shard

pytestmark = pytest.mark.filterwarnings("ignore:Numcodecs codecs are not in the Zarr version 3")
CHUNK, SHARD = 4, 12


@pytest.mark.parametrize("rows", [1, CHUNK, CHUNK + 1, SHARD])
@pytest.mark.parametrize("dtype", ["bool", "int32", "float32", ">f8"])
def test_a_shard_is_the_one_that_zarr_writes(dtype: str, rows: int) -> None:
    """Chunks that are full, begun, or not there; numbers of either byte order; bits that do not fill their bytes."""
    numbers = np.arange(1, 1 + rows * 15).reshape(rows, 3, 5)  # no chunk of zeros alone, which zarr would leave out
    values = (numbers % 7 > 0) if dtype == "bool" else numbers.astype(dtype)
    store = zarr.storage.MemoryStore()
    array = zarr.create_array(
        store, shape=(SHARD, 3, 5), chunks=(CHUNK, 3, 5), shards=(SHARD, 3, 5), dtype=values.dtype, fill_value=0,
        filters=[_PACK_BITS] if dtype == "bool" else None, compressors=[Crc32cCodec()],
    )  # fmt: skip
    array[:rows] = values
    assert encode_shard(values, 0, CHUNK, SHARD) == store._store_dict["c/0/0/0"].to_bytes()
