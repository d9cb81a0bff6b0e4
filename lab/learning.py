"""What ranks are worth to learning: `python -m lab.learning` prints one JSON object.

An autoencoder (the CVAE with beta 0, whose loss falls steadily; with more the wait until its latent space unfolds is
random) learns contact maps by SGD at a fixed rate until its held-out loss, of the averaged weights, is at most 3 nats
per map; the best constant map has 12.4. For p ranks with local SGD: per-epoch speed-up
S_p = tau_1 / tau_p, tau being the median seconds of an epoch; epochs N_p of each seed, null where the threshold was
never reached (censored); learning speed-up S_L = (tau_1 N_1) / (tau_p N_p) with the medians of N over the seeds, null
where the median is censored. Each also with the rate scaled by p after a warm-up of an epoch (lr_scale), and, to tell
what the larger rate alone is worth, one rank with the same rates. Ranks beyond the cores are marked oversubscribed.
`model`: a cost model fitted to the computing of an epoch on one rank and to bare allreduces of the weights, with its
prediction for more ranks, see cost_model.py. Source: DeepEx (Yoginath et al.).
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.distributed as dist

from lab.cost_model import CostModel, summary
from steersman.benchmarks.networks import chains
from steersman.benchmarks.train import Figures, say, timed
from steersman.models import CVAE, Schedule
from steersman.models.fitting.fit import Record, evaluate, fit, seeded
from steersman.models.networks.cvae import elbo
from steersman.models.ranks.launch import launch

SIZE, MAPS, HELD_OUT, BATCH, LR = 10, 2048, 512, 32, 0.02
THRESHOLD = 3.0  # nats per map
SYNCS = {1: (1,), 2: (1, 4, 16), 4: (1, 4, 16)}  # per epoch, by ranks
LR_SCALES = {1: (1, 2, 4), 2: (1, 2), 4: (1, 4)}


class Kind(NamedTuple):
    """Of a training."""

    ranks: int
    syncs: int
    lr_scale: int


ALONE = Kind(1, 1, 1)


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(prog="python -m lab.learning", description=__doc__)
    parser.add_argument("--seeds", type=int, default=3, help="trainings of each kind")
    parser.add_argument("--epochs", type=int, default=20, help="the most of each training")
    parser.add_argument("--json", action="store_true", help="the only format there is")
    chosen = parser.parse_args(list(arguments))
    curves: dict[Kind, list[list[Record]]] = {}
    allreduce_s: dict[int, float] = {}
    with tempfile.TemporaryDirectory(prefix="steersman-bench-") as folder:
        for ranks in SYNCS:
            say(f"{ranks} ranks ...")
            kinds = [Kind(ranks, syncs, scale) for scale in LR_SCALES[ranks] for syncs in SYNCS[ranks]]
            wanted = {"seeds": chosen.seeds, "epochs": chosen.epochs, "kinds": kinds}
            target = "lab.learning:learn"
            made = launch(target, wanted, ranks=ranks, strategy="local_sgd", folder=Path(folder) / str(ranks))
            curves |= dict(zip(kinds, made.card["curves"], strict=True))
            if ranks > 1:
                allreduce_s[ranks] = made.card["allreduce_s"]
    computing = statistics.median(record["TotalCompTime"] for curve in curves[ALONE] for record in curve[1:])
    model = summary(CostModel.fitted(computing, allreduce_s), allreduce_s)
    print(json.dumps(compared(curves, THRESHOLD) | {"model": model}))


def learn(seeds: int, epochs: int, kinds: list[list[int]]) -> Figures:
    """One rank: train in every way with every seed; the card has each epoch's record, by kind and seed."""
    figures = Figures()
    curves = [[learned(seed, epochs, Kind(*kind)) for seed in range(seeds)] for kind in kinds]
    figures.card = {"curves": curves, "allreduce_s": allreduce()}
    return figures


def learned(seed: int, epochs: int, kind: Kind) -> list[Record]:
    """One training: each epoch's record with its held-out loss."""
    data, held_out = chains(MAPS, SIZE), chains(HELD_OUT, SIZE, seed=1)
    with seeded(seed):
        model = CVAE(SIZE, latent=8, beta=0.0)

    def report(record: Record) -> None:
        record["held_out"] = evaluate(model, held_out, elbo)["loss"]

    scaled = Schedule(lr_scale=kind.lr_scale, warmup_epochs=1.0 if kind.lr_scale > 1 else 0.0)
    fit(
        model, data, elbo, epochs=epochs, batch=BATCH, lr=LR, schedule=scaled, seed=seed, optimizer="sgd",
        strategy=f"local_sgd({kind.syncs})", report=report,
    )  # fmt: skip
    return model.history


def allreduce() -> float:
    """Median seconds of a bare allreduce of the network's weights, of 30; the ranks begin together."""
    weights, seconds = torch.ones(CVAE(SIZE, latent=8).parameter_count), []
    for _ in range(30):
        dist.barrier()
        seconds.append(timed(lambda: dist.all_reduce(weights)))
        weights.fill_(1)
    return statistics.median(seconds)


def compared(curves: dict[Kind, list[list[Record]]], threshold: float) -> dict[str, Any]:
    """Curves by kind, one for each seed -> speed-ups over one rank."""
    alone = curves[ALONE]
    tau_1, n_1 = tau(alone), middle([reached(curve, threshold) for curve in alone])
    rows = []
    for kind, family in curves.items():
        epochs = [reached(curve, threshold) for curve in family]
        n_p, tau_p = middle(epochs), tau(family)
        rows.append({
            "ranks": kind.ranks,
            "oversubscribed": kind.ranks > (os.cpu_count() or 1),
            "syncs_per_epoch": kind.syncs,
            "lr_scale": kind.lr_scale,
            "tau_s": round(tau_p, 4),
            "sync_share": round(sum_of(family, "SyncTime") / sum_of(family, "seconds"), 3),
            "S_p": round(tau_1 / tau_p, 3),
            "S_L": None if n_1 is None or n_p is None else round(tau_1 * n_1 / (tau_p * n_p), 3),
            "epochs": epochs,
            "censored": sum(each is None for each in epochs),
            "held_out_at_the_end": [round(curve[-1]["held_out"], 3) for curve in family],
        })  # fmt: skip
    settings = {"maps": MAPS, "size": SIZE, "batch": BATCH, "lr": LR, "optimizer": "sgd", "seeds": len(alone)}
    settings |= {"most_epochs": len(alone[0]), "threads_per_rank": 1, "cores": os.cpu_count()}
    return {"threshold": threshold, "rows": rows, "settings": settings}


def tau(family: list[list[Record]]) -> float:
    """Median seconds of an epoch, without each training's first."""
    return statistics.median(record["seconds"] for curve in family for record in curve[1:])


def sum_of(family: list[list[Record]], label: str) -> float:
    return sum(record[label] for curve in family for record in curve)


def reached(curve: list[Record], threshold: float) -> int | None:
    """Epochs until the held-out loss is at most the threshold; None: never."""
    return next((epoch for epoch, record in enumerate(curve, 1) if record["held_out"] <= threshold), None)


def middle(epochs: list[int | None]) -> float | None:
    """Median, where never counts as later than any; None when that is the median."""
    median = statistics.median([float("inf") if each is None else each for each in epochs])
    return None if median == float("inf") else median


if __name__ == "__main__":
    main(sys.argv[1:])
