"""Columns of numbers -> bytes that a browser reads as typed arrays, without parsing them.

Layout: the length of a header in 4 bytes (little-endian), the header (JSON, filled with spaces to a multiple of 8),
then the columns one after another, each from a multiple of 8 on. The header holds `meta` and, for each column, its
name, dtype, shape and offset behind the header.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

WORD = 8  # bytes: a typed array begins at a multiple of its item's size


def packed(meta: Mapping[str, Any], **columns: np.ndarray) -> bytes:
    """Pack columns of numbers or booleans: as they are, or in the next larger type that a browser knows.

    Integers beyond 2^53 are rounded. Raises: TypeError: a column of complex numbers, dates or other things.
    """
    parts, entries, offset = [], [], 0
    for name, column in columns.items():
        plain = np.ascontiguousarray(column.astype(_kind(column), copy=False))
        data = plain.astype(plain.dtype.newbyteorder("<"), copy=False).tobytes()
        entries.append([name, plain.dtype.str[1:], list(plain.shape), offset])
        parts.append(data + bytes(-len(data) % WORD))
        offset += len(parts[-1])
    header = json.dumps({"meta": meta, "columns": entries}).encode()
    header += b" " * (-(len(header) + 4) % WORD)
    return b"".join([len(header).to_bytes(4, "little"), header, *parts])


KINDS = ("f4", "f8", "i4", "u2", "u1")


def _kind(column: np.ndarray) -> str:
    if column.dtype.str[1:] in KINDS:
        return column.dtype.str[1:]
    if column.dtype.kind not in "biuf":
        raise TypeError(f"values of dtype {column.dtype} cannot be shown; numbers and booleans can")
    if column.dtype.kind in "iu" and column.size and max(-int(column.min()), int(column.max())) >= 2**31:
        return "f8"
    return {"b": "u1", "i": "i4", "u": "i4"}.get(column.dtype.kind) or ("f4" if column.dtype.itemsize < 4 else "f8")
