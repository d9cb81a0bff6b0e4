"""Training on several ranks: each strategy is what it claims to be, and no rank is waited for without end."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.distributed import TCPStore  # type: ignore[attr-defined]

from steersman.models import Model
from steersman.models.errors import RankLost
from steersman.models.ranks.begin import begin
from steersman.models.ranks.block import one_block
from steersman.models.ranks.ddp import DDP
from steersman.models.ranks.launch import Membership, joined, place
from steersman.models.ranks.local_sgd import LocalSGD
from steersman.models.ranks.strategy import Strategy, chosen, used
from steersman.system.errors import UnknownName
from steersman.system.processes import lives
from tests.models.conftest import BATCH, SAMPLES
from tests.models.faults import FAULTS, OTHER_VERSION, SHARING
from tests.models.mean_model import flat, fresh, train
from tests.sites import slurm
from tests.waiting import until

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def told(found_by_ranks: None, tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[str, str]]:
    """What each of two ranks was told of each fault of tests/models/faults.py; one start of ranks for all."""
    meetings = [TCPStore("127.0.0.1", 0, None, True, wait_for_workers=False) for _ in FAULTS]
    file, ports = tmp_path_factory.mktemp("faults") / "rank", [str(meeting.port) for meeting in meetings]
    subprocess.run([sys.executable, "-m", "tests.models.faults", str(file), *ports], check=True, timeout=100)
    one, two = (json.loads(Path(f"{file}{rank}").read_text()) for rank in (0, 1))
    return {fault: (one[fault], two[fault]) for fault in FAULTS}


def same(model: Model, other: Model) -> bool:
    return flat(model) == flat(other)


@pytest.mark.parametrize("strategy", ["ddp", "local_sgd", "local_sgd(syncs_per_epoch=3)"])
def test_one_rank_equals_serial_bit_for_bit(strategy: str) -> None:
    """In a group of one as without a group."""
    serial = train(batch=10)
    assert same(train(batch=10, strategy=strategy), serial)
    assert same(train(batch=97, strategy=strategy), train(batch=97)), "one rank does without a full batch"
    store = TCPStore("127.0.0.1", 0, None, True, wait_for_workers=False)
    with joined(Membership(0, 1, 0, "127.0.0.1", store.port, False), timeout_s=30):
        assert same(train(batch=10, strategy=strategy), serial)


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
    ranks = begin(model, samples=32, batch=8, seed=0, strategy=Strategy.parse("local_sgd"))
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
        return kind(fresh(), 50, 7, 0, Strategy.parse(name))


def test_more_ranks_than_full_batches_are_refused(told: dict[str, tuple[str, str]]) -> None:
    """As in the paper; told by every rank, before the batch has grown."""
    for fault in ("too few batches", "batches that grow"):
        one, two = told[fault]
        assert one == two
        assert one.startswith("TooManyRanks: 2 ranks for 1 ")


@pytest.mark.parametrize("strategy", SHARING)
def test_a_sample_that_is_not_a_number_ends_all_ranks_with_the_same_error(
    strategy: str, told: dict[str, tuple[str, str]]
) -> None:
    """Though only one of them met it."""
    one, two = told[f"NaN in {strategy}"]
    assert one == two
    assert "nan in epoch" in one


@pytest.mark.parametrize("strategy", SHARING)
def test_what_goes_wrong_on_one_rank_is_told_by_all(strategy: str, told: dict[str, tuple[str, str]]) -> None:
    """Frames that it cannot use, or a mistake of the train function: those who wait for it say why they do no more."""
    for fault, words in (("unusable", "BadValue: shape = (4096, 9): found NaN"), ("mistake", "KeyError: ")):
        one, two = told[f"{fault} in {strategy}"]
        assert two.startswith(words)
        assert one.startswith(f"RankLost: rank 0 of 2 lost the others (rank 1: {words}")


def test_a_rank_that_never_arrives_is_not_waited_for_without_end() -> None:
    """The limit is the caller's."""
    with pytest.raises(RankLost, match="within 1 s"), joined(Membership(0, 2, 0, "127.0.0.1", 0, True), timeout_s=1):
        pass


def test_ranks_without_data_or_with_different_data_are_told(told: dict[str, tuple[str, str]]) -> None:
    """Else one would wait for steps that the other never takes."""
    for fault, words in (
        ("other data", "rank 1 has another network, data"),
        ("other rows", "rank 1 has another sample of the data"),
        ("no data", "nothing to train on"),
    ):
        one, two = told[fault]
        assert one == two
        assert words in one


def test_a_rank_without_memory_is_told_by_both(told: dict[str, tuple[str, str]]) -> None:
    """Its own error is the cause; the other one does not wait for it."""
    one, two = told["no memory"]
    assert "batch of 8" in two
    assert one.startswith(f"RankLost: rank 0 of 2 lost the others (rank 1: {two}")


def test_ranks_of_different_versions_do_not_train(told: dict[str, tuple[str, str]]) -> None:
    """The second has another release of Steersman; both say what is wrong."""
    one, two = told[OTHER_VERSION]
    assert two.startswith("EngineError: rank 1 has another version (steersman 99.1)")
    assert two in one


def test_ranks_end_with_the_process_that_started_them(found_by_ranks: None, tmp_path: Path) -> None:
    """It is killed in the middle, and can tell them nothing."""
    program = """if True:
        import sys
        from pathlib import Path
        from steersman.models.ranks.launch import launch
        target, folder = "tests.models.mean_model:train_without_parent", sys.argv[1]
        launch(target, {"folder": folder}, ranks=2, strategy="ddp", folder=Path(folder))
    """
    ended = subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=False, timeout=100)
    assert ended.returncode == -signal.SIGKILL
    pids = [int((tmp_path / f"pid{rank}").read_text()) for rank in (0, 1)]
    until(lambda: not any(map(lives, pids)))


LAUNCHERS = {  # the packaged mpich's, torch's own, and that of a Slurm of two nodes, each with a network of its own
    "mpiexec": ["mpiexec", "-n", "2", sys.executable],
    "torchrun": ["torchrun", "--standalone", "--nproc-per-node=2"],
    "srun": [sys.executable, "-m", "tests.sites.slurm", "2", "srun", "--nodes=2", "--ntasks=2", sys.executable],
}


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_ranks_started_by_others_train_as_those_of_launch(
    launcher: str, two: dict[str, Any], tmp_path: Path, found_by_ranks: None
) -> None:
    """The same weights bit for bit; gradients of `async` cross the network."""
    if launcher == "srun" and (why := slurm.missing()):
        pytest.skip(f"no real Slurm can be had here: {why}")
    words = ["local_sgd", "async(max_staleness=3)", "hogwild"]
    arguments = {"words": words, "batch": BATCH, "samples": SAMPLES}
    job = {"target": "tests.models.mean_model:train_each", "arguments": arguments, "strategy": "ddp", "timeout_s": 60}
    (tmp_path / "job.json").write_text(json.dumps(job))
    with socket.create_server(("127.0.0.1", 0)) as free:
        environment = os.environ | {"MASTER_PORT": str(free.getsockname()[1])}
    environment["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), environment["PATH"]])
    if not shutil.which(LAUNCHERS[launcher][0], path=environment["PATH"]):
        pytest.skip(f"no {launcher}")
    command = [*LAUNCHERS[launcher], "-m", "steersman.models.ranks.rank", str(tmp_path)]
    subprocess.run(command, check=True, timeout=120, env=environment)
    card = Model.load(tmp_path / "model").card
    assert card["local_sgd"]["weights"] == two["local_sgd"]["weights"]
    assert sum(card["async(max_staleness=3)"]["told"]["staleness"]) == 3 * (7 + 6)
    assert ("refused" in card["hogwild"]) == (launcher == "srun")


@pytest.mark.parametrize(
    ("environment", "found"),
    [
        ({}, Membership(0, 1, 0, "127.0.0.1", 29500, True)),
        ({"PMI_RANK": "1", "PMI_SIZE": "4"}, Membership(1, 4, 1, "127.0.0.1", 29500, False)),
        (
            {"SLURM_PROCID": "5", "SLURM_NTASKS": "8", "SLURM_LOCALID": "1", "SLURM_JOB_ID": "7",
             "SLURM_STEP_NODELIST": "nid[0012-0013,0020],login"},
            Membership(5, 8, 1, "nid0012", 29507, False),
        ),
        (
            {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "MASTER_ADDR": "a", "MASTER_PORT": "1",
             "SLURM_PROCID": "3", "SLURM_NTASKS": "9", "TORCHELASTIC_USE_AGENT_STORE": "True"},
            Membership(0, 2, 0, "a", 1, False),
        ),
    ],
    ids=["alone", "mpiexec", "srun", "torchrun in a Slurm job"],
)  # fmt: skip
def test_a_rank_knows_its_place_from_whatever_launched_it(environment: dict[str, str], found: Membership) -> None:
    assert place(environment) == found


def test_a_strategy_is_a_word() -> None:
    """One that does not exist is told with those that do; the one around a fit counts where it names none."""
    assert Strategy.parse("local_sgd(4)") == Strategy.parse("local_sgd(syncs_per_epoch=4)") == Strategy("local_sgd", 4)
    for wrong in ("dpd", "local_sgd(0)", "ddp(2)", "zero(1)", "async(lag=1)", ""):
        with pytest.raises(UnknownName, match=r"ddp, ddp\(lag=N\)"):
            Strategy.parse(wrong)
    with used("ddp"):
        assert (chosen(None).name, chosen("single").name) == ("ddp", "single")
    assert chosen(None).name == "single"
