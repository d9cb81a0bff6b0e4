"""What a report shows: its views with their answers, by the addresses at which the live page asks for them."""

from __future__ import annotations

import json
import re
from typing import Any

from steersman.journal.run_directory import RunDirectory


def kept(directory: RunDirectory) -> dict[str, Any]:
    """Raises: AttributeError: the report has no views."""
    found = re.search(r'<script type="application/json" id="kept">(.*?)</script>', directory.report.read_text())
    return dict(json.loads(found[1]))  # type: ignore[index]
