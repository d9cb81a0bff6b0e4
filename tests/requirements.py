"""pyproject.toml -> what pip installs to test the oldest versions that it allows.

Torch is left out: PyPI has its builds with CUDA only. The Makefile adds the tested build where it can.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

TOOLS = ("hypothesis", "pytest", "pytest-timeout")

project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
extras = project["optional-dependencies"]
optional = [each for name in ("md", "data", "analysis") for each in extras[name]]
product = [each for each in (*project["dependencies"], *optional) if not each.startswith("torch>")]
product = [re.sub(r">=([^,;]*)[^;]*", r"==\1", each) for each in product]
print("\n".join([*product, *(each for each in extras["dev"] if each.startswith(TOOLS))]))
