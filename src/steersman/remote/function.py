"""The one function that is registered with the service, by its source: nothing of this module is there but itself."""

from __future__ import annotations

from typing import Any


def steersman(request: dict[str, Any]) -> dict[str, Any]:
    """Run a Python program at the site, with what it reads and prints as plain text.

    Args:
        request: python (its path, "": the endpoint's own), program (its arguments), input, until (seconds since 1970:
            later it is not begun, since whoever asked has given up), within_s (None: as long as it takes).
    Returns: code, out, err (its end) and executable; or late, or missing, or silent.
    """
    import os
    import platform
    import subprocess
    import sys
    import time

    if time.time() > request["until"]:
        return {"late": time.time() - request["until"]}
    python = os.path.expanduser(os.path.expandvars(request["python"])) or sys.executable
    # Credentials of the endpoint are not for what it runs: an ordinary user's endpoint passes on all that it has.
    private = ("GLOBUS_", "FUNCX_", "GC_")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(private)}
    environment["ENDPOINT_PYTHON"] = platform.python_version()
    environment["PATH"] = os.path.dirname(python) + os.pathsep + environment.get("PATH", os.defpath)
    try:
        done = subprocess.run(
            [python, *request["program"]], input=request["input"], capture_output=True, text=True, errors="replace",
            env=environment, timeout=request["within_s"],
        )  # fmt: skip
    except FileNotFoundError:
        return {"missing": python}
    except subprocess.TimeoutExpired:
        return {"silent": request["within_s"]}
    return {"code": done.returncode, "out": done.stdout, "err": done.stderr[-4000:], "executable": python}
