"""A campaign whose model is trained on two ranks, real in all its parts."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from steersman import Params, Workflow, budget, every
from steersman.engine.campaign import plan
from steersman.journal import file as journal
from steersman.journal.records import Note
from steersman.store import Span
from steersman.system.errors import BadValue
from steersman.worker.training_job import TrainingJob
from tests.engine.conftest import WriteWorkflow, completed

BODY = """
import os, signal
from pathlib import Path
import psutil
from steersman import models

wf = Workflow("mine", P, stop=budget(frames=340))

@wf.simulate()
def segment(p, start, out):
    random = np.random.default_rng(out.seed)
    for _ in range(p.steps):
        maps = random.random((6, 6)) < 0.4
        out.append(time=0.0, contacts=maps | maps.T)
        if out.stopped: break

@wf.train(when=every(frames=200, first=100), ranks=2, strategy="local_sgd")
def fit(p, frames, last):
    if last is not None and os.environ["RANK"] == "1":
        os._exit(7)
    return models.CVAE.fit(frames["contacts"], latent=2, channels=4, batch=32, epochs=3, init=last, report=told)

def told(record):
    rank = os.environ["RANK"]
    log = Path(__file__).with_name("epochs" + rank)
    with log.open("a") as file:
        file.write("epoch ")
    staged = sorted(path.name for path in Path(os.environ["STEERSMAN_SCRATCH"]).iterdir())
    Path(__file__).with_name("staged" + rank).write_text(" ".join(staged))
    epochs = len(log.read_text().split())
    if (rank, epochs) in (("1", 1), ("0", 2)):    # a rank, then the training worker
        os.kill(os.getpid() if rank == "1" else psutil.Process(os.getppid()).ppid(), signal.SIGKILL)
        signal.pause()

@wf.score()
def place(p, model, frames):
    z, error = model.encode(frames["contacts"])
    return {"z": z, "error": error}

wf.steer(Novelty("z"), explore=0.5)
"""


@pytest.mark.parametrize(("ranks", "strategy"), [(2, "single"), (1, "ddp"), (0, "single"), (2, "dpd")])
def test_ranks_and_strategy_that_do_not_go_together_are_refused(ranks: int, strategy: str) -> None:
    """When the workflow file is read, before any job starts."""
    workflow = Workflow("mine", Params, stop=budget(frames=1))
    with pytest.raises(ValueError, match=r"ranks|strategy"):
        workflow.train(when=every(frames=1), ranks=ranks, strategy=strategy)


def test_fewer_ranks_than_nodes_are_refused(tmp_path: Path) -> None:
    site = tmp_path / "site.yaml"
    site.write_text("slurm: {}\ntraining: {nodes: 2, workers: 1, walltime_s: 60}\n")
    with pytest.raises(BadValue, match=r"training.nodes = 2.*ranks=1"):
        plan("double_well", site=str(site))


def test_hogwild_over_several_nodes_is_refused(write_workflow: WriteWorkflow, tmp_path: Path) -> None:
    site = tmp_path / "site.yaml"
    site.write_text("slurm: {}\ntraining: {nodes: 2, workers: 1, walltime_s: 60}\n")
    workflow = write_workflow(BODY.replace("local_sgd", "hogwild"))
    with pytest.raises(BadValue, match=r"training.nodes = 2.*hogwild"):
        plan(str(workflow), site=str(site))


@pytest.mark.slow
def test_a_rank_or_worker_that_dies_costs_an_epoch_or_leaves_the_last_model(
    write_workflow: WriteWorkflow, tmp_path: Path
) -> None:
    """A rank is killed after the first of three epochs, the training worker after the second, neither of which is done
    again. Then a rank dies before anything is done: the run goes on with the first model and says why. The window is
    read from the node's own disk, on which nothing is left, not even by the worker that was killed."""
    own_disk, site = tmp_path / "own", tmp_path / "site.yaml"
    own_disk.mkdir()
    site.write_text(f"simulation: {{workers: 1}}\ntraining: {{workers: 1, scratch: {own_disk}}}\n")
    words = ("--seed", 1, "--rounds", "--site", site)
    directory, state, _ = completed(write_workflow(BODY), *words, cwd=tmp_path, code=None)
    first, *later = state.models
    card = directory.card(first.version)
    assert first.accepted
    assert card is not None
    assert len(card["history"]) == 3
    assert all(record["SyncTime"] > 0 for record in card["history"])
    assert len((directory.path / "epochs0").read_text().split()) == 3
    notes = [record.text for record in journal.read(directory.journal, Note)]
    assert any("the training of model 1 begins again: WorkerLost" in note for note in notes)
    assert later
    assert not any(model.accepted for model in later)
    assert "exit code 7" in later[0].reason
    assert state.frames >= 300
    assert not (directory.errors / "training-0001").exists()
    assert (directory.errors / "training-0002" / "rank1.stderr").exists()
    assert "exit code 7" in (directory.errors / "training-0002.txt").read_text()
    assert not list(directory.path.glob("checkpoints/*"))
    assert [(directory.path / f"staged{rank}").read_text() for rank in (0, 1)] == ["contacts"] * 2
    assert not list(own_disk.iterdir())


def test_a_training_that_begins_again_takes_the_frames_that_it_began_with(tmp_path: Path) -> None:
    """Not those that have come since, which the journal does not count to it; with other parameters it has no use of
    its checkpoints, and from another model it is another training."""
    first, more = (Span("w0", 0, 40),), (Span("w0", 0, 60),)
    job = TrainingJob(run=str(tmp_path), version=1, last=0, window=first, judged_by=(), settings={"epochs": 3})
    later = replace(job, window=more, judged_by=first)
    assert job.begin() == job
    checkpoint = job.kept / "fit-0"
    changed, other = replace(later, settings={"epochs": 4}), replace(later, last=1)
    for fresh, wanted in ((changed, replace(job, settings=changed.settings)), (other, other)):
        checkpoint.mkdir(exist_ok=True)
        assert later.begin() == job
        assert checkpoint.exists()
        assert fresh.begin() == wanted
        assert not checkpoint.exists()
        assert job.begin() == job
