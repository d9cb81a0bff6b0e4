"""What a Python has that has perhaps no Steersman: run there as `python -c`, with {"folder": ...} as input."""

import importlib.metadata
import json
import os
import platform
import shutil
import sys
import tempfile
from pathlib import Path

PACKAGES = ("steersman", "parsl", "dill", "globus-compute-sdk", "globus-compute-endpoint", "torch", "openmm")


def versions() -> dict[str, str]:
    installed = {}
    for name in PACKAGES:
        try:
            installed[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            installed[name] = ""
    return installed


def facts(folder: str) -> dict[str, object]:
    """Versions, and of a folder its path, its free bytes and why it cannot be written ("": it can)."""
    path, problem, free = Path(os.path.expandvars(folder)).expanduser(), "", 0
    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            free = shutil.disk_usage(path).free
    except OSError as error:
        problem = str(error.strerror)
    return {
        "python": platform.python_version(), "executable": sys.executable, "host": platform.node(),
        "user": os.environ.get("USER", str(os.getuid())), "folder": str(path),
        "endpoint_python": os.environ.get("ENDPOINT_PYTHON", ""), "unwritable": problem, "free": free,
        **versions(),
    }  # fmt: skip


if __name__ == "__main__":
    print(json.dumps(facts(json.load(sys.stdin)["folder"])))
