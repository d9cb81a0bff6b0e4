"""Values of any kind -> a SHA-256 that is equal for equal values, in whichever process."""

from __future__ import annotations

import hashlib
import io
import pickle
import sys
from collections.abc import Callable, Set
from typing import Any

import numpy as np
from pydantic import BaseModel

Known = Callable[[Any], Any]  # what stands for an object in place of its content; None: nothing does


def digest(value: Any, known: Known = lambda _: None) -> str:
    """SHA-256 of what a value holds.

    Raises: PicklingError, TypeError, ...: something in it cannot be pickled.
    """
    try:
        content = _content(value, known)
    except (RecursionError, ValueError):  # something of it leads back to itself, as a calculator to its atoms
        content = _content(value, known, alike=False)
    return hashlib.sha256(content).hexdigest()


def same(one: Any, other: Any) -> bool:
    """Whether two values are equal; NaN is NaN, and a set has no order."""
    try:
        return digest(one) == digest(other)
    except Exception:  # a value of a class that pickle does not find
        return bool(one == other)


def _content(value: Any, known: Known, alike: bool = True) -> bytes:
    """
    Args:
        alike: whether two places share a value does not count, nor the order of a set. What leads back to itself cannot
            be looked at so.
    """

    class Pickler(pickle.Pickler):
        def persistent_id(self, each: Any) -> Any:
            if (said := known(each)) is not None:
                return said
            match each:
                case float() if type(each) is float and each != each:
                    return b"nan"  # whichever its sign is
                case BaseModel():
                    fields = {name: getattr(each, name) for name in type(each).model_fields}
                    more = [part for part in (each.__pydantic_extra__, each.__pydantic_private__) if part]
                    return b"model", type(each).__qualname__.encode(), *(_content(p, known) for p in (fields, *more))
                case np.ndarray() if type(each) is np.ndarray and not each.dtype.hasobject:  # others have masks, units
                    dtype = each.dtype  # "str" of fields, and of types that numpy does not know, is their size alone
                    kind = str(dtype) if dtype.kind == "V" or dtype.isbuiltin == 2 else dtype.str
                    described = f"{kind} {each.shape}".encode()
                    return b"array", described, hashlib.sha256(each.tobytes()).digest()
                case _ if (torch := sys.modules.get("torch")) and isinstance(each, torch.Tensor) and not each.is_sparse:
                    described = f"{each.dtype} {tuple(each.shape)}".encode()
                    flat = each.detach().resolve_conj().resolve_neg().cpu().contiguous().reshape(-1).view(torch.uint8)
                    return b"tensor", described, hashlib.sha256(flat.numpy().data).digest()
                case Set() if alike and type(each) in (set, frozenset):
                    return b"set", *sorted(_content(one, known) for one in each)
            return None

    file = io.BytesIO()
    pickler = Pickler(file, protocol=4)
    pickler.fast = alike
    pickler.dump(value)
    return file.getvalue()
