"""An exchange between ranks -> what it raises when one of them is lost."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from steersman.models.errors import RankLost
from steersman.system.errors import EngineError


@contextmanager
def exchanging(rank: int, size: int) -> Iterator[None]:
    """Raise RankLost in place of torch's error of a call that needs the other ranks."""
    try:
        yield
    except EngineError:
        raise
    except RuntimeError as error:
        raise RankLost(rank, size, str(error).strip().splitlines()[0]) from error
