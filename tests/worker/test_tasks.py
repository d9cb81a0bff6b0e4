"""What a worker does with the files of its run."""

import contextlib
import functools
import hashlib
import os
import pickle
import shutil
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from msgspec import json
from msgspec.structs import replace

from steersman.journal.modes import biases
from steersman.journal.records import Start as Order
from steersman.journal.run_directory import RunDirectory
from steersman.stages.start import Start
from steersman.steering import Bias
from steersman.store import FRAME, GroupWriter, Span
from steersman.system.errors import BadInput, DamagedFile
from steersman.worker import tasks, training
from steersman.worker.errors import BlockEnds
from steersman.worker.training_job import TrainingJob
from tests.worker.conftest import MadeRun

PREPARED = """
@wf.prepare
def prepare(p): return [1, 2, 3]

@wf.simulate()
def simulate(p, start, out): out.append(x=1.0)
"""


def test_what_was_prepared_is_loaded_only_if_it_is_what_was_written(made_run: MadeRun) -> None:
    """Pickle runs code: any byte that somebody changed is found before it is read."""
    directory = made_run(PREPARED)
    run = str(directory.path)
    sha256 = tasks.prepare(run, {})
    written = directory.prepared.read_bytes()
    assert sha256 == hashlib.sha256(written).hexdigest()
    assert stat.S_IMODE(directory.prepared.stat().st_mode) == 0o600
    assert tasks._prepared(run, sha256) == [1, 2, 3]

    class Evil:
        def __reduce__(self) -> tuple[Any, ...]:
            return os.mkdir, (f"{run}/entered",)

    for forged in (pickle.dumps(Evil()), written + b"x", b""):
        tasks._prepared.cache_clear()
        directory.prepared.write_bytes(forged)
        with pytest.raises(DamagedFile) as refused:
            tasks._prepared(run, sha256)
        assert refused.value.values["recorded"] == sha256
    assert not (directory.path / "entered").exists()


@pytest.mark.parametrize("called", ["energy.later(1).result()", "energy(1)"])
def test_a_stage_that_is_no_plan_makes_no_call_that_nobody_records(called: str, made_run: MadeRun) -> None:
    energy = "@wf.task\ndef energy(i): return i\n"
    run = str(made_run(energy + PREPARED.replace("[1, 2, 3]", called)).path)
    refused = pytest.raises(BadInput) if "later" in called else contextlib.nullcontext()
    with refused:
        assert tasks.begin(run, 0, tasks.prepare, run, {})


def test_a_model_is_read_when_a_segment_asks_for_it_and_a_version_of_the_bias_once(
    made_run: MadeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once for each version and process: apps keep their contexts by its identity."""
    run, read = str(made_run(PREPARED).path), list[str]()

    def load(folder: Path) -> object:
        read.append(folder.name)
        return object()

    monkeypatch.setattr(training, "load_model", load)
    starts = [Start(load=functools.partial(tasks.model_of, run, version)) for version in (0, 3, 3, 4)]
    assert read == []
    assert starts[0].model is None
    assert starts[1].model is starts[1].model is starts[2].model is not starts[3].model
    assert read == ["0003", "0004"]
    centres = np.zeros((1, 1), np.float32)
    made = Bias(0, 9.0, False, centres, centres + 1, centres[0] + 1, np.zeros(1))
    file = biases.file_of(RunDirectory(Path(run)), 2)
    file.parent.mkdir()
    file.write_bytes(made.to_bytes())
    given = [
        Order(start=0, seed=0, bias=version, share=share) for version, share in [(2, 1.0), (2, 1.0), (2, 0.5), (0, 1.0)]
    ]
    whole, again, half, none = (tasks.learned(run, each)["bias"] for each in given)
    assert whole is again
    assert half.energy(0.3) == pytest.approx(whole.energy(0.3) / 2)
    assert none is None


TRAINED = """
from steersman import every
@wf.train(when=every(frames=9))
def train(p, frames, last): ...
@wf.score()
def score(p, model, frames): ...
"""


@pytest.mark.slow
@pytest.mark.parametrize("trained", ["", TRAINED])
def test_a_worker_has_torch_ready_before_the_first_training(trained: str, made_run: MadeRun) -> None:
    program = (
        f"import sys; from steersman.worker import tasks; tasks.warm_up({str(made_run(PREPARED + trained).path)!r})"
    )
    told = "print('torch' in sys.modules, 'torch._dynamo.convert_frame' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", f"{program}; {told}"], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(bool(trained))] * 2


WITH_ATOMS = """
import types
PDB = "HETATM    1  O   HOH A   1       0.000   0.000   0.000  1.00  0.00           O\\nEND\\n"

@wf.prepare
def prepare(p): return types.SimpleNamespace(pdb=PDB)

@wf.simulate()
def simulate(p, start, out): out.append(x=1.0)
"""


@pytest.mark.parametrize(("pdb", "kept"), [("PDB", True), ("'1fme.pdb'", False), ("None", False)])
def test_a_prepared_start_with_atoms_leaves_its_topology_beside_the_frames(
    pdb: str, kept: bool, made_run: MadeRun
) -> None:
    """So that nobody needs to unpickle anything to look at frames; a name of a file is no topology."""
    directory = made_run(WITH_ATOMS.replace("pdb=PDB", f"pdb={pdb}"))
    tasks.prepare(str(directory.path), {})
    assert directory.topology.exists() == kept
    assert not kept or directory.topology.read_text().startswith("HETATM")


CARELESS = """
import torch
from steersman import every, models

def change():
    torch.set_default_dtype(torch.float64)
    torch.set_default_device("meta")

@wf.simulate()
def simulate(p, start, out): out.append(x=1.0)

@wf.train(when=every(frames=1))
def fit(p, frames, last):
    made = models.PCA.fit(frames["x"], latent=1)
    change()
    return made

@wf.score()
def score(p, model, frames):
    z, error = model.encode(frames["x"])
    change()
    return {"error": error}
"""


@pytest.mark.parametrize(("block_s", "waits"), [(None, True), (200.0, True), (50.0, False)])
def test_a_training_waits_for_the_next_block_if_that_has_the_time_for_it(
    made_run: MadeRun, monkeypatch: pytest.MonkeyPatch, block_s: float | None, waits: bool
) -> None:
    """One that takes longer than any block would never begin."""
    directory = made_run(CARELESS)
    site = directory.site()
    directory.site_file.write_text(yaml.safe_dump(site | {"training": site["training"] | {"walltime_s": block_s}}))
    monkeypatch.setenv("STEERSMAN_BLOCK_ENDS", f"{time.time() + 40}")
    monkeypatch.setattr(tasks, "_train", lambda job, workflow, params: {})
    with pytest.raises(BlockEnds) if waits else contextlib.nullcontext():
        assert tasks.train(TrainingJob(str(directory.path), 1, 0, (), (), {}, needs_s=100.0)) == {}


def test_a_block_ends_when_the_first_says_so_who_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    for ours, theirs in (("700", "600"), ("600", "700"), ("600", "")):
        monkeypatch.setenv("STEERSMAN_BLOCK_ENDS", ours)
        monkeypatch.setenv("SLURM_JOB_END_TIME", theirs)
        assert tasks.place()["block_ends"] == 600


def test_a_stage_that_changes_torchs_defaults_changes_no_other(made_run: MadeRun) -> None:
    """Trainings and scorings share a process, and in a driver's thread they share it with the engine."""
    directory = made_run(CARELESS)
    writer = GroupWriter(directory.frames.path / "w0")
    writer.extend(FRAME, {"x": np.random.default_rng(1).normal(size=(20, 3)).astype(np.float32)})
    writer.publish()
    run, spans = str(directory.path), [Span("w0", 0, 10)]
    tasks.train(TrainingJob(run, 1, 0, tuple(spans), (Span("w0", 10, 20),), {}))
    for score in (tasks.score, tasks.score_in_driver):
        assert score(run, 1, spans, {})["error"].shape == (10,)
        assert torch.get_default_dtype() == torch.float32
        assert torch.get_default_device() == torch.device("cpu")
        assert torch.as_tensor(torch.empty(1, device="meta")).is_meta, "a default set to cpu moves what is elsewhere"


RANKS = """
from steersman import every, models

@wf.simulate()
def simulate(p, start, out): out.append(x=1.0)

@wf.train(when=every(frames=1), ranks=3, strategy="ddp")
def fit(p, frames, last): return models.Autoencoder.fit(frames["x"], latent=1, epochs=1, batch=32)

@wf.score()
def score(p, model, frames): return dict(zip(("z", "error"), model.encode(frames["x"])))
"""


@pytest.mark.slow
def test_a_training_runs_on_as_many_ranks_as_there_are_full_batches(made_run: MadeRun) -> None:
    """At the beginning of a run there are few frames, and a model early is worth more than ranks."""
    directory = made_run(RANKS)
    writer = GroupWriter(directory.frames.path / "w0")
    writer.extend(FRAME, {"x": np.random.default_rng(1).normal(size=(96, 3)).astype(np.float32)})
    writer.publish()
    for version, (frames, ranks) in enumerate([(20, 1), (95, 2), (96, 3)], 1):
        card = tasks.train(TrainingJob(str(directory.path), version, 0, (Span("w0", 0, frames),), (), {}).begin())
        assert (card["frames"], card["ranks"], card["accepted"]) == (frames, ranks, True)
        assert not list(directory.errors.iterdir())


def test_a_training_of_a_copied_run_goes_on_in_the_copy(tmp_path: Path) -> None:
    """Its checkpoints came with it; else its model is written into the original."""
    job = TrainingJob(str(tmp_path / "run"), 1, 0, (Span("w0", 0, 10),), (), {})
    job.begin()
    shutil.copytree(tmp_path / "run", tmp_path / "copy")
    fresh = replace(job, run=str(tmp_path / "copy"), window=(Span("w0", 0, 20),))
    begun = fresh.begin()
    assert begun == replace(job, run=fresh.run), "of the frames that it began with"
    assert json.decode((fresh.kept / "job.json").read_bytes(), type=TrainingJob) == begun, "ranks read this"
