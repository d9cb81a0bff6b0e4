"""Ranks over several nodes: these are two programs of this machine, started as a site's launcher starts them."""

from __future__ import annotations

import re
import socket
from pathlib import Path
from typing import Any

import psutil
import pytest
from torch.distributed import TCPStore  # type: ignore[attr-defined]

from steersman.models import Model
from steersman.models.errors import RanksFailed
from steersman.models.ranks.launch import Membership, Nodes, joined, launch
from steersman.models.ranks.node import own
from steersman.models.ranks.parameter_server import Async
from steersman.models.ranks.strategy import Strategy
from tests.models.conftest import BATCH, SAMPLES
from tests.models.mean_model import fresh

pytestmark = pytest.mark.slow
ON_TWO = """#!/bin/bash
STEERSMAN_NODE=a "$@" & one=$!
STEERSMAN_NODE={second} "$@" || exit 5
wait $one
"""


@pytest.fixture
def launcher(tmp_path: Path, found_by_ranks: None) -> Path:
    file = tmp_path / "launcher"
    file.write_text(ON_TWO.format(second="b"))
    file.chmod(0o755)
    return file


@pytest.fixture
def address() -> str:
    """One of this machine that others could reach."""
    own = [each.address for ours in psutil.net_if_addrs().values() for each in ours if each.family == socket.AF_INET]
    return next((each for each in own if not each.startswith("127.")), "127.0.0.1")


def trained(folder: Path, nodes: Nodes, *words: str) -> Model:
    arguments = {"words": words, "batch": BATCH, "samples": SAMPLES}
    target = "tests.models.mean_model:train_each"
    return launch(target, arguments, ranks=2, strategy="ddp", folder=folder, timeout_s=60, nodes=nodes)


def test_ranks_on_two_nodes_are_the_ranks_of_one(
    launcher: Path, address: str, two: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same weights bit for bit; hogwild, whose ranks share memory, is refused. Their scratch folders are gone."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setenv("SCRATCH", str(scratch))
    nodes = Nodes(2, str(launcher), address, scratch="$SCRATCH")
    card = trained(tmp_path / "two", nodes, "ddp", "async(max_staleness=3)", "hogwild").card
    assert card["ddp"]["weights"] == two["ddp"]["weights"]
    assert sum(card["async(max_staleness=3)"]["told"]["staleness"]) == 3 * (7 + 6)
    assert "rank 1 has" in card["hogwild"]["refused"]
    assert not list(scratch.iterdir())


def test_a_parameter_server_is_on_the_network_on_which_the_ranks_have_met(address: str) -> None:
    """Not on loopback, which other nodes do not reach; alone it is."""
    for met in (address, "127.0.0.1"):
        store = TCPStore(met, 0, None, True, wait_for_workers=False)
        with joined(Membership(0, 1, 0, met, store.port, False), timeout_s=30):
            ranks = Async(fresh(), SAMPLES, BATCH, 0, Strategy.parse("async"))
            assert ranks._home is not None
            assert f"@{met}:" in ranks._home.url
            ranks.close()


@pytest.mark.parametrize(
    ("folder", "problem"),
    [("/nowhere/$SET", "not all of its variables are set"), ("/dev/null/frames", "Not a directory")],
)
def test_a_scratch_folder_that_cannot_be_is_told(folder: str, problem: str, tmp_path: Path) -> None:
    """Before any rank starts."""
    with pytest.raises(RanksFailed, match=rf"StagingFailed.*{re.escape(folder)}.*{problem}"):
        trained(tmp_path / "ranks", Nodes(scratch=folder), "ddp")


def test_a_launcher_that_fails_is_told_with_its_words(launcher: Path, tmp_path: Path) -> None:
    launcher.write_text("#!/bin/sh\necho no such partition >&2\nexit 3\n")
    with pytest.raises(RanksFailed, match=r"code 3.*partition"):
        trained(tmp_path / "ranks", Nodes(2, str(launcher)), "ddp")


def test_a_launcher_that_starts_both_on_one_node_is_told(launcher: Path, tmp_path: Path) -> None:
    launcher.write_text(ON_TWO.format(second="a"))
    with pytest.raises(RanksFailed, match="more than one"):
        trained(tmp_path / "ranks", Nodes(2, str(launcher)), "ddp")


def test_ranks_of_a_node_have_a_gpu_each_in_turn() -> None:
    assert [own(rank, ["0.0", "0.1"])["ZE_AFFINITY_MASK"] for rank in range(3)] == ["0.0", "0.1", "0.0"]
    assert own(1, []) == {"LOCAL_RANK": "1"}
