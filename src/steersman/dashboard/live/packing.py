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
    """Pack columns of float32, float64, int32, uint16 or uint8; others become float32."""
    parts, entries, offset = [], [], 0
    for name, column in columns.items():
        plain = np.ascontiguousarray(column if column.dtype.str[1:] in KINDS else column.astype(np.float32))
        data = plain.astype(plain.dtype.newbyteorder("<"), copy=False).tobytes()
        entries.append([name, plain.dtype.str[1:], list(plain.shape), offset])
        parts.append(data + bytes(-len(data) % WORD))
        offset += len(parts[-1])
    header = json.dumps({"meta": meta, "columns": entries}).encode()
    header += b" " * (-(len(header) + 4) % WORD)
    return b"".join([len(header).to_bytes(4, "little"), header, *parts])


KINDS = ("f4", "f8", "i4", "u2", "u1")
