"""How fast networks train: `steersman bench train --json` prints one JSON object, with these keys for each network.

ratio_to_plain: samples per second of fit() over those of a plain PyTorch loop of the same network, batch, precision and
optimizer, in alternating epochs; the median of the pairs, ratio_error its standard error. On a CPU by processor time,
since other programs take turns with this one, on a GPU by wall time. bf16_over_fp32: of fit(), likewise; on a GPU fp32
is tf32. samples_per_s and
flops_per_s: by wall time. Operations: convolutions and dense layers by count of shapes, checked with
torch.utils.flop_counter. share_of_peak: operations per second, by the same clock as the ratios, over those of a
product of two square matrices in the same precision, the best of ten; above 1 where a convolution takes fewer
operations than are counted (Winograd's). profile_share: what the profile's marks take.
store_over_memory: samples per second of an epoch streamed from Zarr, an eighth of the window in memory at a time, over
one of the same tensor in memory; input_stall_share: of that streamed epoch, the share of waiting for input. sync_ratio:
one synchronisation of the weights over a bare allreduce of the same bytes, two ranks of this machine.

double_buffer_ms: the median batch where reading takes 10 ms beside a step of 10 ms (both only wait). One thread a
process, and one to read. On a machine with a GPU the networks are measured there, and ResNet-50 at 224x224 too;
graphs_over_plain: of bf16 with CUDA graphs, over the plain loop in tf32.
"""

from __future__ import annotations

import argparse
import functools
import json
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from steersman.benchmarks.flops import training_flops
from steersman.benchmarks.networks import LR, Case, cases, ours, plain
from steersman.models import Model, device
from steersman.models.fitting.fit import Record, fit
from steersman.models.fitting.input import Stream, fed
from steersman.models.fitting.profile import Profile
from steersman.models.ranks.begin import begin
from steersman.models.ranks.launch import launch
from steersman.models.ranks.local_sgd import LocalSGD
from steersman.models.ranks.strategy import Strategy
from steersman.models.steps.precision import TYPES, Precision
from steersman.store import FRAME, Frames, GroupWriter, Window

PRECISIONS = {"": "tf32", "_bf16": "bf16"}  # by what their keys end in; on a CPU tf32 is fp32
MATRIX = {"cpu": 1536, "cuda": 8192, "xpu": 8192}  # rows of those whose product is the peak
LAPS = 7  # marks of a step, see fit.py


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(prog="steersman bench train", description=__doc__)
    parser.add_argument("--json", action="store_true", help="the only format there is")
    parser.parse_args(list(arguments))
    torch.set_num_threads(1)
    here = device.best()
    result: dict[str, Any] = {"device": device.identity(), "threads": 1, "networks": {}}
    peaks = {ending: peak(here, precision) for ending, precision in PRECISIONS.items()}
    with tempfile.TemporaryDirectory(prefix="steersman-bench-") as folder:
        say("synchronisation ...")
        target = "steersman.benchmarks.train:synchronise"
        synchronised = launch(target, {}, ranks=2, strategy="local_sgd", folder=Path(folder)).card
        for name, case in cases().items():
            say(f"{name} ...")
            found = measure(case, peaks) | streamed(case, Path(folder) / name) | synchronised[name]
            result["networks"][name] = found
    result |= {"peak_flops_per_s" + ending: round(each) for ending, each in peaks.items()}
    print(json.dumps(result | {"double_buffer_ms": round(1e3 * double_buffer(), 2)}))


def measure(case: Case, peaks: dict[str, float]) -> dict[str, Any]:
    """Times of an epoch of fit and of the plain loop, in both precisions in alternation, without the first round.

    The first epoch after the other precision's takes some 3 % longer, so fit and the plain loop take turns in being it.
    """
    runs: dict[str, Callable[[], object]] = {
        name + ending: functools.partial(act, case, precision)
        for ending, precision in PRECISIONS.items()
        for name, act in (("ours", ours), ("plain", plain))
    }
    other = [name + ending for ending in PRECISIONS for name in ("plain", "ours")]
    clock = clock_of(case.model.device)
    if case.model.device.type == "cuda":
        runs["ours_graphs"] = functools.partial(ours, case, "bf16", compiled="graphs")
    wall: dict[str, list[float]] = {name: [] for name in runs}
    busy: dict[str, list[float]] = {name: [] for name in runs}
    for turn in range(case.rounds + 1):
        for name in dict.fromkeys([*other, *runs]) if turn % 2 else runs:
            began = clock()
            wall[name].append(timed(runs[name]))
            busy[name].append(clock() - began)
    flops, counted = flops_of(case)
    steps = -(-len(case.data) // case.batch)
    figures: dict[str, Any] = {
        "parameters": case.model.parameter_count,
        "batch": case.batch,
        "bf16_over_fp32": ratio(busy["ours"], busy["ours_bf16"]),
        "flops_per_sample": flops // case.batch,
        "flops_over_torch_s_count": flops / counted,
        "profile_share": round(LAPS * lap_s(case.model.device) * steps / float(np.median(busy["ours"][1:])), 5),
    }
    for ending in PRECISIONS:
        rate = len(case.data) / float(np.median(wall["ours" + ending][1:]))
        at_work = len(case.data) / float(np.median(busy["ours" + ending][1:]))
        figures |= {
            "samples_per_s" + ending: round(rate, 1),
            "ratio_to_plain" + ending: ratio(busy["plain" + ending], busy["ours" + ending]),
            "ratio_error" + ending: error(busy["plain" + ending], busy["ours" + ending]),
            "flops_per_s" + ending: round(flops / case.batch * rate),
            "share_of_peak" + ending: round(flops / case.batch * at_work / peaks[ending], 3),
        }
    if "ours_graphs" in runs:
        figures["graphs_over_plain"] = ratio(busy["plain"], busy["ours_graphs"])
    return figures


def clock_of(here: torch.device) -> Callable[[], float]:
    """What measures how long this process was at work."""
    return time.process_time if here.type == "cpu" else time.perf_counter


def peak(here: torch.device, precision: str) -> float:
    """Operations per second of a product of square matrices, the best of ten."""
    rows, clock, seconds = MATRIX[here.type], clock_of(here), []
    matrix = torch.randn(rows, rows, device=here, dtype=TYPES[precision])
    with Precision(precision, here).set():
        for _ in range(10):
            began = clock()
            float((matrix @ matrix)[0, 0])  # waits for it
            seconds.append(clock() - began)
    return 2 * rows**3 / min(seconds)


def lap_s(here: torch.device) -> float:
    """Seconds of one mark of a profile."""
    profile, began = Profile(here), time.process_time()
    for _ in range(2000):
        profile.lap("FwdTime")
    return (time.process_time() - began) / 2000


def ratio(one: list[float], other: list[float]) -> float:
    """Median of the ratios of `_ratios`."""
    return round(float(np.median(_ratios(one, other))), 3)


def error(one: list[float], other: list[float]) -> float:
    """Standard error of `ratio`, as if the pairs were spread normally."""
    ratios = _ratios(one, other)
    return round(float(np.sqrt(np.pi / 2 / len(ratios)) * ratios.std()), 3)


def _ratios(one: list[float], other: list[float]) -> np.ndarray:
    """Ratios of two turns' times together, in which each was first once; without the turn in which all warmed up."""
    turns = np.array([one[1:], other[1:]])
    both: np.ndarray = turns[:, : turns.shape[1] // 2 * 2].reshape(2, -1, 2).sum(axis=2)
    return np.asarray(both[0] / both[1])


def timed(act: Callable[[], object]) -> float:
    """Seconds, those that a GPU works on after it was asked included."""
    began = time.perf_counter()
    act()
    if device.best().type != "cpu":
        torch.get_device_module(device.best()).synchronize()
    return time.perf_counter() - began


def flops_of(case: Case) -> tuple[int, int]:
    """Operations of one step: ours by shapes, and torch's by looking on."""
    batch = case.data[: case.batch].to(case.model.device)
    with FlopCounterMode(display=False) as counter:
        torch.autograd.backward(case.loss(case.model, batch)["loss"])
    return training_flops(case.model, lambda: case.loss(case.model, batch)), counter.get_total_flops()


class Figures(Model):
    """No network: its card brings what a rank measured."""


def synchronise() -> Model:
    """One rank: how long synchronisations of every network take."""
    figures = Figures()
    figures.card = {name: synchronised(case.model) for name, case in cases().items()}
    return figures


def synchronised(model: Model) -> dict[str, float]:
    """Seconds of a synchronisation and of a bare allreduce of the same bytes, in alternation."""
    sharing = begin(model, 32, 16, 0, Strategy.parse("local_sgd"))
    assert isinstance(sharing, LocalSGD)
    bare = torch.ones_like(sharing.block)
    seconds: dict[str, list[float]] = {"sync": [], "bare": []}
    for _ in range(32):
        dist.barrier()
        seconds["sync"].append(timed(lambda: sharing.combine_weights(1, 1)))
        dist.barrier()
        seconds["bare"].append(timed(lambda: dist.all_reduce(bare)))
        bare.fill_(1)
    sync, alone = (np.array(seconds[name][2:]) for name in ("sync", "bare"))
    return {
        "sync_ratio": round(float(np.median(sync / alone)), 3),
        "sync_s": round(float(np.median(sync)), 5),
        "allreduce_s": round(float(np.median(alone)), 5),
    }


def streamed(case: Case, path: Path) -> dict[str, float]:
    """Epochs fed from a store and from memory, in alternation, without the first pair."""
    data = case.data.repeat(-(-case.streamed // len(case.data)), *[1] * (case.data.ndim - 1))[: case.streamed]
    writer = GroupWriter(path / "walker0000")
    writer.extend(FRAME, {"samples": data.numpy()})
    writer.publish()
    found = Frames(path)
    stream = Stream(Window(found, found.spans()), "samples", data.nbytes // 8)
    records: dict[str, list[Record]] = {"store": [], "memory": []}
    for _ in range(3 + case.rounds // 10):
        for name, each in (("store", stream), ("memory", data)):
            records[name] += fit(case.model, each, case.loss, epochs=1, batch=case.batch, lr=LR).history
    store, memory = (np.array([record["seconds"] for record in records[name][1:]]) for name in ("store", "memory"))
    stalls = [record["IpUpdateTime"] / record["seconds"] for record in records["store"][1:]]
    return {
        "store_over_memory": round(float(np.median(memory / store)), 3),
        "input_stall_share": round(float(np.median(stalls)), 4),
    }


class Waiting:
    """Rows whose reading takes 10 ms."""

    shape = (100, 1)

    def __len__(self) -> int:
        return 100

    def order(self, rows: Tensor, generator: torch.Generator) -> Tensor:
        return rows

    def read(self, rows: Tensor) -> Tensor:
        time.sleep(0.01)
        return rows[:, None].float()


def double_buffer() -> float:
    """Median seconds of a batch, of 100."""
    began = [time.perf_counter()]
    for _ in fed(Waiting(), torch.split(torch.arange(100), 1), torch.device("cpu")):
        time.sleep(0.01)
        began.append(time.perf_counter())
    return float(np.median(np.diff(began)))


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
