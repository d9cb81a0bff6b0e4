"""Folders of a user: one without a home, in a container, has none."""

import pwd
from pathlib import Path

import pytest

from steersman.executors import site
from steersman.remote import known
from steersman.system import files
from steersman.system.errors import BadInput


@pytest.fixture
def homeless(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)

    def unknown(_: int) -> None:
        raise KeyError

    monkeypatch.setattr(pwd, "getpwuid", unknown)


@pytest.mark.usefixtures("homeless")
def test_one_without_a_home_has_the_sites_that_are_shipped_and_no_endpoints(tmp_path: Path) -> None:
    assert files.home("XDG_CONFIG_HOME", ".config") is None
    assert "laptop" in site.sites()
    with pytest.raises(BadInput):
        known.endpoints()
