"""The networks of the field on this machine: `steersman bench networks --json` prints one JSON object.

Each network of the table: parameters, and flops_per_sample of a training step at its full size: multiplications and
additions of convolutions and dense layers, forward and backward, counted from shapes. flops_over_torch_s_count is their
ratio to torch.utils.flop_counter's. Both are counted on the meta device, so any machine counts them.

What is measured is measured at `measured_at`, which is smaller than the full size where there is no GPU:
size_over_full is the operations of such a sample over those of a full one. For fp32 (on a GPU tf32) and bf16:
samples_per_s and flops_per_s, `peak` of forward, backward and update alone, `sustained` of an epoch whose samples are
read from Zarr; by wall time. share_of_peak: operations per second, sustained, over those of a product of two square
matrices in the same precision; on a CPU both by processor time. `published` are rows of papers, on their machines.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.utils.flop_counter import FlopCounterMode

from steersman.benchmarks.flops import training_flops
from steersman.benchmarks.networks import LR, classified
from steersman.benchmarks.train import PRECISIONS, clock_of, peak, say
from steersman.models import CVAE, CosmoFlow, DeepLab, Model, ResNet50, Tiramisu, device
from steersman.models.fitting.fit import Loss, fit, seeded
from steersman.models.fitting.input import Stream
from steersman.models.networks.cvae import elbo
from steersman.models.networks.deeplab import weighted_loss
from steersman.store import FRAME, Frames, GroupWriter, Window
from steersman.system.errors import UnknownName

STEPS = 2  # of an epoch; the first epoch is not counted
STORM_WEIGHTS = (0.0218, 0.812, 0.166)  # of background, cyclone and river: 1 / sqrt(frequency)

PUBLISHED = (
    {"network": "deeplab", "machine": "Summit, 27,360 V100", "precision": "fp32", "pflops_per_s": 325.8,
     "efficiency": 0.907, "source": "Kurth et al. 2018"},
    {"network": "deeplab", "machine": "Summit, 27,360 V100", "precision": "fp16", "pflops_per_s": 999.0,
     "peak_pflops_per_s": 1130.0, "source": "Kurth et al. 2018"},
    {"network": "tiramisu", "machine": "Piz Daint, 5,300 P100", "precision": "fp32", "pflops_per_s": 21.0,
     "efficiency": 0.79, "source": "Kurth et al. 2018"},
    {"network": "cosmoflow", "machine": "Cori, 8,192 nodes of KNL", "precision": "fp32", "pflops_per_s": 3.5,
     "efficiency": 0.77, "source": "Mathuriya et al. 2018"},
    *(
        {"network": network, "machine": machine, "minutes_to_quality": minutes, "quality": quality,
         "source": "MLPerf HPC 1.0: mean of the published logs without the fastest and the slowest"}
        for network, quality, of in (
            ("deeplab", "IoU of 0.82 (DeepCAM)",
             {"Piz Daint, 1,024 P100": 21.9, "Perlmutter, 2,048 A100": 2.51, "DGX, 2,048 A100": 1.67}),
            ("cosmoflow", "mean absolute error of 0.124",
             {"Fugaku, 512 nodes": 114.0, "Perlmutter, 1,024 A100": 8.02, "DGX, 1,024 A100": 7.12}),
        )
        for machine, minutes in of.items()
    ),
)  # fmt: skip


@dataclass(frozen=True)
class Row:
    """A network of the table.

    Args:
        make: the network for samples of a size.
        full: size of a sample as published.
        here: size that a CPU is measured at.
        loss: of the network on a batch.
        batch: samples of a step.
    """

    make: Callable[[tuple[int, ...]], Model]
    full: tuple[int, ...]
    here: tuple[int, ...]
    loss: Loss
    batch: int = 4


def segmented(model: Model, images_BCHW: Tensor) -> dict[str, Tensor]:
    """Weighted cross-entropy of labels that the first channel names: the work is what matters here."""
    images = images_BCHW.float() / 255
    labels = (images_BCHW[:, 0].long() * 3) // 256
    return {"loss": weighted_loss(model(images), labels, images.new_tensor(STORM_WEIGHTS))}


def regressed(model: Model, cubes_BCSSS: Tensor) -> dict[str, Tensor]:
    """Mean square error to targets of 0."""
    found = model(cubes_BCSSS.float())
    return {"loss": functional.mse_loss(found, torch.zeros_like(found))}


ROWS = {
    "cvae_deepex": Row(lambda shape: CVAE.deepex(shape[-1]), (28, 28), (28, 28), elbo, 16),
    "resnet50_atomai": Row(lambda _: ResNet50(1, 27), (1, 120, 85), (1, 120, 85), classified),
    "resnet50_imagenet": Row(lambda _: ResNet50(), (3, 224, 224), (3, 112, 112), classified),
    "deeplab": Row(lambda _: DeepLab(), (16, 768, 1152), (16, 64, 96), segmented, 2),
    "tiramisu": Row(lambda _: Tiramisu(), (16, 768, 1152), (16, 64, 96), segmented, 2),
    "cosmoflow": Row(lambda shape: CosmoFlow(shape[-1]), (4, 128, 128, 128), (4, 64, 64, 64), regressed, 2),
}


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(prog="steersman bench networks", description=__doc__)
    parser.add_argument("--json", action="store_true", help="the only format there is")
    parser.add_argument("--only", metavar="NAME", action="append", help=f"one of {', '.join(ROWS)}; may be repeated")
    parser.add_argument("--count", action="store_true", help="count, on the meta device, and measure nothing")
    options = parser.parse_args(list(arguments))
    chosen = options.only or list(ROWS)
    for name in chosen:
        if name not in ROWS:
            raise UnknownName("network", name, ROWS)
    torch.set_num_threads(1)
    result: dict[str, Any] = {"device": device.identity(), "threads": 1, "networks": {}}
    peaks = {} if options.count else {precision: peak(device.best(), precision) for precision in PRECISIONS.values()}
    for name in chosen:
        say(f"{name} ...")
        row = ROWS[name]
        result["networks"][name] = counted(row) | (measured(row, peaks) if peaks else {})
    if peaks:
        result["peak_flops_per_s"] = {label(precision): round(each) for precision, each in peaks.items()}
    print(json.dumps(result | {"published": PUBLISHED}))


def counted(row: Row) -> dict[str, Any]:
    """Parameters and operations at full size."""
    with torch.device("meta"):
        model, batch = row.make(row.full), torch.empty(1, *row.full, dtype=torch.uint8)
    with FlopCounterMode(display=False) as counter:
        torch.autograd.backward(row.loss(model, batch)["loss"])
    flops = training_flops(model, lambda: row.loss(model, batch))
    return {
        "parameters": model.parameter_count,
        "sample": list(row.full),
        "flops_per_sample": flops,
        "flops_over_torch_s_count": flops / counter.get_total_flops(),
    }


def measured(row: Row, peaks: dict[str, float]) -> dict[str, Any]:
    """Speeds on this machine."""
    here = device.best()
    size = row.here if here.type == "cpu" else row.full
    with torch.device("meta"):
        model, one = row.make(size), torch.empty(1, *size, dtype=torch.uint8)
    flops = training_flops(model, lambda: row.loss(model, one))
    with seeded(0):
        model = row.make(size).to(here)
        samples = torch.randint(0, 2 if row.loss is elbo else 256, (STEPS * row.batch, *size), dtype=torch.uint8)
    share = round(flops / counted(row)["flops_per_sample"], 6)
    found: dict[str, Any] = {"measured_at": list(size), "size_over_full": share, "batch": row.batch}
    with tempfile.TemporaryDirectory(prefix="steersman-bench-") as folder:
        writer = GroupWriter(Path(folder) / "walker0000")
        writer.extend(FRAME, {"samples": samples.numpy()})
        writer.publish()
        frames = Frames(Path(folder))
        stream = Stream(Window(frames, frames.spans()), "samples", samples.nbytes)
        for precision, most in peaks.items():
            speeds = speed(model, stream, row, precision)
            rates = {kind: len(samples) / seconds for kind, seconds in speeds.items()}
            found[label(precision)] = {
                "samples_per_s_peak": round(rates["peak"], 3),
                "samples_per_s_sustained": round(rates["sustained"], 3),
                "flops_per_s_peak": round(flops * rates["peak"]),
                "flops_per_s_sustained": round(flops * rates["sustained"]),
                "share_of_peak": round(flops * rates["at_work"] / most, 3),
            }
    return found


def speed(model: Model, stream: Stream, row: Row, precision: str) -> dict[str, float]:
    """Seconds of an epoch: computing alone, with input, and by the clock of shares; after one that warms up."""
    settings: dict[str, Any] = {"epochs": 1, "batch": row.batch, "lr": LR, "precision": precision}
    fit(model, stream, row.loss, **settings)
    clock = clock_of(model.device)
    began = clock()
    record = fit(model, stream, row.loss, **settings).history[-1]
    at_work = clock() - began
    computing = sum(record[lap] for lap in ("FwdTime", "BwdTime", "WtUpdateTime"))
    return {"peak": computing, "sustained": record["seconds"], "at_work": at_work}


def label(precision: str) -> str:
    """On a CPU tf32 is fp32."""
    return "fp32" if precision == "tf32" and device.best().type == "cpu" else precision


if __name__ == "__main__":
    main(sys.argv[1:])
