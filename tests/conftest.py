"""How every test is run: one thread a process, property tests on the same examples; `make soak` draws new ones."""

import os
import signal
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"  # more wait for each other on busy cores
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # or each of hundreds of processes compiles what it imports
sys.dont_write_bytecode = False  # nor does each process of pytest compile all tests
os.environ.pop("STEERSMAN_SITE", None)
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell began the tests in the background, `make test &`
    signal.signal(signal.SIGINT, signal.default_int_handler)  # or what they start would ignore Ctrl-C, too
WITHOUT, WITHOUT_SDK = (str(Path(__file__).with_name(name)) for name in ("without", "without_sdk"))
STATE = tempfile.TemporaryDirectory(prefix="steersman-state-")  # or tests would write the list of one's own runs
os.environ["XDG_STATE_HOME"] = STATE.name
if "JAX_COMPILATION_CACHE_DIR" not in os.environ:  # that of the process that began the tests
    os.environ |= {
        "JAX_COMPILATION_CACHE_DIR": f"{STATE.name}/jax",  # or each of ten processes compiles the same two steps
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }
path = os.environ.get("PYTHONPATH", "")
if WITHOUT_SDK not in path:  # else the process that began the tests put it there
    os.environ["PYTHONPATH"] = os.pathsep.join((WITHOUT_SDK, WITHOUT, path)).rstrip(os.pathsep)

settings.register_profile("same", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("new", deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=1000)
settings.load_profile("new" if os.environ.get("STEERSMAN_SOAK") else "same")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long tests first: at the end short ones fill both processes."""
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)
