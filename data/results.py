"""What plans and tasks gave: pickles, loaded where the run is one's own, and the same as when they were made."""

from __future__ import annotations

import hashlib
import pickle
import sys
from pathlib import Path
from typing import Any

from steersman.journal.calls import RESULT
from steersman.journal.errors import RunDamaged
from steersman.journal.history import History
from steersman.stages import trust
from steersman.system.errors import UnknownName


def result(history: History, name: str) -> Any:
    """See `Run.result`."""
    done = [call for call in history.state.calls.values() if call.sha256]
    found = [call for call in done if call.called.task == name or call.key.startswith(name)]
    if not found:
        raise UnknownName("task that is done", name, {call.called.task for call in done})
    directory = history.directory
    trust.load(directory.workflow)  # its classes may be in the result, under the name of the module
    file = directory.task(found[-1].key) / RESULT
    pickled = directory.read(file, sys.maxsize)
    if hashlib.sha256(pickled).hexdigest() != found[-1].sha256:
        raise RunDamaged(str(directory.path), f"{Path(*file.parts[-3:])} was changed since it was made")
    return pickle.loads(pickled)
