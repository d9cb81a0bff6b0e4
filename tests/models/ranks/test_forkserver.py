"""The server that ranks are forked from: each is as a new process, and the server is there for the next training."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from steersman.models.errors import RanksFailed
from steersman.models.ranks.launch import launch
from steersman.system.processes import lives
from tests.bus.conftest import until

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("found_by_ranks")]


def around(folder: Path, **arguments: Any) -> dict[str, Any]:
    """What rank 0 of two finds."""
    target = "tests.models.mean_model:look_around"
    found: dict[str, Any] = launch(target, arguments, ranks=2, strategy="ddp", folder=folder, timeout_s=60).card[
        "around"
    ]
    return found


def test_ranks_of_the_next_training_are_forked_by_the_same_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each has the environment and the folder of its caller, and random numbers of its own."""
    found = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        monkeypatch.setenv("VARIABLE", name)
        monkeypatch.chdir(tmp_path / name)
        found.append(around(tmp_path / "ranks"))
    assert [each["variable"] for each in found] == ["one", "two"]
    assert [each["here"] for each in found] == [str(tmp_path / "one"), str(tmp_path / "two")]
    assert found[0]["server"] == found[1]["server"]
    assert found[0]["threads"] == 1, "else a fork may hold a lock of a thread that it has not got"
    assert not {*found[0]["random"]} & {*found[1]["random"]}


def test_a_server_is_not_kept_when_a_rank_failed_or_it_was_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No rank is left in it, and the next training has a new one."""
    monkeypatch.setenv("VARIABLE", "")
    servers = [around(tmp_path)["server"]]
    for kill in ("rank", "server"):
        with pytest.raises(RanksFailed, match="rank 0: was ended by signal 9"):
            around(tmp_path, kill=kill)
        until(lambda: not lives(servers[-1]), seconds=30)
        servers.append(around(tmp_path)["server"])
    assert len(set(servers)) == 3
