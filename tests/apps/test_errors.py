"""Errors of an app."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("module", "told"), [("openmm", "openmm"), ("PeptideBuilder.PeptideBuilder", "PeptideBuilder")]
)
def test_a_missing_package_names_its_extra(module: str, told: str) -> None:
    """Whoever installed the bare engine learns what to install."""
    code = f"import sys; sys.modules[{module!r}] = None; import steersman.apps.molecular_dynamics"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert told in ended.stderr
    assert "steersman[md]" in ended.stderr
