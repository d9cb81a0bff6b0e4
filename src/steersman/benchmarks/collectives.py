"""How long ranks exchange: `steersman bench collectives --json` prints one JSON object.

Ranks are started as for a training and exchange over the same library (gloo between CPUs, NCCL between GPUs). For
messages of 1 KiB to 100 MiB of float32: took_s, seconds of one call of some, of the slowest rank in the best of some
rounds, and gb_per_s, the bytes of the message over them. The message is what each rank has in the end; in allgather
each gives its part of it.

alpha_s and beta_s_per_byte: seconds = alpha + beta bytes, by least squares of the relative errors, so that small
messages count as much as large ones; relative_error: their root mean square (both of logarithms). One thread a rank.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
from scipy.optimize import least_squares

from steersman.benchmarks.three_figures import rounded
from steersman.benchmarks.train import Figures, say, timed
from steersman.models import Model, device
from steersman.models.errors import at_least
from steersman.models.ranks.launch import launch

SIZES = (*(4**power * 1024 for power in range(9)), 100 * 2**20)  # bytes
CALLS = (1, 10, 2**20)  # of a round: at least, at most, and of how many bytes together
ROUNDS = (5, 50, 2**28)  # likewise; many short ones, since on a busy machine few are not disturbed


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(prog="steersman bench collectives", description=__doc__)
    parser.add_argument("--json", action="store_true", help="the only format there is")
    parser.add_argument("--ranks", type=int, default=2, help="processes of this machine (2)")
    options = parser.parse_args(list(arguments))
    at_least(2, ranks=options.ranks)
    say(f"{options.ranks} ranks ...")
    with tempfile.TemporaryDirectory(prefix="steersman-bench-") as folder:
        target = "steersman.benchmarks.collectives:exchanged"
        model = launch(target, {"sizes": SIZES}, ranks=options.ranks, strategy="ddp", folder=Path(folder))
    print(json.dumps({"ranks": options.ranks, **model.card}))


def exchanged(sizes: Sequence[int]) -> Model:
    """One rank: what each operation takes, for each size in bytes, in the card of a model."""
    figures = Figures()
    figures.card = {"device": device.identity(), "backend": dist.get_backend()}
    for name in ("allreduce", "broadcast", "allgather"):
        took = [measured(operation(name, size), size) for size in sizes]
        by_size = {
            str(size): {"took_s": rounded(each), "gb_per_s": rounded(size / each / 1e9)}
            for size, each in zip(sizes, took, strict=True)
        }
        figures.card[name] = alpha_beta(sizes, took) | {"bytes": by_size}
    return figures


def operation(name: str, size: int) -> Callable[[], object]:
    """A call of an operation on a message of that many bytes, or a little less, so that the ranks' parts are equal."""
    ranks = dist.get_world_size()
    whole = torch.zeros(size // 4 // ranks * ranks, device=device.best())
    parts = list(whole.chunk(ranks))
    mine = parts[0].clone()
    calls: dict[str, Callable[[], object]] = {
        "allreduce": lambda: dist.all_reduce(whole),
        "broadcast": lambda: dist.broadcast(whole, src=0),
        "allgather": lambda: dist.all_gather(parts, mine),
    }
    return calls[name]


def measured(act: Callable[[], object], size: int) -> float:
    """Seconds of a call: the best round, of each the slowest rank. All ranks make as many calls."""
    calls, rounds = (max(least, min(most, together // size)) for least, most, together in (CALLS, ROUNDS))
    seconds = torch.zeros(1 + rounds, dtype=torch.float64)  # the first warms up
    for turn in range(len(seconds)):
        dist.barrier()
        seconds[turn] = timed(lambda: [act() for _ in range(calls)]) / calls
    seconds = seconds.to(device.best())
    dist.all_reduce(seconds, op=dist.ReduceOp.MAX)
    return float(seconds[1:].min())


def alpha_beta(sizes: Sequence[int], seconds: Sequence[float]) -> dict[str, float]:
    """Fit seconds = alpha + beta bytes to times by least squares of the logarithms' differences: of relative errors.

    Args:
        sizes: bytes; at least two that differ.
        seconds: of each, above 0.
    Returns: alpha_s, beta_s_per_byte, and relative_error, the root mean square of these differences.
    Source: Hockney (1994), The communication challenge for MPP, Parallel Computing 20.
    """
    bytes_, times = np.asarray(sizes), np.asarray(seconds)

    def differences(logarithms: np.ndarray) -> np.ndarray:
        alpha, beta = np.exp(logarithms)
        return np.asarray(np.log((alpha + beta * bytes_) / times))

    found = least_squares(differences, np.log([times.min(), (times / bytes_).min()]), xtol=1e-12)
    alpha, beta = np.exp(found.x)
    error = float(np.sqrt(np.mean(found.fun**2)))
    return {"alpha_s": rounded(alpha), "beta_s_per_byte": rounded(beta), "relative_error": rounded(error)}


if __name__ == "__main__":
    main(sys.argv[1:])
