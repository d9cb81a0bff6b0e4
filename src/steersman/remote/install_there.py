"""What puts a Steersman at a site that has none: run there as `python -c`, with what install.py gives it as input."""

import base64
import json
import os
import subprocess
import sys
from pathlib import Path


def install(folder: str, wheel: str, extras: str, content: str) -> dict[str, str]:
    """Make an environment in a folder and install a wheel there. Returns: its python, and the problem, or ""."""
    place = Path(os.path.expandvars(folder)).expanduser()
    place.mkdir(parents=True, exist_ok=True)
    file, python = place / wheel, place / "venv" / "bin" / "python"
    file.write_bytes(base64.b64decode(content))
    named = f"{file}[{extras}]" if extras else str(file)
    for command in (
        [sys.executable, "-m", "venv", str(place / "venv")],
        [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--upgrade", named],
    ):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            return {"python": str(python), "problem": " ".join(done.stderr.split())[-500:] or f"{command[0]} failed"}
    return {"python": str(python), "problem": ""}


if __name__ == "__main__":
    print(json.dumps(install(**json.load(sys.stdin))))
