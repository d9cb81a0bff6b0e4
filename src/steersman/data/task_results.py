"""What plans and tasks gave, of plain values and arrays alone: other pickles could run code."""

from __future__ import annotations

import hashlib
import io
import pickle
from typing import Any

from steersman.data.errors import NotDone, NotPlainResult
from steersman.data.history import History
from steersman.journal.calls import RESULT, named
from steersman.journal.errors import RunDamaged
from steersman.system.errors import UnknownName

PLAIN = {  # what numpy's pickles and plain values are made of
    "builtins": ("set", "frozenset", "complex", "bytearray", "slice", "range"),
    "collections": ("OrderedDict",),
    "numpy": ("ndarray", "dtype"),
    "numpy._core.multiarray": ("_reconstruct", "scalar"),
    "numpy._core.numeric": ("_frombuffer",),
}


def result(history: History, name: str) -> Any:
    """See `Run.result`."""
    state, directory = history.state, history.directory
    call = next(iter(named(state.calls, state.asked.get(name, name))), None)
    if call is None and name not in state.asked:
        raise UnknownName("task", name, state.asked)
    if call is None or not call.sha256:
        raise NotDone(name, str(directory.path), call.done.cause if call and call.done else "")
    file = directory.task(call.key) / RESULT
    pickled = directory.read(file, file.stat().st_size)
    if hashlib.sha256(pickled).hexdigest() != call.sha256:
        raise RunDamaged(str(directory.path), f"{file.relative_to(directory.path)} was changed since it was made")

    class Unpickler(pickle.Unpickler):
        def find_class(self, module: str, name: str) -> Any:
            if name in PLAIN.get(module, ()):
                return super().find_class(module, name)
            raise NotPlainResult(f"{module}.{name}", str(file))

    return Unpickler(io.BytesIO(pickled)).load()
