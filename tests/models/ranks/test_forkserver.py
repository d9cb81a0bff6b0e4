"""The server that ranks are forked from: each is as a new process, and the server is there for the next training."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from steersman.models import Model
from steersman.models.errors import RanksFailed, TooManyRanks
from steersman.models.ranks.launch import launch
from steersman.system.processes import lives

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
    """Each has the environment and the folder of its caller, and random numbers of its own. Also where there were too
    many ranks, of which none failed."""
    found = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        monkeypatch.setenv("VARIABLE", name)
        monkeypatch.chdir(tmp_path / name)
        found.append(around(tmp_path / "ranks"))
        with pytest.raises(TooManyRanks) as refused:
            launch("tests.models.mean_model:train", {"batch": 49}, ranks=2, strategy="ddp", folder=tmp_path / "many")
        assert (refused.value.ranks, refused.value.full) == (2, 1)
    assert [each["variable"] for each in found] == ["one", "two"]
    assert [each["here"] for each in found] == [str(tmp_path / "one"), str(tmp_path / "two")]
    assert found[0]["server"] == found[1]["server"]
    assert found[0]["threads"] == 1, "else a fork may hold a lock of a thread that it has not got"
    assert not {*found[0]["random"]} & {*found[1]["random"]}


def test_a_server_that_has_looked_at_a_gpu_gives_new_processes(tmp_path: Path) -> None:
    """CUDA works in no fork of a process that has begun to use it."""
    job = {"target": "tests.models.mean_model:look_around", "arguments": {}, "strategy": "ddp", "timeout_s": 60}
    (tmp_path / "job.json").write_text(json.dumps(job))
    program = """if True:
        import os, sys, torch
        from steersman.models.ranks import forkserver
        torch.cuda._is_in_bad_fork = lambda: True
        environment = {**os.environ, "RANK": "0", "WORLD_SIZE": "1", "MASTER_PORT": sys.argv[2], "VARIABLE": "here"}
        forkserver._be(forkserver.SpawnRequest(0, sys.argv[1], "", environment, os.getcwd()))
    """
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    subprocess.run([sys.executable, "-c", program, str(tmp_path), str(port)], check=True, timeout=100)
    assert Model.load(tmp_path / "model").card["around"]["variable"] == "here"


def test_what_the_server_imports_starts_no_thread() -> None:
    program = """if True:
        import os, torch
        import steersman.models.ranks.rank
        import steersman.worker.tasks
        torch.optim.SGD([torch.zeros(1)])
        assert len(os.listdir("/proc/self/task")) == 1
    """
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    subprocess.run([sys.executable, "-c", program], check=True, timeout=100, env=environment)


def test_a_server_is_not_kept_when_a_rank_failed_or_it_was_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No rank is left in it, and the next training has a new one."""
    monkeypatch.setenv("VARIABLE", "")
    servers = [around(tmp_path)["server"]]
    for kill in ("rank", "server"):
        with pytest.raises(RanksFailed, match=r"rank 0: .*signal 9"):
            around(tmp_path, kill=kill)
        ranks = [int(file.read_text()) for file in tmp_path.glob("rank*.stderr") if file.stat().st_size]
        assert ranks
        assert not any(lives(process) for process in (servers[-1], *ranks)), "it could write into the next one's folder"
        servers.append(around(tmp_path)["server"])
    assert len(set(servers)) == 3
