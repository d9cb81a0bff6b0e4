"""How fast the networks' kernels are, each alone: `steersman bench kernels --json` prints one JSON object.

For each network of `bench networks` and each kind of kernel, conv2d, conv3d and matmul (the product of a dense layer):
the layer with the most operations, with the shape and the batch that it has when `bench networks` measures the network.
For fp32 (on a GPU tf32) and bf16, weights and input in that type: flops_per_s of the forward pass, and of the backward
pass, which computes the gradients of weights and input and costs twice the operations; share_of_peak: over those of a
product of two square matrices in the same precision. The best of some calls, on a CPU by processor time, on a GPU by
wall time. One thread. A share is above 1 where the library of convolutions is better than that of products (on AMD's
processors oneDNN's use AVX-512 and are twice as fast as MKL's product in fp32), or takes fewer operations than counted.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from steersman.benchmarks.flops import forward_flops
from steersman.benchmarks.network_table import ROWS, Row, label
from steersman.benchmarks.three_figures import rounded
from steersman.benchmarks.train import PRECISIONS, clock_of, peak, say, timed
from steersman.models import device
from steersman.models.fitting.fit import seeded
from steersman.models.steps.precision import TYPES, Precision
from steersman.system.errors import UnknownName

KINDS = {nn.Conv2d: "conv2d", nn.Conv3d: "conv3d", nn.Linear: "matmul"}
FEWEST, MOST, ENOUGH_S = 3, 100, 0.3  # calls that are timed, and how long at least between the two


@dataclass(frozen=True)
class Kernel:
    """A layer and its input, both on the meta device, and the operations of its forward pass."""

    layer: nn.Module
    taken: Tensor
    flops: int


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(prog="steersman bench kernels", description=__doc__)
    parser.add_argument("--json", action="store_true", help="the only format there is")
    parser.add_argument("--only", metavar="NAME", action="append", help=f"one of {', '.join(ROWS)}; may be repeated")
    options = parser.parse_args(list(arguments))
    chosen = options.only or list(ROWS)
    for name in chosen:
        if name not in ROWS:
            raise UnknownName("network", name, ROWS)
    torch.set_num_threads(1)
    peaks = {precision: peak(device.best(), precision) for precision in PRECISIONS.values()}
    found: dict[str, Any] = {}
    for name in chosen:
        for kind, kernel in largest(ROWS[name]).items():
            say(f"{kind} of {name} ...")
            found[f"{kind}_{name}"] = described(kernel) | measured(kernel, peaks)
    rates = {"peak_flops_per_s": {label(precision): round(each) for precision, each in peaks.items()}, "kernels": found}
    print(json.dumps({"device": device.identity(), "threads": 1} | rates))


def largest(row: Row) -> dict[str, Kernel]:
    """Give the kernel of each kind that has the most operations in a network, as it is measured on this machine."""
    size = row.here if device.best().type == "cpu" else row.full
    found: dict[str, Kernel] = {}

    def look(layer: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        kind, flops = KINDS[type(layer)], forward_flops(layer, inputs[0], output)
        if kind not in found or flops > found[kind].flops:
            found[kind] = Kernel(layer, inputs[0].detach(), flops)

    with torch.device("meta"):
        model, batch = row.make(size), torch.empty(row.batch, *size, dtype=torch.uint8)
    hooks = [layer.register_forward_hook(look) for layer in model.modules() if type(layer) in KINDS]
    row.loss(model, batch)
    for hook in hooks:
        hook.remove()
    return found


def described(kernel: Kernel) -> dict[str, Any]:
    return {"layer": str(kernel.layer), "input": list(kernel.taken.shape), "flops": kernel.flops}


def measured(kernel: Kernel, peaks: dict[str, float]) -> dict[str, Any]:
    """Speeds on this machine, forward and backward, in each precision."""
    found: dict[str, Any] = {}
    for precision, most in peaks.items():
        with seeded(0), Precision(precision, device.best()).set():
            forward, backward = passes(kernel, TYPES[precision])
            rates = {"forward": kernel.flops / best_s(forward), "backward": 2 * kernel.flops / best_s(backward)}
        speeds = {f"{name}_flops_per_s": round(rate) for name, rate in rates.items()}
        shares = {f"{name}_share_of_peak": rounded(rate / most) for name, rate in rates.items()}
        found[label(precision)] = speeds | shares
    return found


def passes(kernel: Kernel, dtype: torch.dtype) -> tuple[Callable[[], object], Callable[[], object]]:
    """A call of each pass, on random numbers that lie in memory as the network's do."""
    layer = kernel.layer.to_empty(device=device.best()).to(dtype)
    for parameter in layer.parameters():
        nn.init.normal_(parameter, std=0.1)
    taken = torch.empty_like(kernel.taken, dtype=dtype, device=device.best()).normal_().requires_grad_()
    given = layer(taken)
    wanted, gradient = (taken, *layer.parameters()), torch.randn_like(given)
    return lambda: layer(taken), lambda: torch.autograd.grad(given, wanted, gradient, retain_graph=True)


def best_s(act: Callable[[], object]) -> float:
    """Least seconds of some calls, after one that warms up."""
    clock, seconds = clock_of(device.best()), [0.0]
    timed(act)
    while len(seconds) <= FEWEST or (len(seconds) <= MOST and sum(seconds) < ENOUGH_S):
        began = clock()
        timed(act)
        seconds.append(clock() - began)
    return min(seconds[1:])


if __name__ == "__main__":
    main(sys.argv[1:])
