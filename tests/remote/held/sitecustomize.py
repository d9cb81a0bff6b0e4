"""An endpoint forks while its other threads may write to its log. The child may then wait for ever for the buffer of
that file, and the endpoint is online and never answers (globus-compute-endpoint 4.19). So nothing is being logged when
a process forks: Python makes the locks of `logging` anew in the child, but not those of the files behind it.
"""

import logging
import os

_held: list[logging.Handler] = []


def _hold() -> None:
    _held[:] = [handler for ref in logging._handlerList if (handler := ref())]  # type: ignore[attr-defined]
    for handler in _held:
        handler.acquire()


def _release() -> None:
    for handler in _held:
        handler.release()


os.register_at_fork(before=_hold, after_in_parent=_release)
