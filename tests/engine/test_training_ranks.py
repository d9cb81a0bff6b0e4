"""A campaign whose model is trained on two ranks, real in all its parts."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from steersman import Params, Workflow, budget, every
from steersman.engine.campaign import plan
from steersman.engine.errors import BadValue
from steersman.engine.run_directory import RunDirectory
from steersman.store import Span

from .conftest import WriteWorkflow, completed

BODY = """
import os, signal
from pathlib import Path
from steersman.models import CVAE

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
    return CVAE.fit(frames["contacts"], latent=2, channels=4, batch=32, epochs=3, init=last, report=told)

def told(record):
    log = Path(__file__).with_name("epochs" + os.environ["RANK"])
    with log.open("a") as file:
        file.write("epoch\\n")
    epochs = len(log.read_text().split())
    if "STEERSMAN_SCRATCH" in os.environ:
        staged = sorted(path.name for path in Path(os.environ["STEERSMAN_SCRATCH"]).iterdir())
        Path(__file__).with_name("staged" + os.environ["RANK"]).write_text(" ".join(staged))
    if epochs == 1 and os.environ["RANK"] == os.environ.get("DYING", "1"):
        os.kill(os.getpid() if "DYING" not in os.environ else os.getppid(), signal.SIGKILL)
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
    with pytest.raises(ValueError, match="single"):
        workflow.train(when=every(frames=1), ranks=ranks, strategy=strategy)


def test_fewer_ranks_than_nodes_are_refused(tmp_path: Path) -> None:
    site = tmp_path / "site.yaml"
    site.write_text("slurm: {}\ntraining: {nodes: 2, workers: 1, walltime_s: 60}\n")
    with pytest.raises(BadValue, match=r"training.nodes = 2: each node has a rank: .* @wf.train\(ranks=1\)"):
        plan("double_well", site=str(site))


def test_hogwild_over_several_nodes_is_refused(write_workflow: WriteWorkflow, tmp_path: Path) -> None:
    site = tmp_path / "site.yaml"
    site.write_text("slurm: {}\ntraining: {nodes: 2, workers: 1, walltime_s: 60}\n")
    workflow = write_workflow(BODY.replace("local_sgd", "hogwild"))
    with pytest.raises(
        BadValue, match=r"training.nodes = 2: ranks of hogwild share memory: 1 node, or another strategy"
    ):
        plan(str(workflow), site=str(site))


@pytest.mark.slow
def test_two_ranks_train_and_one_that_dies_costs_an_epoch_or_leaves_the_last_model(
    write_workflow: WriteWorkflow, tmp_path: Path
) -> None:
    """The first model's rank is killed after the first of three epochs: only two are left to do. Then one dies each
    time before anything is done: the run goes on with the first model and says why. The window is read from the
    node's own disk, on which nothing is left."""
    own_disk, site = tmp_path / "own", tmp_path / "site.yaml"
    own_disk.mkdir()
    site.write_text(f"training: {{scratch: {own_disk}}}\n")
    words = ("--seed", 1, "--rounds", "--site", site)
    directory, state, _ = completed(write_workflow(BODY), *words, cwd=tmp_path, code=None)
    first, *later = state.models
    card = directory.card(first.version)
    assert first.accepted
    assert card is not None
    assert len(card["history"]) == 3
    assert all(record["SyncTime"] > 0 for record in card["history"])
    assert epochs(directory) == 3
    assert later
    assert not any(model.accepted for model in later)
    assert "rank 1: exit code 7" in later[0].reason
    assert state.frames >= 300
    assert not (directory.errors / "training-0001").exists()
    assert (directory.errors / "training-0002" / "rank1.stderr").exists()
    assert not list(directory.path.glob("checkpoints/*"))
    assert [(directory.path / f"staged{rank}").read_text() for rank in (0, 1)] == ["contacts"] * 2
    assert not list(own_disk.iterdir())
    _a_worker_that_is_killed_costs_an_epoch(directory)


def _a_worker_that_is_killed_costs_an_epoch(directory: RunDirectory) -> None:
    """On the frames of that run, and others by the time it is done again: it goes on with those that it began with."""
    for log in directory.path.glob("epochs*"):
        log.unlink()
    spans = directory.frames.spans()
    assert trained(directory, spans, DYING="0") == -signal.SIGKILL
    assert epochs(directory) == 1
    assert trained(directory, spans[:1]) == 0
    card = directory.card(9)
    assert card is not None
    assert len(card["history"]) == 3
    assert epochs(directory) == 3
    assert card["frames"] == sum(span.rows for span in spans)


def trained(directory: RunDirectory, spans: list[Span], **environment: str) -> int:
    """Train model 9 in a process as a worker does; returns its exit code."""
    call = f"tasks.train({str(directory.path)!r}, 9, 0, {spans}, [], {{}})"
    code = f"from steersman.engine import tasks; from steersman.store import Span; {call}"
    return subprocess.run([sys.executable, "-c", code], env=os.environ | environment, timeout=250).returncode


def epochs(directory: RunDirectory) -> int:
    """How many rank 0 has done."""
    return len((directory.path / "epochs0").read_text().split())
