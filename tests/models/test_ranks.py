"""Training on several ranks: each strategy is what it claims to be, and no rank is waited for without end."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.distributed import TCPStore  # type: ignore[attr-defined]

from steersman.models import Model
from steersman.models.block import one_block
from steersman.models.errors import RankLost, RanksFailed, TooManyRanks, UnknownChoice
from steersman.models.parallel import DDP, LocalSGD, begin
from steersman.models.ranks import Place, joined, launch, place
from steersman.models.strategy import Strategy, chosen, used
from tests.models.mean_model import fresh, train, weights_hash

ROOT = Path(__file__).parents[2]
Launch = Callable[..., Model]


@pytest.fixture
def ranks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Launch:
    """Start ranks that call a function of tests/models/mean_model.py."""
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")

    def start(name: str = "train", *, count: int = 2, strategy: str = "ddp", **arguments: Any) -> Model:
        target = f"tests.models.mean_model:{name}"
        return launch(target, arguments, ranks=count, strategy=strategy, folder=tmp_path / "ranks", timeout_s=60)

    return start


def same(model: Model, other: Model) -> bool:
    pairs = zip(model.parameters(), other.parameters(), strict=True)
    return all(torch.equal(mine, theirs) for mine, theirs in pairs)


def largest_difference(model: Model, other: Model) -> float:
    pairs = zip(model.parameters(), other.parameters(), strict=True)
    return max((mine - theirs).abs().max().item() for mine, theirs in pairs)


def test_two_ddp_ranks_equal_one_with_twice_the_batch(ranks: Launch) -> None:
    """Even where the last batch is odd: 95 = 5 x 16 + 15. Gradients differ by float32's summation order, about 1e-7 of
    them; Adam's steps of 0.01 are the gradient over its own size, so 18 of them differ by less than 1e-5."""
    two, one = ranks(batch=8, samples=95), train(batch=16, samples=95)
    assert largest_difference(two, one) < 1e-5
    assert largest_difference(one, fresh()) > 0.01
    assert two.history[-1]["loss"] == pytest.approx(one.history[-1]["loss"], rel=1e-5)


@pytest.mark.parametrize("strategy", ["ddp", "local_sgd", "local_sgd(syncs_per_epoch=3)"])
def test_one_rank_equals_serial_bit_for_bit(strategy: str) -> None:
    """In a group of one as without a group."""
    serial = train(batch=10)
    assert same(train(batch=10, strategy=strategy), serial)
    store = TCPStore("127.0.0.1", 0, None, True, wait_for_workers=False)
    with joined(Place(0, 1, 0, "127.0.0.1", store.port, False), timeout_s=30):
        assert same(train(batch=10, strategy=strategy), serial)


def test_ranks_of_local_sgd_start_alike_and_agree_after_each_sync(ranks: Launch, tmp_path: Path) -> None:
    """Each began with weights of its own; rank 0's count. One synchronisation at the end of each epoch."""
    model = ranks(batch=8, strategy="local_sgd", note=str(tmp_path / "hashes"), rank_seeds=True)
    mine, other = ((tmp_path / f"hashes{rank}").read_text().split() for rank in (0, 1))
    assert mine == other
    assert len(set(mine)) == 3
    assert mine[-1] == weights_hash(model)
    assert not same(model, fresh())


@pytest.mark.parametrize("syncs", [1, 2, 5, 99])
def test_a_synchronisation_is_one_allreduce_of_all_weights(syncs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last step of an epoch always is followed by one; asked for more often than there are steps, after each."""
    counted: list[int] = []
    ranks = begin(fresh(), samples=70, batch=10, seed=0, strategy=Strategy("local_sgd", syncs))
    assert isinstance(ranks, LocalSGD)
    monkeypatch.setattr(ranks, "add_up", lambda numbers: counted.append(numbers.data_ptr() == ranks.block.data_ptr()))
    after = []
    for step in range(1, 8):
        ranks.combine_weights(step, steps=7)
        after.append(len(counted))
    assert after[-1] == min(syncs, 7)
    assert after[-2] == after[-1] - 1
    assert all(counted)


def test_every_parameter_is_a_view_of_one_block_also_after_a_step() -> None:
    """Changing the block changes the network."""
    model = fresh()
    ranks = begin(model, samples=32, batch=8, seed=0, strategy=Strategy("local_sgd"))
    assert isinstance(ranks, LocalSGD)
    optimizer = torch.optim.Adam(model.parameters(), fused=True)
    model.layers(torch.ones(1, 8)).sum().backward()
    optimizer.step()
    ranks.block.fill_(2)
    assert all((parameter == 2).all() for parameter in model.parameters())
    assert ranks.block.is_contiguous()


def test_a_block_keeps_values_and_alignment() -> None:
    """Values as they were; each part on 64 bytes, as torch's own allocations are."""
    tensors = [torch.arange(5.0), torch.ones(3, 4), torch.tensor(7.0)]
    before = [tensor.clone() for tensor in tensors]
    block = one_block(tensors)
    assert all(map(torch.equal, tensors, before))
    assert [(tensor.data_ptr() - block.data_ptr()) % 64 for tensor in tensors] == [0, 0, 0]


@pytest.mark.parametrize("size", [1, 2, 3])
def test_shares_of_ranks_are_the_whole_once(size: int) -> None:
    """Every sample once an epoch, in another order the next time, for both strategies."""
    for name in ("ddp", "local_sgd"):
        epochs = []
        members = [_member(name, rank, size) for rank in range(size)]
        for _ in range(2):
            epochs.append([index for member in members for picked, _ in member.batches() for index in picked.tolist()])
        assert sorted(epochs[0]) == sorted(epochs[1]) == list(range(50))
        assert epochs[0] != epochs[1]


def _member(name: str, rank: int, size: int) -> DDP | LocalSGD:
    """One rank of a group, without the group."""
    kind = DDP if name == "ddp" else LocalSGD
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dist, "is_initialized", lambda: True)
        patch.setattr(dist, "get_rank", lambda: rank)
        patch.setattr(dist, "get_world_size", lambda: size)
        patch.setattr(dist, "broadcast", lambda *_, **__: None)
        patch.setattr(kind, "agree", lambda *_: None)
        return kind(fresh(), 50, 7, 0, Strategy(name))


def test_more_ranks_than_full_batches_are_refused(ranks: Launch) -> None:
    """As in the paper; told by every rank."""
    with pytest.raises(RanksFailed, match="2 ranks for 1 full batches") as caught:
        ranks(batch=60)
    assert len(caught.value.reasons) == 2
    with pytest.raises(TooManyRanks):
        train(batch=97, strategy="ddp")


def test_a_rank_that_dies_ends_the_others_with_a_clear_error(ranks: Launch) -> None:
    """The survivor says that it lost the other; who waited says which was killed."""
    with pytest.raises(RanksFailed, match="rank 1: was ended by signal 9") as caught:
        ranks("train_and_die", batch=8, dying=1)
    assert "rank 0: RankLost: rank 0 of 2 lost the others" in str(caught.value)


def test_a_rank_that_never_arrives_is_not_waited_for_without_end() -> None:
    """The limit is the caller's."""
    with pytest.raises(RankLost, match="within 1 s"), joined(Place(0, 2, 0, "127.0.0.1", 0, True), timeout_s=1):
        pass


def test_ranks_with_different_data_are_told(ranks: Launch) -> None:
    """Else one would wait for steps that the other never takes."""
    with pytest.raises(RanksFailed, match="rank 1 has another network, data"):
        ranks("train_on_less", batch=8)


def test_a_rank_without_memory_is_told_by_both(ranks: Launch) -> None:
    """Its own error is the cause; the other one does not wait for it."""
    with pytest.raises(RanksFailed, match="rank 1: OutOfMemory: out of memory in a batch of 8") as caught:
        ranks("train_too_much", batch=8)
    assert "rank 0: RankLost: rank 0 of 2 lost the others" in str(caught.value)


def test_ranks_of_different_versions_do_not_train(tmp_path: Path) -> None:
    """The second finds another release of Steersman installed; both say what is wrong."""
    other = tmp_path / "other" / "steersman-99.0.dist-info"
    other.mkdir(parents=True)
    (other / "METADATA").write_text("Metadata-Version: 2.1\nName: steersman\nVersion: 99.0\n")
    job = {"target": "tests.models.mean_model:train", "arguments": {"batch": 8}, "strategy": "ddp", "timeout_s": 60}
    (tmp_path / "job.json").write_text(json.dumps(job))
    store = TCPStore("127.0.0.1", 0, None, True, wait_for_workers=False)
    meeting = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(store.port), "TORCHELASTIC_USE_AGENT_STORE": "True"}
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "steersman.models.rank", str(tmp_path)],
            env=os.environ | meeting | {"RANK": str(rank), "WORLD_SIZE": "2", "PYTHONPATH": os.pathsep.join(found)},
        )
        for rank, found in enumerate((paths, [str(tmp_path / "other"), *paths]))
    ]
    assert [process.wait(timeout=90) for process in processes] == [1, 1]
    one, two = ((tmp_path / f"rank{rank}.error").read_text() for rank in (0, 1))
    assert "RanksDiffer: rank 1 has another version (steersman 99.0, torch" in two
    assert "RankLost: rank 0 of 2 lost the others" in one


@pytest.mark.slow
def test_ranks_started_by_mpiexec_train_as_those_of_launch(ranks: Launch, tmp_path: Path) -> None:
    """The packaged mpich; the same weights bit for bit."""
    mpiexec = Path(sys.executable).with_name("mpiexec")
    if not mpiexec.exists():
        pytest.skip("no mpich")
    ours = ranks(batch=8, strategy="local_sgd")
    (tmp_path / "mpi").mkdir()
    job = json.loads((tmp_path / "ranks" / "job.json").read_text())
    (tmp_path / "mpi" / "job.json").write_text(json.dumps(job))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [str(mpiexec), "-n", "2", sys.executable, "-m", "steersman.models.rank", str(tmp_path / "mpi")]
    subprocess.run(command, check=True, timeout=120, env=os.environ | {"MASTER_PORT": str(port)})
    assert same(Model.load(tmp_path / "mpi" / "model"), ours)


@pytest.mark.parametrize(
    ("environment", "found"),
    [
        ({}, Place(0, 1, 0, "127.0.0.1", 29500, True)),
        ({"PMI_RANK": "1", "PMI_SIZE": "4"}, Place(1, 4, 1, "127.0.0.1", 29500, False)),
        (
            {"SLURM_PROCID": "5", "SLURM_NTASKS": "8", "SLURM_LOCALID": "1", "SLURM_JOB_ID": "7",
             "SLURM_STEP_NODELIST": "nid[0012-0013,0020],login"},
            Place(5, 8, 1, "nid0012", 29507, False),
        ),
        (
            {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "MASTER_ADDR": "a", "MASTER_PORT": "1",
             "SLURM_PROCID": "3", "SLURM_NTASKS": "9", "TORCHELASTIC_USE_AGENT_STORE": "True"},
            Place(0, 2, 0, "a", 1, False),
        ),
    ],
    ids=["alone", "mpiexec", "srun", "torchrun in a Slurm job"],
)  # fmt: skip
def test_a_rank_knows_its_place_from_whatever_launched_it(environment: dict[str, str], found: Place) -> None:
    assert place(environment) == found


def test_a_strategy_is_a_word() -> None:
    """One that does not exist is told with those that do; the one around a fit counts where it names none."""
    assert Strategy.parse("local_sgd(4)") == Strategy.parse("local_sgd(syncs_per_epoch=4)") == Strategy("local_sgd", 4)
    for wrong in ("dpd", "local_sgd(0)", "ddp(2)", "zero(1)", "async(lag=1)", ""):
        with pytest.raises(UnknownChoice, match=r"choose from single, ddp, ddp\(lag=N\), zero"):
            Strategy.parse(wrong)
    with used("ddp"):
        assert (chosen(None).name, chosen("single").name) == ("ddp", "single")
    assert chosen(None).name == "single"
