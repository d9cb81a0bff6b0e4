"""Fields <-> entry: the bytes of one stored tuple, with what the server needs to know in front.

blobs u8, arity u8, put at ms f64, signature letters, field lengths u32, blob names 16 bytes each, fields.
The server cuts fields out by their lengths and never decodes msgpack; space.lua holds the other side of this layout.
"""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass
from typing import Any, NamedTuple

from steersman.bus import codec
from steersman.bus.errors import NotPlain

_HEAD = struct.Struct(">BBd")
_BLOB = struct.Struct(">12sI")
MOST_FIELDS = 255
LETTERS = frozenset(b"sifbynldat")


@dataclass(frozen=True)
class Blob:
    """A field too large for one command: its name on the server and its bytes."""

    name: bytes
    data: bytes

    @property
    def chunks(self) -> int:
        """How many there are."""
        return -(-len(self.data) // codec.CHUNK_BYTES)

    def chunk(self, number: int) -> memoryview:
        """The bytes of one, from 0."""
        return memoryview(self.data)[number * codec.CHUNK_BYTES : (number + 1) * codec.CHUNK_BYTES]


@dataclass(frozen=True)
class BlobField:
    """Where the chunks of a field are."""

    name: bytes
    chunks: int


class Entry(NamedTuple):
    """An encoded tuple."""

    name: str
    signature: bytes
    data: bytes
    blobs: tuple[Blob, ...] = ()


def encode(name: str, fields: tuple[Any, ...], now_ms: float) -> Entry:
    """Raises: NotPlain: the name is no str, a field does not travel, or there are more than 255 fields."""
    if not isinstance(name, str) or len(fields) > MOST_FIELDS:
        raise NotPlain(repr(name), f"a tuple of {len(fields)} fields after a {type(name).__name__} as its name")
    letters, parts = b"", []
    for field in fields:
        letter, data = codec.pack_field(name, field)
        letters += letter
        parts.append(data)
    head = _HEAD.pack(0, len(parts), now_ms)
    if sum(map(len, parts)) <= codec.CHUNK_BYTES:
        return Entry(name, b"." + letters, b"".join([head, letters, _lengths(parts), *parts]))
    blobs = tuple(_spill(parts))
    names = [_BLOB.pack(blob.name, blob.chunks) for blob in blobs]
    head = _HEAD.pack(len(blobs), len(parts), now_ms)
    return Entry(name, b"." + letters, b"".join([head, letters, _lengths(parts), *names, *parts]), blobs)


def _lengths(parts: list[bytes]) -> bytes:
    return struct.pack(f">{len(parts)}I", *map(len, parts))


def _spill(parts: list[bytes]) -> list[Blob]:
    """Takes the large fields out of parts and leaves references to their chunks."""
    blobs = []
    for at, data in enumerate(parts):
        if len(data) > codec.CHUNK_BYTES:
            blob = Blob(os.urandom(12), data)
            parts[at] = b"\xd8\x03" + _BLOB.pack(blob.name, blob.chunks)  # fixext 16, type BLOB
            blobs.append(blob)
    return blobs


def decode(data: bytes) -> list[Any]:
    """An entry -> its fields; a field in chunks is a BlobField.

    Raises: ValueError: the bytes are no entry.
    """
    if len(data) < _HEAD.size:
        raise ValueError("shorter than its header")
    blobs, arity, _ = _HEAD.unpack_from(data)
    start = _HEAD.size + 5 * arity + 16 * blobs
    if len(data) < start or not LETTERS.issuperset(data[_HEAD.size : _HEAD.size + arity]):
        raise ValueError("a broken header")
    lengths = struct.unpack_from(f">{arity}I", data, _HEAD.size + arity)
    if start + sum(lengths) != len(data):
        raise ValueError(f"{len(data)} bytes, but the header announces {start + sum(lengths)}")
    fields = []
    for length in lengths:
        fields.append(_field(data[start : start + length]))
        start += length
    return fields


def _field(data: bytes) -> Any:
    if data[:2] == b"\xd8\x03" and len(data) == 18:
        return BlobField(*_BLOB.unpack_from(data, 2))
    return codec.unpack_field(data)
