"""A training that was interrupted goes on as if it had not been."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from steersman.models import CVAE, Model, Schedule
from steersman.models.errors import RanksFailed
from steersman.models.fitting import checkpoint
from steersman.models.fitting.checkpoint import going_on, kept_in, newest
from steersman.models.fitting.fit import fit, seeded
from steersman.models.networks.contact_data import checked_maps
from steersman.models.networks.cvae import elbo
from steersman.models.ranks.launch import launch
from steersman.system.errors import DamagedFile
from tests.models.mean_model import fresh, rows, squared, train

Chains = Callable[..., np.ndarray]


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [
        {"optimizer": "adam"},
        {"optimizer": "sgd", "schedule": Schedule(warmup_epochs=3.0, lr_scale=2.0)},
        {"optimizer": "larc", "schedule": Schedule(double_every=2, decay_epochs=7.0)},
        {"optimizer": "adam", "strategy": "ddp(lag=1)"},
        {"optimizer": "adam", "strategy": "hogwild"},
        {"optimizer": "adam", "strategy": "async(max_staleness=0)"},
        {"optimizer": "adam", "precision": "fp16"},
        {"optimizer": "adam", "precision": "fp16", "strategy": "async(max_staleness=0)"},
    ],
    ids=lambda settings: " ".join(map(str, settings.values())),
)
def test_a_resumed_training_continues_bit_for_bit(chains: Chains, tmp_path: Path, settings: dict[str, Any]) -> None:
    """A network that draws noise: optimizer, schedule, random state, order of the data and loss scale are all there."""
    maps = checked_maps(chains(100, 6))

    def trained(epochs: int, folder: Path | None) -> CVAE:
        with seeded(0):
            model = CVAE(6, channels=4, hidden=8)
        return fit(model, maps, elbo, epochs=epochs, batch=20, lr=1e-2, checkpoint=folder, **settings)

    trained(3, tmp_path)
    resumed, whole = trained(5, tmp_path), trained(5, None)
    assert all(map(torch.equal, resumed.state_dict().values(), whole.state_dict().values()))
    assert [record["loss"] for record in resumed.history] == [record["loss"] for record in whole.history]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["epoch-000004", "epoch-000005"]


def test_a_checkpoint_that_was_not_finished_does_not_count(tmp_path: Path) -> None:
    """Its .metadata is written last; the one before it is used. Its model can be loaded by itself."""
    fit(fresh(), rows(), squared, epochs=2, batch=16, lr=0.01, checkpoint=tmp_path)
    (tmp_path / "epoch-000002" / ".metadata").unlink()
    assert newest(tmp_path) == tmp_path / "epoch-000001"
    again = fit(fresh(), rows(), squared, epochs=2, batch=16, lr=0.01, checkpoint=tmp_path)
    assert newest(tmp_path) == tmp_path / "epoch-000002"
    assert all(map(torch.equal, again.parameters(), train(batch=16, epochs=2).parameters()))


@pytest.mark.parametrize(
    "change", [{"seed": 1}, {"optimizer": "sgd"}, {"lr": 0.02}, {"precision": "bf16"}, {"data": 2}]
)
def test_another_training_s_checkpoint_is_told(tmp_path: Path, change: dict[str, Any]) -> None:
    """Before anything is changed."""
    settings: dict[str, Any] = {"epochs": 1, "batch": 16, "lr": 0.01, "checkpoint": tmp_path}
    fit(fresh(), rows(), squared, **settings)
    other = rows() * change.pop("data", 1)
    with pytest.raises(DamagedFile, match="checkpoint of"):
        fit(fresh(), other, squared, **settings | change)


def test_fits_that_name_no_folder_keep_theirs_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the order of their calls; called again, as by the next worker, each goes on from its own. Where the time does
    not allow more, each process keeps its first epoch only."""
    monkeypatch.setattr(checkpoint, "SPARING", 1e9)
    reported: list[float] = []

    def train_two() -> None:
        for seed in (0, 1):
            fit(fresh(seed), rows(), squared, epochs=3, batch=16, lr=0.01, report=lambda r: reported.append(r["loss"]))

    for _ in range(2):
        with kept_in(tmp_path):
            train_two()
    kept = sorted(str(path.parent.relative_to(tmp_path)) for path in tmp_path.glob("*/*/.metadata"))
    assert kept == [f"fit-{number}/epoch-00000{epoch}" for number in (0, 1) for epoch in (1, 2)]
    train_two()
    whole = reported[10:]
    assert reported[:10] == whole + whole[1:3] + whole[4:6]


def test_ranks_that_fail_go_on_as_long_as_they_come_further(tmp_path: Path) -> None:
    """Three tries: two leave a checkpoint each, the third nothing new."""
    tries: list[int] = []

    def train() -> Model:
        tries.append(len(tries))
        if len(tries) < 3:
            made = tmp_path / "fit-0" / f"epoch-00000{len(tries)}"
            made.mkdir(parents=True)
            (made / ".metadata").touch()
        raise RanksFailed(2, ("rank 1: was ended by signal 9",))

    with pytest.raises(RanksFailed):
        going_on(tmp_path, train)
    assert len(tries) == 3


@pytest.mark.slow
def test_ranks_that_were_killed_go_on_as_fewer(tmp_path: Path, found_by_ranks: None) -> None:
    """Four ranks of zero with batches of 8, one of them killed in the fourth epoch; then two with batches of 16: as one
    with 32 that was left in peace, to the rounding of sums, see test_two_ddp_ranks_equal_one_with_twice_the_batch. The
    survivors say that they lost the other; who waited says which was killed."""
    target = "tests.models.mean_model:train_with_checkpoints"
    job = {"epochs": 6, "folder": str(tmp_path / "checkpoints")}
    common: dict[str, Any] = {"strategy": "zero", "folder": tmp_path / "ranks", "timeout_s": 60}
    with pytest.raises(RanksFailed, match=r"rank 3: .*signal 9") as caught:
        launch(target, job | {"batch": 8, "dying": 3}, ranks=4, **common)
    for rank in range(3):
        assert f"rank {rank}: RankLost" in str(caught.value)
    assert newest(tmp_path / "checkpoints") == tmp_path / "checkpoints" / "epoch-000003"
    resumed, whole = launch(target, job | {"batch": 16}, ranks=2, **common), train(batch=32, epochs=6)
    assert len(resumed.history) == 6
    for mine, other in zip(resumed.parameters(), whole.parameters(), strict=True):
        assert torch.allclose(mine, other, rtol=0, atol=1e-5)
