"""What a report shows: its views with their answers, by the addresses at which the live page asks for them."""

from __future__ import annotations

import base64
import json
import re
from typing import Any

from steersman.journal.run_directory import RunDirectory
from tests.dashboard.serving import unpacked


def kept(directory: RunDirectory) -> dict[str, Any]:
    """Raises: AttributeError: the report has no views."""
    found = re.search(r'<script type="application/json" id="kept">(.*?)</script>', directory.report.read_text())
    return dict(json.loads(found[1]))  # type: ignore[index]


def captions(directory: RunDirectory) -> dict[str, str]:
    """Of the figures in a report, by their names."""
    packed = {name.removeprefix("panel?name="): each for name, each in kept(directory).items() if "panel?" in name}
    return {name: unpacked(base64.b64decode(each))[0]["caption"] for name, each in packed.items()}
