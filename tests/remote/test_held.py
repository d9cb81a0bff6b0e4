"""What an endpoint starts is not stopped by what it writes to its log at that moment."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.remote.endpoint import HELD
from tests.waiting import HANGS_S

FORKS = """
import io, logging, os, threading, time

class Slow(io.RawIOBase):
    def writable(self):
        return True

    def write(self, data):
        time.sleep(0.02)  # a log on a busy disk
        return len(data)

def talk():
    while True:
        logging.warning("words")
        time.sleep(0.01)

logging.getLogger().addHandler(logging.StreamHandler(io.TextIOWrapper(io.BufferedWriter(Slow()))))
for _ in range(2):
    threading.Thread(target=talk, daemon=True).start()
for _ in range(10):
    child = os.fork()
    if child == 0:
        logging.shutdown()
        os._exit(0)
    os.waitpid(child, 0)
os._exit(0)
"""


def test_a_child_is_forked_while_nothing_is_being_logged() -> None:
    environment = os.environ | {"PYTHONPATH": HELD}
    done = subprocess.run([sys.executable, "-c", FORKS], env=environment, timeout=HANGS_S, check=False)
    assert done.returncode == 0
