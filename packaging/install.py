"""`pip install`, by uv where that can be: `python packaging/install.py ARGUMENTS` into the environment of this Python.

uv takes a fraction of pip's time, but does not read pip's files and variables: what pip is set up with is handed on.
uv is put into the environment where it is missing. pip installs where uv cannot be had, where pip is set up with what
is not known here, and where uv fails.
"""

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

PIP = [sys.executable, "-m", "pip"]
VARIABLES = {  # of pip, and what uv calls them
    "index-url": "UV_INDEX_URL", "extra-index-url": "UV_EXTRA_INDEX_URL", "find-links": "UV_FIND_LINKS",
    "trusted-host": "UV_INSECURE_HOST", "cert": "SSL_CERT_FILE", "timeout": "UV_HTTP_TIMEOUT",
    "default-timeout": "UV_HTTP_TIMEOUT",
}  # fmt: skip
HARMLESS = {  # they do not change what is installed
    "cache-dir", "config-file", "disable-pip-version-check", "no-cache-dir", "no-color", "no-input",
    "no-warn-script-location", "progress-bar", "quiet", "require-virtualenv", "retries", "root-user-action", "verbose",
}  # fmt: skip


def options() -> dict[str, str]:
    """What pip is set up with for an installation: a variable counts before a file."""
    listed = subprocess.run([*PIP, "config", "list"], check=True, capture_output=True, text=True).stdout
    settings = [line.partition("=") for line in listed.splitlines()]
    return {
        key.removeprefix(section): str(ast.literal_eval(value))
        for section in ("global.", "install.", ":env:.")
        for key, _, value in settings
        if key.startswith(section)
    }


def by_uv(given: dict[str, str], arguments: list[str]) -> bool:
    """Whether uv installed it."""
    places = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    if not shutil.which("uv", path=places):
        subprocess.run([*PIP, "install", "--quiet", "--disable-pip-version-check", "uv"], check=False)
    if not (uv := shutil.which("uv", path=places)):
        return False
    constraints = [word for file in given.pop("constraint", "").split() for word in ("-c", file)]
    variables = {VARIABLES[name]: ("," if name == "find-links" else " ").join(value.split())
                 for name, value in given.items() if name in VARIABLES}  # fmt: skip
    command = [uv, "pip", "install", "--python", sys.executable, "--index-strategy", "unsafe-best-match"]
    return not subprocess.run([*command, *constraints, *arguments], env=os.environ | variables, check=False).returncode


def main(arguments: list[str]) -> int:
    given = options()
    if given.keys() <= VARIABLES.keys() | HARMLESS | {"constraint"} and by_uv(given, arguments):
        return 0
    print("pip installs it, which takes longer than uv.", flush=True)
    return subprocess.run([*PIP, "install", "--disable-pip-version-check", *arguments], check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
