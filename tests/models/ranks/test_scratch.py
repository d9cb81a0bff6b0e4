"""A node's ranks have a folder on its own disk; what a dead process left there is removed, what lives is not.

tests/engine/test_training_ranks.py kills a training worker that has one.
"""

from __future__ import annotations

from pathlib import Path

from steersman.models.ranks.node import scratch


def test_a_folder_goes_with_its_ranks_and_takes_those_of_the_dead_along(tmp_path: Path) -> None:
    """A lock says who lives. What another node, walkers or anybody else keep on the disk stays."""
    others = [tmp_path / name for name in ("steersman-ranks-b-1", "steersman-walker0001-1", "mine")]
    left = tmp_path / "steersman-ranks-a-0"
    for folder in (*others, left):
        folder.mkdir()
        (folder / "frames").touch()
    with scratch(str(tmp_path), "a") as first, scratch(str(tmp_path), "a") as second:
        alive = [Path(told["STEERSMAN_SCRATCH"]) for told in (first, second)]
        assert not left.exists()
        assert sorted(tmp_path.iterdir()) == sorted([*others, *alive])
    assert sorted(tmp_path.iterdir()) == sorted(others)
