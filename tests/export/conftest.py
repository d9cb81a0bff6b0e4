"""The run of tests/data."""

from tests.data.conftest import molecule, run, simulated  # noqa: F401
