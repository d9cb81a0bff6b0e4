"""What Parsl workers execute: each finds its run directory, loads the workflow once, and calls one app."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import os
import pickle
import platform
import shutil
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from threadpoolctl import threadpool_limits

from steersman.bus import BusError, TupleSpace, addresses
from steersman.executors.site import Site
from steersman.journal.run_directory import RunDirectory
from steersman.stages import loading
from steersman.stages.workflow import Params, Workflow
from steersman.store import Span, Window
from steersman.system.files import replace_file
from steersman.system.parent import end_with_parent
from steersman.worker import training
from steersman.worker.epochs import EpochTeller
from steersman.worker.errors import BlockEnds
from steersman.worker.publisher import EVENT
from steersman.worker.walker import Walker
from steersman.worker.watchdog import Watchdog

TELLING_S = 1.0  # a training does not wait longer for a bus that is silent
AMD = Path("/dev/kfd")  # is there where AMD's GPUs are


@functools.lru_cache(maxsize=1)
def _opened(run: str) -> tuple[RunDirectory, Workflow, Params]:
    """What a worker works on; it ends with the process that started it."""
    end_with_parent()
    return _loaded(run)


@functools.lru_cache(maxsize=1)
def _loaded(run: str) -> tuple[RunDirectory, Workflow, Params]:
    directory = RunDirectory(Path(run))
    workflow = loading.load(directory.workflow)
    return directory, workflow, loading.checked(workflow, directory.settings()["params"])


@functools.lru_cache(maxsize=1)
def _prepared(run: str) -> Any:
    """One object for all segments of a process, so that apps can keep their contexts warm by its identity."""
    file = Path(run) / "prepared.pkl"
    return pickle.loads(file.read_bytes()) if file.exists() else None


@functools.lru_cache(maxsize=2)
def _model(run: str, version: int) -> Any:
    return training.load_model(RunDirectory(Path(run)).model(version)) if version else None


@functools.lru_cache(maxsize=1)
def _space(bus: str) -> TupleSpace:
    return TupleSpace.connect(Path(bus))


def begin(
    bus: str, job: int, function: Callable[..., Any], *args: Any, parsl_resource_specification: Any = None
) -> Any:
    """Tell the engine that a job begins, on which manager's workers, and do it; Parsl has read the last argument."""
    _pin()
    with contextlib.suppress(BusError):
        _space(bus).put(EVENT, "job", {"job": job, "manager": os.environ.get("PARSL_WORKER_POOL_ID", "")})
    return function(*args)


def _pin() -> None:
    """Keep to one way of naming this worker's GPU: AMD's libraries count CUDA_VISIBLE_DEVICES among what is left by
    ROCR_VISIBLE_DEVICES, and Parsl sets both."""
    if AMD.exists():
        os.environ.pop("CUDA_VISIBLE_DEVICES", None)


def warm_up(run: str) -> None:
    """Import the workflow, so that the first training does not wait for it."""
    _opened(run)


def prepare(run: str) -> None:
    """Run the workflow's prepare function and keep what it returns beside the run."""
    directory, workflow, params = _opened(run)
    if workflow.prepare_function is None:
        return
    partial = directory.prepared.with_suffix(".partial")
    partial.write_bytes(pickle.dumps(workflow.prepare_function(params)))
    partial.replace(directory.prepared)


def walk(run: str, number: int, bag: str) -> str:
    """Be a walker until the engine says that no more starts will come, or the block ends; returns which."""
    directory, workflow, params = _opened(run)
    assert workflow.simulation is not None
    stderr = directory.errors / f"w{number}.stderr"
    _send_stderr_to(stderr)
    site = Site.model_validate(directory.settings()["site"])
    walker = Walker(
        number=number,
        bag=bag,
        simulate=workflow.simulation.function,
        params=params,
        prepared=_prepared(run),
        frames=directory.frames,
        space=TupleSpace.connect(directory.bus),
        variables=dict(workflow.simulation.variables),
        attributes={"workflow": workflow.name, "params": yaml.safe_dump(params.model_dump(mode="json"))},
        errors=directory.errors,
        scratch=site.scratch_here("simulation"),
        stderr=stderr,
        place=place(),
        margin_s=site.margin_s,
        lease_s=site.lease_s,
        watchdog=Watchdog(workflow.simulation.hang_s),
        with_settings=functools.partial(_changed, workflow),
    )
    with walker.watchdog:
        left = walker.run()
    if stderr.stat().st_size == 0:
        stderr.unlink()
    return left


def place() -> dict[str, Any]:
    """Where this process runs: its node, Parsl's name for the node's workers, and when its block ends."""
    ends = os.environ.get("STEERSMAN_BLOCK_ENDS") or os.environ.get("SLURM_JOB_END_TIME")
    return {
        "node": os.environ.get("STEERSMAN_NODE", platform.node()),
        "pid": os.getpid(),
        "pool": os.environ.get("PARSL_WORKER_POOL_ID", ""),
        "block_ends": float(ends) if ends else None,
    }


def _changed(workflow: Workflow, params: Params, settings: dict[str, Any]) -> Params:
    return loading.checked(workflow, params.model_dump(mode="json") | settings) if settings else params


def train(
    run: str,
    version: int,
    last: int,
    spans: Sequence[Span],
    held_out: Sequence[Span],
    settings: dict[str, Any],
    needs_s: float = 0.0,
) -> dict[str, Any]:
    """Fit model `version` from model `last`, compare them on held-out frames, save it with its card.

    Raises: BlockEnds: the block ends before a training of `needs_s` would be done.
    """
    directory, workflow, params = _opened(run)
    assert workflow.training is not None
    assert workflow.scoring is not None
    ends = place()["block_ends"]
    if ends is not None and time.time() + needs_s > ends:
        raise BlockEnds(needs_s, ends - time.time())
    params = _changed(workflow, params, settings)
    kept = directory.checkpoints(version)
    spans, held_out = _begun(kept, last, params, spans, held_out)
    with _told(directory.errors / f"training-{version:04d}.txt"), Watchdog(workflow.training.hang_s):
        try:
            return _train(directory, workflow, params, version, last, spans, held_out)
        finally:
            shutil.rmtree(kept, ignore_errors=True)
            with contextlib.suppress(OSError):
                kept.parent.rmdir()


def _begun(
    kept: Path, last: int, params: Params, spans: Sequence[Span], held_out: Sequence[Span]
) -> tuple[Sequence[Span], Sequence[Span]]:
    """Give the frames of the training that a worker died of, so that it goes on from its checkpoints, else these."""
    file, same = kept / "window.json", {"last": last, "params": params.model_dump(mode="json")}
    if file.exists() and (found := json.loads(file.read_text())) and same.items() <= found.items():
        return [Span(*span) for span in found["spans"]], [Span(*span) for span in found["held_out"]]
    shutil.rmtree(kept, ignore_errors=True)
    kept.mkdir(parents=True)
    window = {"spans": [*map(dataclasses.astuple, spans)], "held_out": [*map(dataclasses.astuple, held_out)]}
    replace_file(file, json.dumps(same | window))
    return spans, held_out


def _train(
    directory: RunDirectory,
    workflow: Workflow,
    params: Params,
    version: int,
    last: int,
    spans: Sequence[Span],
    held_out: Sequence[Span],
) -> dict[str, Any]:
    assert workflow.training is not None
    assert workflow.scoring is not None
    run = str(directory.path)
    return training.train(
        fit=functools.partial(_fit, directory, workflow, params, version, last, spans),
        score=functools.partial(workflow.scoring.function, params),
        frames=Window(directory.frames, spans),
        held_out=Window(directory.frames, held_out) if held_out else None,
        last=_model(run, last),
        gate=workflow.training.gate,
        directory=directory.model(version),
        version=version,
    )


def _fit(
    directory: RunDirectory,
    workflow: Workflow,
    params: Params,
    version: int,
    last: int,
    spans: Sequence[Span],
    frames: Window,
    model: Any,
) -> Any:
    """Call the train stage here, or on ranks that call it each."""
    stage = workflow.training
    assert stage is not None
    from steersman.models.fitting.checkpoint import going_on, kept_in
    from steersman.models.fitting.fit import heard_by

    kept = directory.checkpoints(version)
    if stage.ranks == 1:
        with kept_in(kept), heard_by(_teller(directory, version)):
            return stage.function(params, frames, model)
    from steersman.models.ranks.launch import launch

    arguments = {
        "run": str(directory.path), "version": version, "last": last, "kept": str(kept),
        "spans": [dataclasses.astuple(span) for span in spans], "params": params.model_dump(mode="json"),
    }  # fmt: skip
    folder = directory.errors / f"training-{version:04d}"  # left only when it fails
    target, nodes = "steersman.worker.tasks:fit_rank", _training_nodes(directory)

    def tried() -> Any:
        return launch(target, arguments, ranks=stage.ranks, strategy=stage.strategy, folder=folder, nodes=nodes)

    made = going_on(kept, tried)
    shutil.rmtree(folder)
    return made


def _training_nodes(directory: RunDirectory) -> Any:
    """Where the ranks of a training are placed: this worker is on the first node of its block."""
    from steersman.executors.launcher import words
    from steersman.executors.network import address_towards
    from steersman.executors.workers import Workers
    from steersman.models.ranks.launch import Nodes

    site = Site.model_validate(directory.settings()["site"])
    training = site.training
    gpus, scratch = training.gpu_names, training.scratch
    if not isinstance(training, Workers) or training.nodes < 2:
        return Nodes(gpus=gpus, scratch=scratch)
    here = address_towards(addresses.read(directory.bus).host)
    return Nodes(training.nodes, words(site, "training"), here, gpus, scratch)


def _teller(directory: RunDirectory, version: int) -> EpochTeller:
    return EpochTeller(TupleSpace.connect(directory.bus, patience_s=TELLING_S), version)


def fit_rank(
    run: str, version: int, last: int, spans: Sequence[Sequence[Any]], params: dict[str, Any], kept: str
) -> Any:
    """Be one rank of a training: read the window, call the train stage."""
    from steersman.models import staged
    from steersman.models.fitting.checkpoint import kept_in
    from steersman.models.fitting.fit import heard_by

    directory, workflow, _ = _opened(run)
    assert workflow.training is not None
    frames = Window(directory.frames, [Span(*span) for span in spans])
    if scratch := os.environ.get("STEERSMAN_SCRATCH"):
        frames = staged(frames, Path(scratch))
    first = os.environ["RANK"] == "0"
    with kept_in(Path(kept)), heard_by(_teller(directory, version)) if first else contextlib.nullcontext():
        return workflow.training.function(loading.checked(workflow, params), frames, _model(run, last))


def score(run: str, version: int, spans: Sequence[Span], settings: dict[str, Any]) -> dict[str, np.ndarray]:
    """Score frames with one model version (0: without a model); a worker that hangs in it ends."""
    _, workflow, _ = _opened(run)
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
    with _told(directory.errors / f"scoring-{version:04d}.txt"):
        values: Mapping[str, Any] = workflow.scoring.function(
            _changed(workflow, params, settings), _model(run, version), window
        )
    return training.checked_scores(values, window.rows)


@contextlib.contextmanager
def _told(file: Path) -> Iterator[None]:
    """What goes wrong here is written where the causes of failed segments are."""
    try:
        yield
    except Exception:
        file.write_text(traceback.format_exc(), encoding="utf-8")
        raise


def _send_stderr_to(file: Path) -> None:
    """Let everything that this process and its children write to standard error go to a file."""
    sys.stderr.flush()
    handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(handle, 2)
    os.close(handle)
