"""A committee of regressors learns a number of each cube, whichever way the cube is turned."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from steersman.models import CosmoFlow, Model, Regressors
from steersman.models.networks.regressors import turned
from steersman.system.errors import BadValue


def heaps(count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Cubes (count, 1, 32, 32, 32) of noise that is larger where the target, from -1 to 1, is."""
    rng = np.random.default_rng(seed)
    targets = rng.uniform(-1, 1, (count, 1))
    cubes = rng.random((count, 1, 32, 32, 32)) * (2 + targets[:, :, None, None, None])
    return cubes.astype(np.float16), targets


@pytest.fixture(scope="module")
def fitted() -> Regressors:
    return Regressors.fit(*heaps(96), members=2, width=2, epochs=12, lr=3e-3)


@pytest.mark.slow
def test_it_learns_and_members_differ(fitted: Regressors) -> None:
    cubes, targets = heaps(40, seed=1)
    found = fitted.estimates(cubes)
    assert found.shape == (40, 2, 1)
    assert np.abs(found.mean(1) - targets).mean() < 0.15  # who says 0 errs by 0.5
    assert found.std(1).min() > 0
    assert fitted.history[-1]["error"] < fitted.history[0]["error"]


@pytest.mark.slow
def test_it_goes_on_from_another_and_is_kept(fitted: Regressors, tmp_path: Path) -> None:
    cubes, targets = heaps(16, seed=2)
    later = Regressors.fit(cubes, targets, members=2, width=2, epochs=1, init=fitted)
    assert later.card["warm_start"]
    assert later.history[0]["error"] < 0.25
    later.save(tmp_path)
    assert np.array_equal(Regressors.load(tmp_path).estimates(cubes), later.estimates(cubes))
    wider = Regressors.fit(cubes, targets, members=2, width=4, epochs=1, init=fitted)
    assert not wider.card["warm_start"]


def test_the_48_ways_to_turn_a_cube_keep_its_numbers_and_neighbours() -> None:
    cube = torch.arange(27.0).reshape(1, 1, 3, 3, 3)
    ways = {tuple(turned(cube).flatten().tolist()) for _ in range(2000)}
    assert len(ways) == 48
    for way in ways:
        assert sorted(way) == cube.flatten().tolist()
        assert way[13] == 13  # the middle stays
        along = {abs(int(way[13 + step]) - 13) for step in (-9, -3, -1, 1, 3, 9)}
        assert along == {1, 3, 9}


def test_a_member_of_full_width_is_cosmoflow() -> None:
    with torch.device("meta"):
        assert Regressors(128, 4, 4, members=2, width=32).parameter_count == 2 * CosmoFlow().parameter_count


def test_what_it_cannot_use_is_refused() -> None:
    cubes, targets = heaps(4)
    wrong = [(cubes[:, 0], targets), (cubes[..., :16], targets), (cubes, targets[:3]), (cubes, targets[:, 0]),
             (cubes * np.float16("nan"), targets), (cubes, 3 * targets), (cubes[:0], targets[:0])]  # fmt: skip
    for samples, wanted in wrong:
        with pytest.raises(BadValue):
            Regressors.fit(samples, wanted, epochs=1)
    with pytest.raises(BadValue):
        Regressors(48, 1, 1)
    for size, outputs, members in ((32, 1, 0), (16, 1, 1), (32, 0, 1)):
        with pytest.raises(BadValue):
            Regressors(size, 1, outputs, members=members)


def test_a_cosmoflow_says_how_it_was_made(tmp_path: Path) -> None:
    CosmoFlow(32, 1, 2, width=3, dropout=0.1).save(tmp_path)
    assert Model.load(tmp_path).config == {"size": 32, "channels": 1, "targets": 2, "width": 3, "dropout": 0.1}
