"""How long a network takes to become good: `steersman bench quality --json` prints one JSON object, and writes a log.

A CVAE learns 4,096 drawn contact maps of 28 residues, read from Zarr, until it rebuilds 1,024 others with an error of
at most --target nats a pixel (the mean binary cross-entropy), which is measured after each epoch. time_to_quality_s is
by MLPerf HPC's rules: it begins when the data are first touched, after the network was made and warmed up on random
numbers, and ends when the quality is reached, reading and evaluating included; null where --epochs were not enough.
at_work_s: of it, processor time. The log has the events of mllog, a line each (`:::MLLOG {...}`). One thread.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TextIO

import torch

from steersman.benchmarks.networks import chains
from steersman.benchmarks.three_figures import rounded
from steersman.benchmarks.train import say
from steersman.models import CVAE, device
from steersman.models.fitting.fit import Record, evaluate, fit, seeded
from steersman.models.networks.cvae import elbo
from steersman.store import FRAME, Frames, GroupWriter, Window

SIZE, TRAIN, EVAL = 28, 4096, 1024  # residues, maps
SETTINGS: dict[str, Any] = {"batch": 128, "lr": 2e-3, "optimizer": "adam"}


class Reached(Exception):
    """Ends a training that is good enough."""


class Log:
    """Events in the format of mllog, a line each.

    Source: github.com/mlcommons/logging, mlperf_logging/mllog; the keys are those of its rules for HPC 3.0.
    """

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def event(self, key: str, value: Any = None, kind: str = "POINT_IN_TIME", **metadata: Any) -> int:
        """Write that something happened now. Returns: when, in milliseconds."""
        now = time.time_ns() // 10**6
        entry = {"namespace": "", "time_ms": now, "event_type": kind, "key": key, "value": value, "metadata": metadata}
        print(":::MLLOG", json.dumps(entry), file=self._file)
        return now

    def start(self, key: str, **metadata: Any) -> int:
        return self.event(key, None, "INTERVAL_START", **metadata)

    def stop(self, key: str, **metadata: Any) -> int:
        return self.event(key, None, "INTERVAL_END", **metadata)


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(prog="steersman bench quality", description=__doc__)
    parser.add_argument("--target", type=float, default=0.002, help="nats a pixel (0.002)")
    parser.add_argument("--epochs", type=int, default=40, help="at most (40)")
    parser.add_argument("--seed", type=int, default=0, help="of the first weights and the shuffling (0)")
    parser.add_argument("--log", type=Path, default=Path("quality.log"), help="file of the events (quality.log)")
    parser.add_argument("--json", action="store_true", help="the only format there is")
    options = parser.parse_args(list(arguments))
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory(prefix="steersman-bench-") as folder, options.log.open("w") as file:
        frames = {name: recorded(Path(folder) / name, count) for name, count in (("train", TRAIN), ("eval", EVAL))}
        found = measured(frames, Log(file), options.target, options.epochs, options.seed)
    facts = {"device": device.identity(), "threads": 1, "network": f"cvae_{SIZE}", "log": str(options.log)}
    print(json.dumps(facts | found))


def recorded(path: Path, count: int) -> Path:
    """Write drawn maps as a walker would; those to learn and those to judge differ."""
    writer = GroupWriter(path / "walker0000")
    writer.extend(FRAME, {"contacts": chains(count, SIZE, seed=count).numpy()})
    writer.publish()
    return path


def measured(frames: dict[str, Path], log: Log, target: float, epochs: int, seed: int) -> dict[str, Any]:
    """Train until the quality is reached, and log it."""
    facts = {
        "submission_benchmark": f"cvae_{SIZE}", "submission_org": "steersman", "submission_division": "open",
        "submission_status": "research", "submission_platform": device.identity(), "cache_clear": False, "seed": seed,
        "train_samples": TRAIN, "eval_samples": EVAL, "global_batch_size": SETTINGS["batch"],
        "opt_name": SETTINGS["optimizer"], "opt_base_learning_rate": SETTINGS["lr"],
    }  # fmt: skip
    for key, value in facts.items():
        log.event(key, value)
    log.start("init_start")
    model = made(seed)
    log.stop("init_stop")

    at_work, began = time.process_time(), log.start("run_start")
    errors = learned(model, maps(frames["train"]), maps(frames["eval"]), log, target, epochs, seed)
    reached = errors[-1] <= target
    ended, at_work = log.stop("run_stop", status="success" if reached else "aborted"), time.process_time() - at_work
    return {
        "target": target,
        "time_to_quality_s": rounded((ended - began) / 1e3) if reached else None,
        "at_work_s": rounded(at_work),
        "epochs": len(errors),
        "errors": [rounded(error) for error in errors],
    }


def made(seed: int) -> CVAE:
    """A network with first weights, on its device; another one took a step, so that torch is loaded and warm."""
    noise = torch.rand(SETTINGS["batch"], SIZE, SIZE)
    fit(CVAE(SIZE).to(device.best()), noise, elbo, epochs=1, **SETTINGS)
    with seeded(seed):
        return CVAE(SIZE).to(device.best())


def maps(path: Path) -> torch.Tensor:
    """Read all maps of a store."""
    found = Frames(path)
    return torch.from_numpy(Window(found, found.spans())["contacts"])


def learned(
    model: CVAE, train: torch.Tensor, held_out: torch.Tensor, log: Log, target: float, epochs: int, seed: int
) -> list[float]:
    """Fit until the error is at most the target. Returns: the error on what was held out, nats a pixel, per epoch."""
    errors: list[float] = []

    def judge(record: Record) -> None:
        epoch = len(errors) + 1
        log.stop("epoch_stop", epoch_num=epoch)
        log.start("eval_start", epoch_num=epoch)
        errors.append(evaluate(model, held_out, elbo)["reconstruction"] / SIZE**2)
        log.event("eval_error", errors[-1], epoch_num=epoch)
        log.stop("eval_stop", epoch_num=epoch)
        say(f"epoch {epoch}: {errors[-1]:.4f} nats a pixel, {record['seconds']:.1f} s")
        if errors[-1] <= target or epoch == epochs:
            raise Reached
        log.start("epoch_start", epoch_num=epoch + 1)

    log.start("epoch_start", epoch_num=1)
    with contextlib.suppress(Reached):
        fit(model, train, elbo, epochs=epochs, seed=seed, report=judge, **SETTINGS)
    return errors


if __name__ == "__main__":
    main(sys.argv[1:])
