"""Ranks over several nodes: these are two programs of this machine, started as a site's launcher starts them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

from steersman.models.errors import RanksFailed
from steersman.models.node import own
from steersman.models.ranks import Nodes, launch

ROOT = Path(__file__).parents[2]
ON_TWO = """#!/bin/bash
STEERSMAN_NODE=a "$@" & one=$!
STEERSMAN_NODE={second} "$@" || exit 5
wait $one
"""


@pytest.fixture
def launcher(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    file = tmp_path / "launcher"
    file.write_text(ON_TWO.format(second="b"))
    file.chmod(0o755)
    return file


def trained(folder: Path, nodes: Nodes, **arguments: object) -> torch.Tensor:
    made = launch(
        "tests.models.mean_model:train", {"batch": 8, **arguments}, ranks=2, strategy="ddp", folder=folder,
        timeout_s=60, nodes=nodes,
    )  # fmt: skip
    return torch.cat([parameter.flatten() for parameter in made.parameters()])


@pytest.mark.slow
def test_ranks_on_two_nodes_are_the_ranks_of_one(launcher: Path, tmp_path: Path) -> None:
    """The same weights bit for bit."""
    both = trained(tmp_path / "two", Nodes(2, str(launcher)))
    assert torch.equal(both, trained(tmp_path / "one", Nodes()))


def test_a_launcher_that_fails_is_told_with_its_words(launcher: Path, tmp_path: Path) -> None:
    launcher.write_text("#!/bin/sh\necho no such partition >&2\nexit 3\n")
    with pytest.raises(RanksFailed, match="launcher: exit code 3, no such partition"):
        trained(tmp_path / "ranks", Nodes(2, str(launcher)))


@pytest.mark.slow
def test_a_launcher_that_starts_both_on_one_node_is_told(launcher: Path, tmp_path: Path) -> None:
    launcher.write_text(ON_TWO.format(second="a"))
    with pytest.raises(RanksFailed, match="starts more than one program on a"):
        trained(tmp_path / "ranks", Nodes(2, str(launcher)))


def test_ranks_of_a_node_have_a_gpu_each_in_turn() -> None:
    assert [own(rank, ["0.0", "0.1"])["ZE_AFFINITY_MASK"] for rank in range(3)] == ["0.0", "0.1", "0.0"]
    assert own(1, []) == {"LOCAL_RANK": "1"}
