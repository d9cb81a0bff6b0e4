"""This Steersman -> a wheel of it, and the steps that put it at a site."""

from __future__ import annotations

import base64
import importlib.metadata
import inspect
import io
import json
import zipfile
from pathlib import Path
from typing import Any

import steersman
from steersman.remote import incoming, install_there
from steersman.remote.site import RemoteSite
from steersman.system.errors import EngineError

WITHIN_S = 1800.0
EXTRAS = "md"  # what the shipped workflows need


def wheel() -> tuple[str, bytes]:
    """The installed Steersman as a wheel: file name and content."""
    about = importlib.metadata.distribution("steersman")
    stem = f"steersman-{about.version}"
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        names = []

        def add(name: str, content: str | bytes) -> None:
            archive.writestr(name, content)
            names.append(name)

        top = Path(steersman.__path__[0])
        for path in sorted(_files(top)):
            add(f"steersman/{path.relative_to(top)}", path.read_bytes())
        for name in ("METADATA", "entry_points.txt"):
            add(f"{stem}.dist-info/{name}", about.read_text(name) or "")
        add(
            f"{stem}.dist-info/WHEEL",
            "Wheel-Version: 1.0\nGenerator: steersman\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        )
        record = f"{stem}.dist-info/RECORD"
        add(record, "".join(f"{name},,\n" for name in [*names, record]))
    return f"{stem}-py3-none-any.whl", packed.getvalue()


def steps(folder: str, wheel_name: str) -> list[str]:
    """Command lines for the site."""
    return [f"python3 -m venv {folder}/venv", f"{folder}/venv/bin/pip install '{wheel_name}[{EXTRAS}]'"]


def install(site: RemoteSite) -> dict[str, Any]:
    """Put this Steersman into an environment of its own in the folder of the runs. Returns: see install_there.py.

    Raises: EngineError: in pip's words. BadInput: it is too large. ServiceSilent.
    """
    name, content = wheel()
    asked = {"folder": site.endpoint.folder, "wheel": name, "extras": EXTRAS}
    given = json.dumps({**asked, "content": base64.b64encode(content).decode()})
    answer = incoming.installed(site.run_source(inspect.getsource(install_there), given, WITHIN_S))
    if answer["problem"]:
        raise EngineError(f"at {site.endpoint.name}: {answer['problem']}")
    return dict(answer)


def _files(top: Path) -> list[Path]:
    """Python files and data of the package; its rooms may be links."""
    return [
        path for room in top.iterdir() for path in ([room] if room.is_file() else room.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    ]  # fmt: skip
