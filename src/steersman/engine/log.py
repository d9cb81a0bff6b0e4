"""What the driver does -> `driver.log` in the run directory, by Python's own logging."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from logging.handlers import RotatingFileHandler
from pathlib import Path

MOST_BYTES = 16 * 2**20  # then the file becomes driver.log.1, and the one before it goes
OURS = "steersman"

log = logging.getLogger(OURS)


@contextlib.contextmanager
def logged(file: Path) -> Iterator[None]:
    """Write our messages from INFO on, warnings of every library, and the traceback of an error that ends the driver.

    `steersman -vv` lowers our level to DEBUG, then every record of the journal is among them.
    """
    handler = RotatingFileHandler(file, maxBytes=MOST_BYTES, backupCount=1, encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)-7s %(name)s: %(message)s"))
    handler.addFilter(lambda record: record.levelno >= logging.WARNING or record.name.split(".")[0] == OURS)
    root = logging.getLogger()
    root.addHandler(handler)
    if log.level == logging.NOTSET:
        log.setLevel(logging.INFO)
    try:
        yield
    except Exception:
        log.exception("the driver ended with an error")
        raise
    finally:
        root.removeHandler(handler)
        handler.close()
