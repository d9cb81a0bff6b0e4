"""Plain value <-> bytes: msgpack for what is plain, dtype, shape and raw bytes for arrays and tensors, never pickle."""

from __future__ import annotations

import hashlib
import math
import sys
from typing import TYPE_CHECKING, Any, Final

import msgpack
import numpy as np

from steersman.bus.errors import NotPlain

if TYPE_CHECKING:
    import torch

CHUNK_BYTES: Final = 1 << 20  # a larger field travels in chunks of this: longer commands hold the server up for all
INDEX_KEY_BYTES: Final = 40  # longer values are indexed by their SHA-1, as space.lua does
ARRAY, TENSOR, BLOB = 1, 2, 3  # msgpack extension types
DEPTH: Final = 100  # nested deeper is refused when put: msgpack itself gives up at 1024, Python earlier

_LETTERS: Final[dict[type, bytes]] = {
    str: b"s", int: b"i", float: b"f", bool: b"b", bytes: b"y", type(None): b"n", list: b"l", tuple: b"l", dict: b"d",
    np.ndarray: b"a",
}  # fmt: skip
_SCALARS: Final = frozenset({str, int, float, bool, bytes, type(None)})
_SCALAR_LETTERS: Final = {kind: letter for kind, letter in _LETTERS.items() if kind in _SCALARS}
_pack_scalar = msgpack.Packer().pack  # calls no Python code for a scalar, so the GIL makes it safe for all threads
_ARRAY_KINDS: Final = "biufcSUmM"


def index_key(values: bytes) -> bytes:
    """The key under which the server indexes these encoded values."""
    if len(values) <= INDEX_KEY_BYTES:
        return values
    return hashlib.sha1(values, usedforsecurity=False).hexdigest().encode()


def letter_of_type(kind: type) -> bytes | None:
    """The signature letter of a type in a template, None for a type that does not travel."""
    letter = _LETTERS.get(kind)
    return b"t" if letter is None and _is_tensor_type(kind) else letter


def is_flat(value: Any) -> bool:
    """Is it scalars, or lists of them, so that equal values have equal bytes?"""
    if isinstance(value, list | tuple):
        return all(is_flat(item) for item in value)
    return type(value) in _SCALARS


def pack_field(name: str, value: Any) -> tuple[bytes, bytes]:
    """One field -> its signature letter and its bytes.

    Raises: NotPlain: the value, or something inside it, does not travel.
    """
    letter = _SCALAR_LETTERS.get(type(value))
    if letter is not None:
        try:
            return letter, _pack_scalar(value)
        except (OverflowError, ValueError) as unfit:
            raise NotPlain(name, f"{_brief(value)} ({unfit})") from None
    value = _plain(name, value, DEPTH)
    try:
        data = msgpack.packb(value, default=_extension)
    except NotPlain as unfit:
        raise NotPlain(name, unfit.what) from None
    except (OverflowError, ValueError, TypeError) as unfit:
        raise NotPlain(name, f"{_brief(value)} ({unfit})") from None
    return letter_of_type(type(value)) or b"n", data


def unpack_field(data: bytes | bytearray | memoryview) -> Any:
    """The bytes of one field -> its value.

    Raises: ValueError: not the bytes of one plain value, array or tensor.
    """
    try:
        return msgpack.unpackb(data, ext_hook=_value_of, strict_map_key=False)
    except (
        ValueError,
        TypeError,
        OverflowError,
        RecursionError,
        MemoryError,
        msgpack.exceptions.UnpackException,
    ) as why:
        raise ValueError(f"{type(why).__name__}: {why}" if str(why) else type(why).__name__) from None


def _plain(name: str, value: Any, depth: int) -> Any:
    """The value with subclasses, numpy scalars and views made plain; what cannot be is refused."""
    if type(value) in _SCALARS or type(value) is np.ndarray or _is_tensor_type(type(value)):
        return value
    if depth == 0:
        raise NotPlain(name, f"a value nested deeper than {DEPTH}")
    if isinstance(value, list | tuple):
        return _plain_list(name, value, depth)
    if isinstance(value, dict):
        return {_plain_key(name, key): _plain(name, item, depth - 1) for key, item in value.items()}
    return _plain_scalar(name, value)


def _plain_list(name: str, value: list[Any] | tuple[Any, ...], depth: int) -> list[Any]:
    if _SCALARS.issuperset(map(type, value)):
        return list(value)
    return [_plain(name, item, depth - 1) for item in value]


def _plain_key(name: str, key: Any) -> Any:
    key = _plain_scalar(name, key) if type(key) not in _SCALARS else key
    if type(key) not in _SCALARS:
        raise NotPlain(name, f"a dict key of type {type(key).__name__}")
    return key


def _plain_scalar(name: str, value: Any) -> Any:
    if isinstance(value, np.generic) and value.dtype.kind in "biufSU" and not isinstance(value, np.longdouble):
        return value.item()
    if isinstance(value, np.ndarray) and not isinstance(value, np.ma.MaskedArray):
        return np.asarray(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value)
    raise NotPlain(name, f"a {type(value).__name__}")


def _brief(value: Any) -> str:
    return f"a {type(value).__name__}"


def _extension(value: Any) -> msgpack.ExtType:
    if isinstance(value, np.ndarray):
        return msgpack.ExtType(ARRAY, _array_bytes(value))
    if _is_tensor_type(type(value)):
        return msgpack.ExtType(TENSOR, _tensor_bytes(value))
    raise NotPlain("", _brief(value))


def _array_bytes(array: np.ndarray[Any, Any]) -> bytes:
    if array.dtype.kind not in _ARRAY_KINDS:
        raise NotPlain("", f"an array of dtype {array.dtype}")
    return _described(array.dtype.str, array.shape, array.tobytes())


def _tensor_bytes(tensor: torch.Tensor) -> bytes:
    import torch

    if tensor.layout != torch.strided or tensor.is_quantized:
        raise NotPlain("", f"a {tensor.layout} tensor of dtype {tensor.dtype}")
    flat = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous().reshape(-1)
    return _described(
        str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape), flat.view(torch.uint8).numpy().tobytes()
    )


def _described(dtype: str, shape: tuple[int, ...], raw: bytes) -> bytes:
    description: bytes = msgpack.packb([dtype, shape])
    return len(description).to_bytes(2, "big") + description + raw


def _value_of(code: int, data: bytes) -> Any:
    if code not in (ARRAY, TENSOR):
        raise ValueError(f"extension type {code}")
    length = int.from_bytes(data[:2], "big")
    dtype, shape = msgpack.unpackb(data[2 : 2 + length])
    if not isinstance(dtype, str) or not all(type(n) is int and n >= 0 for n in shape):
        raise ValueError("a description that is no dtype and shape")
    raw = memoryview(data)[2 + length :]
    return _array(dtype, shape, raw) if code == ARRAY else _tensor(dtype, shape, raw)


def _array(dtype: str, shape: list[int], raw: memoryview) -> np.ndarray[Any, Any]:
    kind = np.dtype(dtype)
    if kind.kind not in _ARRAY_KINDS or math.prod(shape) * kind.itemsize != len(raw):
        raise ValueError(f"{len(raw)} bytes are no array {dtype} of shape {shape}")
    return np.frombuffer(bytearray(raw), kind).reshape(shape) if len(raw) else np.empty(shape, kind)


def _tensor(dtype: str, shape: list[int], raw: memoryview) -> torch.Tensor:
    import torch

    kind = getattr(torch, dtype, None)
    if not isinstance(kind, torch.dtype) or math.prod(shape) * kind.itemsize != len(raw):
        raise ValueError(f"{len(raw)} bytes are no tensor {dtype} of shape {shape}")
    return torch.frombuffer(bytearray(raw), dtype=kind).reshape(shape) if len(raw) else torch.empty(shape, dtype=kind)


def _is_tensor_type(kind: type) -> bool:
    torch = sys.modules.get("torch")  # who sends a tensor has imported torch; nobody else should pay for it
    tensor = getattr(torch, "Tensor", None)
    return tensor is not None and issubclass(kind, tensor)
