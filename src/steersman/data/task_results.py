"""What plans and tasks gave, of plain values and arrays alone: other pickles could run code."""

from __future__ import annotations

import hashlib
import io
import pickle
import re
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from numpy._core import numeric

from steersman.data.history import History
from steersman.journal.calls import RESULT, named
from steersman.journal.errors import run_damaged
from steersman.system.errors import BadInput, EngineError, UnknownName

PLAIN = {("builtins", "complex"): complex, ("builtins", "slice"): slice, ("builtins", "range"): range}
PLAIN |= {("collections", "OrderedDict"): OrderedDict}
TYPES = re.compile(r"[biufcSU]\d+")  # of arrays: others hold addresses, or are described by what is pickled with them


def result(history: History, name: str) -> Any:
    """See `Run.result`."""
    state, directory = history.state, history.directory
    asked = [state.calls.get(state.asked[name])] if name in state.asked else named(state.calls, name)
    call = next(iter(asked), None)
    if call is None and name not in state.asked:
        raise UnknownName("task", name, state.asked)
    if call is None or not call.sha256:
        how = f"failed: {call.done.cause}" if call and call.done else "is not done"
        raise BadInput(
            f"{name} {how}; `steersman resume {directory.path}` goes on with a run that has ended without it"
        )
    file = directory.task(call.key) / RESULT
    pickled = directory.read(file, file.stat().st_size)
    if hashlib.sha256(pickled).hexdigest() != call.sha256:
        raise run_damaged(directory.path, f"{file.relative_to(directory.path)} was changed since it was made")
    try:
        return _Unpickler(pickled, str(file)).load()
    except EngineError:
        raise
    except Exception as error:  # whatever a pickle makes of bytes that pickle did not write
        raise _not_plain(f"value that cannot be read, {type(error).__name__}", file) from None


def _not_plain(what: str, file: object) -> BadInput:
    return BadInput(f"its result holds a {what}; where the run is yours, load it with pickle: {file}")


class _Unpickler(pickle._Unpickler):
    """Knows how numpy pickles arrays and numbers, and checks it: numpy takes any bytes for addresses of objects."""

    def __init__(self, pickled: bytes, file: str) -> None:
        super().__init__(io.BytesIO(pickled))
        self._path = file
        self._numpy: dict[str, Any] = {
            "ndarray": "ndarray", "dtype": self._type, "_reconstruct": self._reconstruct, "scalar": self._scalar,
            "_frombuffer": self._from_buffer,
        }  # fmt: skip

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("builtins", "bytearray"):
            return lambda content: bytearray(self._expect(content, type(content) is bytes))
        if (module, name) in PLAIN:
            return PLAIN[module, name]
        if module in ("numpy", "numpy._core.multiarray", "numpy._core.numeric") and name in self._numpy:
            return self._numpy[name]
        raise _not_plain(f"{module}.{name}", self._path)

    def _expect(self, value: Any, plain: bool) -> Any:
        if not plain:
            raise _not_plain(f"{type(value).__name__} {value!r:.40}", self._path)
        return value

    def _type(self, name: Any, align: bool, copy: bool) -> Any:
        self._expect(name, isinstance(name, str) and bool(TYPES.fullmatch(name)))
        return np.dtype(name, copy=True)  # which BUILD gives its byte order

    def _reconstruct(self, kind: Any, shape: Any, of: Any) -> np.ndarray:
        self._expect((kind, shape, of), (kind, shape, of) == ("ndarray", (0,), b"b"))
        return np.ndarray((0,), "b")

    def _scalar(self, of: Any, content: Any) -> Any:
        self._expect(content, isinstance(of, np.dtype) and type(content) is bytes and len(content) == of.itemsize)
        return np.ndarray((), of, content)[()]

    def _from_buffer(self, content: Any, of: Any, *shape: Any) -> Any:
        return numeric._frombuffer(content, self._expect(of, isinstance(of, np.dtype)), *shape)  # type: ignore[attr-defined]

    def _build(self) -> None:
        state, target = self.stack.pop(), self.stack[-1]  # type: ignore[attr-defined]
        if isinstance(target, np.dtype):
            orders = target, target.newbyteorder("<"), target.newbyteorder(">")
            self._expect(state, any(state == each.__reduce__()[2] for each in orders))
        else:
            self._expect(target, type(target) is np.ndarray)
            _, _, of, _, content = state
            self._expect(of, isinstance(of, np.dtype) and type(content) is bytes)
        target.__setstate__(state)

    dispatch: ClassVar[dict[int, Callable[[Any], None]]] = {**pickle._Unpickler.dispatch, pickle.BUILD[0]: _build}
