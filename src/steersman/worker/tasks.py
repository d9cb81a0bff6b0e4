"""What Parsl workers execute: each finds its run directory, loads the workflow once, and calls one app."""

from __future__ import annotations

import contextlib
import faulthandler
import functools
import hashlib
import math
import os
import pickle
import shutil
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from msgspec import json
from threadpoolctl import threadpool_limits

from steersman.bus import BusError, TupleSpace, addresses
from steersman.executors.site import Site
from steersman.executors.steady import GPUS
from steersman.journal.modes import MODES
from steersman.journal.records import Start as Order
from steersman.journal.run_directory import RunDirectory
from steersman.stages import loading
from steersman.stages.kinds.train import Train
from steersman.stages.params import Params
from steersman.stages.task import NOBODY, planned_by
from steersman.stages.workflow import Workflow
from steersman.steering.streams import stage_seed
from steersman.store import Span, Window
from steersman.store.names import walker_name
from steersman.system import node
from steersman.system.calls import called
from steersman.system.errors import DamagedFile
from steersman.system.files import replace_file
from steersman.system.processes import children_end, end_with_parent
from steersman.system.random_numbers import drawing
from steersman.worker import calls, known, torch_defaults, training
from steersman.worker.epochs import EpochSender
from steersman.worker.errors import BlockEnds
from steersman.worker.orders import EVENT, JOB
from steersman.worker.training_job import TrainingJob
from steersman.worker.walker import REPLACED, WalkerProcess
from steersman.worker.watchdog import Watchdog

ENDS = "STEERSMAN_BLOCK_ENDS", "SLURM_JOB_END_TIME"  # of a block, as we and the scheduler say
SENDING_S = 1.0  # a training does not wait longer for a bus that is silent
AMD = Path("/dev/kfd")  # is there where AMD's GPUs are
VISIBLE = ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "ZE_AFFINITY_MASK")


@functools.lru_cache(maxsize=1)
def opened(run: str) -> tuple[RunDirectory, Workflow, Params]:
    """What a worker works on; it ends with the process that started it."""
    end_with_parent()
    return _loaded(run)


@functools.lru_cache(maxsize=1)
def _loaded(run: str) -> tuple[RunDirectory, Workflow, Params]:
    directory = RunDirectory(Path(run))
    workflow = loading.load(directory.workflow, moves=True)
    return directory, workflow, loading.checked(workflow, directory.settings()["params"])


@functools.lru_cache(maxsize=1)
def _prepared(run: str, sha256: str) -> Any:
    """One object for all segments of a process, so that apps can keep their contexts warm by its identity.

    Raises: DamagedFile: pickle would run what somebody else wrote.
    """
    file = RunDirectory(Path(run)).prepared
    if not file.exists():
        return None
    pickled = file.read_bytes()  # once: what is checked is what is loaded
    digest = hashlib.sha256(pickled).hexdigest()
    if sha256 and digest != sha256:
        raise DamagedFile(
            "{path}: its SHA-256 is {found:.12}..., but the run recorded {recorded:.12}...; it was changed and is not "
            "loaded. Restore the original file, or begin a new run",
            path=file, found=digest, recorded=sha256,
        )  # fmt: skip
    return pickle.loads(pickled)


@functools.lru_cache(maxsize=2)
def model_of(run: str, version: int) -> Any:
    return training.load_model(RunDirectory(Path(run)).model(version)) if version else None


def learned(run: str, order: Order) -> dict[str, Any]:
    """What `Start` has of what was learned."""
    pushed = {name: each for mode in MODES for name, each in mode.loaded(run, order).items()}
    given = {"attempt": order.attempt, "condition": order.condition}
    return {**pushed, "load": functools.partial(model_of, run, order.with_model), **given}


@functools.lru_cache(maxsize=1)
def _space(bus: str) -> TupleSpace:
    return TupleSpace.connect(Path(bus))


def begin(
    bus: str, job: int, function: Callable[..., Any], *args: Any, parsl_resource_specification: Any = None
) -> Any:
    """Report that a job begins, on which manager's workers, and do it; Parsl has read the last argument."""
    _pin()
    with contextlib.suppress(BusError):
        manager, worker = (os.environ.get(f"PARSL_WORKER_{name}", "") for name in ("POOL_ID", "RANK"))
        _space(bus).put(EVENT, JOB, {"job": job, "manager": manager, "worker": worker})
    with children_end(), planned_by(NOBODY):
        return called(function, *args)


def _pin() -> None:
    """Keep this worker to its GPU, by one name: AMD's libraries count CUDA_VISIBLE_DEVICES among what is left by
    ROCR_VISIBLE_DEVICES."""
    if names := os.environ.get(GPUS, "").split():
        os.environ.update(dict.fromkeys(VISIBLE, names[int(os.environ["PARSL_WORKER_RANK"])]))
        os.environ["ZE_ENABLE_PCI_ID_DEVICE_ORDER"] = "1"
    if AMD.exists():
        os.environ.pop("CUDA_VISIBLE_DEVICES", None)


def warm_up(run: str) -> None:
    """Import the workflow, and torch where it trains, so that the first training waits for neither."""
    _, workflow, _ = opened(run)
    if workflow.training:
        import torch

        torch.optim.SGD([torch.zeros(1, requires_grad=True)]).step()  # the first step of a process takes seconds


def prepare(run: str, told: dict[str, Any]) -> str:
    """Run the workflow's prepare function and keep what it returns beside the run; returns the file's SHA-256.

    Args:
        told: parameters that people changed before.
    """
    directory, workflow, params = opened(run)
    assert workflow.prepare_function is not None
    with keeping_cause(directory.traceback("prepare")), drawing(_seed(run, "prepare")):
        prepared = workflow.prepare_function(loading.changed(workflow, params, told))
        pickled = pickle.dumps(prepared)
    known.keep(directory, prepared)
    replace_file(directory.prepared, pickled, sync=True, mode=0o600)  # the journal has its hash
    return hashlib.sha256(pickled).hexdigest()


def call(run: str, key: str, name: str, packed: bytes, *needs: calls.Receipt) -> calls.Receipt:
    """Do a call of a task; `needs` are what Parsl waited for, as arguments."""
    directory, workflow, _ = opened(run)
    with keeping_cause(directory.traceback(f"task-{name}-{key[:12]}")):
        return calls.done(directory, workflow, key, name, packed, needs)


def walk(run: str, number: int, bag: str, prepared_sha256: str = "") -> str:
    """Be a walker until the engine says that no more starts will come, or the block ends; returns which.

    Args:
        prepared_sha256: what `prepare` returned; "" of a run whose journal is older and does not know it.
    Raises: DamagedFile: what was prepared is another file by now.
    """
    directory, workflow, params = opened(run)
    assert workflow.simulation is not None
    directory.errors.mkdir(exist_ok=True)  # programs that copy runs drop empty folders
    stdout, stderr = (directory.errors / f"{walker_name(number)}.{name}" for name in ("stdout", "stderr"))
    _send(sys.stdout, stdout)
    _send(sys.stderr, stderr)
    faulthandler.enable()  # a segmentation fault writes there where it was
    site = Site.model_validate(directory.site())
    walker = WalkerProcess(
        number=number,
        bag=bag,
        simulate=workflow.simulation.call,
        batch=workflow.simulation.batch,
        params=params,
        prepared=_prepared(run, prepared_sha256),
        frames=directory.frames,
        space=TupleSpace.connect(directory.bus),
        variables=dict(workflow.simulation.variables),
        attributes={"workflow": workflow.name, "params": yaml.safe_dump(params.model_dump(mode="json"))},
        errors=directory.errors,
        scratch=site.scratch_here("simulation"),
        stdout=stdout,
        stderr=stderr,
        place=place(),
        margin_s=site.margin_s,
        lease_s=site.lease,
        watchdog=Watchdog(workflow.simulation.hang_s),
        with_settings=functools.partial(loading.changed, workflow),
        learned=functools.partial(learned, run),
    )
    with walker.watchdog:
        left = walker.run()
    for file in (stdout, stderr):
        if file.stat().st_size == 0:
            file.unlink()
    if left == REPLACED:  # what is wrong may be wrong with this process; Parsl starts another
        os._exit(1)
    return left


def place() -> dict[str, Any]:
    """Where this process runs: its node, Parsl's name for the node's workers, and when its block ends."""
    ends = [float(end) for name in ENDS if (end := os.environ.get(name))]
    return {
        "node": node.name(),
        "pid": os.getpid(),
        "pool": os.environ.get("PARSL_WORKER_POOL_ID", ""),
        "block_ends": min(ends, default=None),
    }


def train(job: TrainingJob) -> dict[str, Any]:
    """Fit a model, compare it with its predecessor on held-out frames, save it with its card.

    Raises: BlockEnds: the block ends before a training that takes `job.needs_s` would be done, and the next one does
        not. What takes longer than any block begins: it goes on from its checkpoints in the next one.
    """
    directory, workflow, params = opened(job.run)
    assert workflow.training is not None
    ends, block_s = place()["block_ends"], getattr(Site.model_validate(directory.site()).training, "walltime_s", None)
    left_s = math.inf if ends is None else ends - time.time()
    if left_s < job.needs_s < (block_s or math.inf):
        raise BlockEnds(job.needs_s, left_s)
    with keeping_cause(directory.traceback("training", job.version)), Watchdog(workflow.training.hang_s):
        try:
            return _train(job, workflow, loading.changed(workflow, params, job.settings))
        finally:
            shutil.rmtree(job.kept, ignore_errors=True)
            with contextlib.suppress(OSError):
                job.kept.parent.rmdir()


def _train(job: TrainingJob, workflow: Workflow, params: Params) -> dict[str, Any]:
    assert workflow.training is not None
    assert workflow.scoring is not None
    return training.train(
        fit=functools.partial(_fit, job, workflow.training, params),
        score=training.counted(
            lambda model, window: _scores(job.run, job.version, workflow, params, model, window),
            workflow.scoring.missing,
        ),
        frames=job.frames,
        judging=training.whole(job.judging, workflow.missing),
        last=model_of(job.run, job.last),
        gate=workflow.training.gate,
        most=job.most,
        directory=job.directory.model(job.version),
        version=job.version,
    )


def _fit(job: TrainingJob, stage: Train, params: Params, frames: Window, model: Any) -> Any:
    """Call the train stage here, or on ranks that call it each: on fewer while there are fewer full batches."""
    from steersman.models.errors import TooManyRanks
    from steersman.models.fitting.checkpoint import going_on, kept_in
    from steersman.models.fitting.fit import heard_by

    if stage.ranks == 1:
        begun = drawing(_seed(job.run, "train", job.version))
        with kept_in(job.kept), heard_by(_epochs(job)), torch_defaults.kept(), begun:
            return stage.function(params, frames, model)
    from steersman.models.ranks.launch import launch

    folder = job.directory.errors / f"training-{job.version:04d}"  # left only when it fails
    target, nodes, ranks = "steersman.worker.tasks:fit_rank", _training_nodes(job.directory), stage.ranks

    def tried() -> Any:
        return launch(
            target, {"job": str(job.kept / "job.json")}, ranks=ranks, strategy=stage.strategy, folder=folder,
            nodes=nodes,
        )  # fmt: skip

    fitted = None
    while fitted is None:
        try:
            fitted = going_on(job.kept, tried)
        except TooManyRanks as refused:
            ranks = max(1, refused.full)
    fitted.card["ranks"] = ranks
    for printed in sorted(folder.glob("rank*.stderr")):
        print(printed.read_text(errors="replace"), end="", flush=True)
    shutil.rmtree(folder)
    return fitted


def _training_nodes(directory: RunDirectory) -> Any:
    """Where the ranks of a training are placed: this worker is on the first node of its block."""
    from steersman.executors.launcher import words
    from steersman.executors.workers import Workers
    from steersman.models.ranks.launch import Nodes

    site = Site.model_validate(directory.site())
    trainers = site.training
    gpus, scratch = trainers.gpu_names, trainers.scratch
    if not isinstance(trainers, Workers) or trainers.nodes < 2:
        return Nodes(gpus=gpus, scratch=scratch)
    here = node.address_towards(addresses.read(directory.bus).host)
    return Nodes(trainers.nodes, words(site, "training"), here, gpus, scratch)


def _epochs(job: TrainingJob) -> EpochSender:
    return EpochSender(TupleSpace.connect(job.directory.bus, patience_s=SENDING_S), job.version)


def fit_rank(job: str) -> Any:
    """Be one rank of a training, whose job lies in a file: read the window, call the train stage."""
    from steersman.models import staged
    from steersman.models.fitting.checkpoint import kept_in
    from steersman.models.fitting.fit import heard_by

    asked = json.decode(Path(job).read_bytes(), type=TrainingJob)
    _, workflow, params = opened(asked.run)
    assert workflow.training is not None
    frames = asked.frames
    if scratch := os.environ.get("STEERSMAN_SCRATCH"):
        frames = staged(frames, Path(scratch))
    first = os.environ["RANK"] == "0"
    sending = heard_by(_epochs(asked)) if first else contextlib.nullcontext()
    with kept_in(asked.kept), sending, drawing(_seed(asked.run, "train", asked.version)), planned_by(NOBODY):
        changed = loading.changed(workflow, params, asked.settings)
        return workflow.training.function(changed, frames, model_of(asked.run, asked.last))


def score(run: str, version: int, spans: Sequence[Span], settings: dict[str, Any]) -> dict[str, np.ndarray]:
    """Score frames with one model version (0: without a model); a worker that hangs in it ends."""
    _, workflow, _ = opened(run)
    assert workflow.scoring is not None
    with Watchdog(workflow.scoring.hang_s):
        return _score(run, version, spans, settings)


def score_in_driver(run: str, version: int, spans: Sequence[Span], settings: dict[str, Any]) -> dict[str, np.ndarray]:
    """Do the same in a thread of the driver, whose process nothing here may end."""
    with threadpool_limits(1):
        return _score(run, version, spans, settings)


def _score(run: str, version: int, spans: Sequence[Span], settings: dict[str, Any]) -> dict[str, np.ndarray]:
    directory, workflow, params = _loaded(run)
    assert workflow.scoring is not None
    window = Window(directory.frames, spans)
    changed = loading.changed(workflow, params, settings)
    with keeping_cause(directory.traceback("scoring", version)), children_end():
        values = _scores(run, version, workflow, changed, model_of(run, version), window)
    without = training.incomplete(window, workflow.missing, window.rows) if workflow.missing else None
    seen = workflow.steering_rule(changed).seen.intersection(window)
    return training.checked_scores(values, window.rows, seen, workflow.scoring.missing, without)


def _scores(
    run: str, version: int, workflow: Workflow, params: Params, model: Any, window: Window
) -> Mapping[str, Any]:
    """Call the score stage."""
    assert workflow.scoring is not None
    with torch_defaults.kept(), drawing(_seed(run, "score", version)):
        scores: Mapping[str, Any] = workflow.scoring.function(params, model, window)
    return scores


def _seed(run: str, stage: str, version: int = 0) -> int:
    return stage_seed(seed_of(run), stage, version)


@functools.lru_cache(maxsize=1)
def seed_of(run: str) -> int:
    return int(RunDirectory(Path(run)).settings()["seed"])


@contextlib.contextmanager
def keeping_cause(file: Path) -> Iterator[None]:
    """What goes wrong here is written where the causes of failed segments are."""
    try:
        yield
    except Exception:
        file.write_text(traceback.format_exc(), encoding="utf-8", errors="backslashreplace")
        raise


def _send(stream: Any, file: Path) -> None:
    """Let everything that this process and its children write to a standard stream go to a file, line by line."""
    stream.flush()
    handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(handle, stream.fileno())
    os.close(handle)
    stream.reconfigure(line_buffering=True)
