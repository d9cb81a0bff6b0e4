"""What plans and tasks gave, of plain values and arrays alone: other pickles could run code."""

from __future__ import annotations

import hashlib
import io
import pickle
from typing import Any

from steersman.data.errors import NotDone, NotPlainResult
from steersman.data.history import History
from steersman.journal.calls import RESULT
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
    calls, directory = history.state.calls.values(), history.directory
    named = [call for call in calls if call.called.task == name or call.key.startswith(name)]
    if not named:
        raise UnknownName("task", name, {call.called.task for call in calls})
    found = [call for call in named if call.sha256]
    if not found:
        raise NotDone(name, str(directory.path))
    file = directory.task(found[-1].key) / RESULT
    pickled = directory.read(file, file.stat().st_size)
    if hashlib.sha256(pickled).hexdigest() != found[-1].sha256:
        raise RunDamaged(str(directory.path), f"{file.relative_to(directory.path)} was changed since it was made")

    class Unpickler(pickle.Unpickler):
        def find_class(self, module: str, name: str) -> Any:
            if name in PLAIN.get(module, ()):
                return super().find_class(module, name)
            raise NotPlainResult(f"{module}.{name}", str(file))

    return Unpickler(io.BytesIO(pickled)).load()
