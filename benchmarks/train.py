"""How fast networks train: `steersman bench train --json` prints one JSON object.

ratio_to_plain: samples per second of fit() over those of a plain PyTorch loop of the same network, batch, precision and
optimizer, in alternating epochs, by processor time, since other programs take turns with this one; the median of the
pairs. bf16_over_fp32: of fit(), likewise. samples_per_s and flops_per_s: by wall time. Operations: convolutions
and dense layers by count of shapes, checked with torch.utils.flop_counter. sync_ratio: one synchronisation of the
weights of DeepEx's CVAE over a bare allreduce of the same bytes, two gloo ranks of this machine. store_over_memory:
samples per second of an epoch streamed from Zarr, an eighth of the window in memory at a time, over one of the same
tensor in memory; input_stall_share: of that streamed epoch, the share of waiting for input. double_buffer_ms: the
median batch where reading takes 10 ms beside a step of 10 ms (both only wait). One thread a process, and one to read.
Figures of a GPU (share_of_peak, images of ResNet-50 at 224x224) are null where there is none.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.flop_counter import FlopCounterMode

from steersman.models import CVAE, Model, ResNet50
from steersman.models.contact_data import checked_maps
from steersman.models.cvae import elbo
from steersman.models.fit import Loss, Record, fit, seeded
from steersman.models.flops import training_flops
from steersman.models.input import Stream, fed
from steersman.models.parallel import LocalSGD, begin
from steersman.models.ranks import launch
from steersman.models.strategy import Strategy
from steersman.store import FRAME, Frames, GroupWriter, Window

LR = 1e-3


@dataclass(frozen=True)
class Case:
    """A network, its loss, and data for one epoch."""

    model: Model
    loss: Loss[Any]
    data: Tensor
    batch: int
    rounds: int


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(prog="steersman bench train", description=__doc__)
    parser.add_argument("--json", action="store_true", help="the only format there is")
    parser.parse_args(list(arguments))
    torch.set_num_threads(1)
    result: dict[str, Any] = {"device": "cpu", "threads": 1, "networks": {}}
    for name, case in cases().items():
        say(f"{name} ...")
        result["networks"][name] = measure(case)
    say("synchronisation ...")
    with tempfile.TemporaryDirectory(prefix="steersman-bench-") as folder:
        target = "steersman.benchmarks.train:synchronise"
        card = launch(target, {}, ranks=2, strategy="local_sgd", folder=Path(folder)).card
        say("input ...")
        result |= card | streamed(Path(folder) / "frames.zarr")
    result |= {"double_buffer_ms": round(1e3 * double_buffer(), 2), "share_of_peak": None, "gpu": None}
    print(json.dumps(result))


def cases() -> dict[str, Case]:
    with seeded(0):
        images = torch.randint(0, 256, (16, 1, 120, 85), dtype=torch.uint8)
        return {
            "cvae_10": Case(CVAE(10), elbo, chains(4096, 10), 128, rounds=11),
            "cvae_28": Case(CVAE(28), elbo, chains(1024, 28), 128, rounds=11),
            "cvae_deepex_28": Case(CVAE.deepex(28), elbo, chains(128, 28), 64, rounds=3),
            "resnet50_atomai": Case(ResNet50(1, 27), classified, images, 8, rounds=5),
        }


def chains(count: int, size: int, seed: int = 0) -> Tensor:
    """Contact maps (count, size, size) uint8 of chains that are helical in one stretch."""
    random = np.random.default_rng(seed)
    first, last = np.sort(random.integers(0, size + 1, (2, count, 1)), axis=0)
    inside = (np.arange(size) >= first) & (np.arange(size) < last)
    apart = np.abs(np.subtract.outer(np.arange(size), np.arange(size)))
    maps = (apart <= 2) | ((apart <= 4) & inside[:, :, None] & inside[:, None, :])
    return torch.from_numpy(maps.astype(np.uint8))


def classified(model: ResNet50, images_BCHW: Tensor) -> dict[str, Tensor]:
    """Cross-entropy of classes that the images' first pixels name: the work is what matters here."""
    classes_B = images_BCHW[:, 0, 0, 0].long() % model.config["classes"]
    return {"loss": functional.cross_entropy(model(images_BCHW.float() / 255), classes_B)}


def measure(case: Case) -> dict[str, Any]:
    """Times of an epoch of fit and of the plain loop, in both precisions in alternation, without the first round."""
    runs: dict[str, Callable[[], object]] = {
        "ours": lambda: ours(case, "fp32"),
        "plain": lambda: plain(case, "fp32"),
        "ours_bf16": lambda: ours(case, "bf16"),
        "plain_bf16": lambda: plain(case, "bf16"),
    }
    wall: dict[str, list[float]] = {name: [] for name in runs}
    busy: dict[str, list[float]] = {name: [] for name in runs}
    for turn in range(case.rounds + 1):
        for name in list(runs) if turn % 2 else list(runs)[::-1]:
            began = time.process_time()
            wall[name].append(timed(runs[name]))
            busy[name].append(time.process_time() - began)
    rate = {name: len(case.data) / float(np.median(spent[1:])) for name, spent in wall.items()}
    flops, counted = flops_of(case)
    return {
        "parameters": case.model.parameter_count,
        "batch": case.batch,
        "samples_per_s": round(rate["ours"], 1),
        "samples_per_s_bf16": round(rate["ours_bf16"], 1),
        "ratio_to_plain": ratio(busy["plain"], busy["ours"]),
        "ratio_to_plain_bf16": ratio(busy["plain_bf16"], busy["ours_bf16"]),
        "bf16_over_fp32": ratio(busy["ours"], busy["ours_bf16"]),
        "flops_per_sample": flops // case.batch,
        "flops_over_torch_s_count": flops / counted,
        "flops_per_s": round(flops / case.batch * rate["ours"]),
        "flops_per_s_bf16": round(flops / case.batch * rate["ours_bf16"]),
    }


def ratio(one: list[float], other: list[float]) -> float:
    """Median of the pairs' ratios, without the first pair."""
    return round(float(np.median(np.array(one[1:]) / np.array(other[1:]))), 3)


def ours(case: Case, precision: str) -> None:
    fit(case.model, case.data, case.loss, epochs=1, batch=case.batch, lr=LR, precision=precision)


def plain(case: Case, precision: str) -> None:
    """The loop as anyone writes it; with the same clipping of gradients."""
    model = case.model.train()
    optimizer = torch.optim.Adam(model.parameters(), LR, fused=True)
    for picked in torch.split(torch.randperm(len(case.data)), case.batch):
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16) if precision == "bf16" else nullcontext():
            loss = case.loss(model, case.data[picked])["loss"]
        torch.autograd.backward(loss)
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()


def timed(act: Callable[[], object]) -> float:
    began = time.perf_counter()
    act()
    return time.perf_counter() - began


def flops_of(case: Case) -> tuple[int, int]:
    """Operations of one step: ours by shapes, and torch's by looking on."""
    batch = case.data[: case.batch]
    with FlopCounterMode(display=False) as counter:
        torch.autograd.backward(case.loss(case.model, batch)["loss"])
    return training_flops(case.model, lambda: case.loss(case.model, batch)), counter.get_total_flops()


class Figures(Model):
    """No network: its card brings what a rank measured."""


def synchronise() -> Model:
    """One rank: seconds of a synchronisation and of a bare allreduce of the same bytes, in alternation."""
    sharing = begin(CVAE.deepex(28), 32, 16, 0, Strategy("local_sgd"))
    assert isinstance(sharing, LocalSGD)
    bare = torch.ones_like(sharing.block)
    seconds: dict[str, list[float]] = {"sync": [], "bare": []}
    for _ in range(12):
        dist.barrier()
        seconds["sync"].append(timed(lambda: sharing.combine_weights(1, 1)))
        dist.barrier()
        seconds["bare"].append(timed(lambda: dist.all_reduce(bare)))
        bare.fill_(1)
    sync, alone = (np.array(seconds[name][2:]) for name in ("sync", "bare"))
    figures = Figures()
    figures.card = {
        "sync_ratio": round(float(np.median(sync / alone)), 3),
        "sync_s": round(float(np.median(sync)), 4),
        "allreduce_s": round(float(np.median(alone)), 4),
        "sync_weights": len(bare),
    }
    return figures


def streamed(path: Path) -> dict[str, float]:
    """Epochs of the CVAE fed from a store and from memory, in alternation, without the first pair."""
    maps = chains(8192, 28)
    writer = GroupWriter(path / "walker0000")
    writer.extend(FRAME, {"contacts": maps.numpy().astype(bool)})
    writer.publish()
    found = Frames(path)
    stream = Stream(Window(found, found.spans()), "contacts", maps.nbytes // 8, checked_maps)
    records: dict[str, list[Record]] = {"store": [], "memory": []}
    model = CVAE(28)
    for _ in range(6):
        for name, data in (("store", stream), ("memory", maps)):
            records[name] += fit(model, data, elbo, epochs=1, batch=128, lr=LR).history
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
