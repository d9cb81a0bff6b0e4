"""How often does it storm behind a mountain? Members of a stirred flow, split by what a network says will come of them.

    python -m lab.extremes reference --keep FOLDER
    python -m lab.extremes replicas --keep FOLDER --score network --p 1e-3 --seeds 0 20 >> network.jsonl
    python -m lab.extremes table *.jsonl --figure docs/figures/extremes.png

The flow is `stirred_mountains` at T15: four equal mountains in each hemisphere, so eight boxes behind them are alike.
The outcome of a window of ten days is the wind across the jet, the root of the mean of v^2 (m/s) over a box of 30 to 60
degrees and 45 degrees behind a mountain, and over days 8, 9 and 10. The reference is a long run. A replica spends 9,600
member-days: five windows of plain sampling, from which a forecast is learned, then ten of members that are split by it.
All begin at states of the reference. Plain sampling needs no trial: of n windows its relative error is
sqrt((1 - p) / (n p)).
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch

from steersman.apps import shallow_water as sw
from steersman.apps.shallow_water.forecasts import truncated
from steersman.apps.shallow_water.solver import latitudes, solver_of
from steersman.models import Outlook
from steersman.stages.start import Start
from steersman.steering.splitting import interval, split, worths
from steersman.steering.weighted_ensemble import resample

FLOW: dict[str, object] = {
    "case": "stirred_mountains",
    "truncation": 15,
    "step_s": 8640.0,
    "report_hours": 24.0,
    "diffusion_hours": 24.0,
}
SPIN_UP, EVERY = 150, 250  # days; days between two states that are kept
RUNS, TOGETHER = 2, 32  # of the reference, and members of each
DAYS, COUNTED, MEMBERS = 10, 3, 64  # of a window; its last days, whose mean is the outcome
PLAIN, STEERED = 5, 10  # windows without a forecast, and with one
DEFENSIVE = 0.1
BINS = (0.5, 0.75, 0.9, 0.95, 0.98, 0.99, 0.995)  # quantiles of the day's value between them
STEPS_S = {15: 8640.0, 21: 5760.0}  # truncation -> of a step
COARSE = 10  # truncation of a solver that forecasts
ALONE = 10**9  # a batch larger than all rows: the network learns nothing, and the regression is alone


def boxes(v: np.ndarray) -> np.ndarray:
    """(..., 8) mean of v^2 over the boxes of the northern hemisphere, from longitude 0 on; the mountains are at 0, 90,
    180 and 270 degrees, so every second one is behind one."""
    north = latitudes(v.shape[-2])[: v.shape[-2] // 2]
    rows = np.flatnonzero((north > 30) & (north < 60))
    area = np.cos(np.radians(north[rows]))[:, None]
    mean = (v[..., rows, :] ** 2 * area).sum(-2) / area.sum()
    return np.asarray(mean.reshape(*mean.shape[:-1], 8, -1).mean(-1))


def reference(days: int, keep: Path, flow: dict[str, object] = FLOW) -> None:
    """Write the values of the eight boxes of each day, and states, of long runs."""
    keep.mkdir(parents=True, exist_ok=True)
    parts = [long_run(days, number, flow) for number in range(RUNS)]
    values, states = (np.concatenate(each, axis) for each, axis in zip(zip(*parts, strict=True), (1, 0), strict=True))
    np.savez(keep / "reference.npz", values=values, states=states)


def long_run(days: int, number: int, flow: dict[str, object]) -> tuple[np.ndarray, np.ndarray]:
    """(days, members, 8) values of the boxes, and states (n, ...)."""
    seeds = [[20261128, number, member] for member in range(TOGETHER)]
    run = sw.run_members([Start()] * TOGETHER, seeds=seeds, days=SPIN_UP + days, **flow)  # type: ignore[arg-type]
    values, states = [], []
    for day, frames in enumerate(run, 1 - SPIN_UP):
        if day > 0:
            v = np.stack([frame.v for frame in frames])  # type: ignore[union-attr]
            values.append(np.concatenate([boxes(v)[:, ::2], boxes(v[:, ::-1])[:, ::2]], 1).astype(np.float32))
        if day > 0 and not day % EVERY:
            states.append(np.stack([frame.state for frame in frames]))  # type: ignore[union-attr]
    return np.stack(values), np.concatenate(states)


def outcomes(values: np.ndarray) -> np.ndarray:
    """(days, members x boxes) outcome of a window that would end on each day, of values v^2."""
    flat = values.reshape(len(values), -1)
    days = np.stack([flat[k : len(flat) - COUNTED + 1 + k] for k in range(COUNTED)])
    return np.asarray(np.sqrt(days.mean(0)))


@dataclass
class Split:
    """One window of members, a list entry for each day; members of a day descend from those of the day before.

    Attributes:
        own: (members, 2) root of the box's v^2, of the day and of the day before.
        fields: (members, 5, rows, columns) height, u, v, and these two everywhere.
        outcome: (members,) of a window that would end on this day.
        coarse: (members, days left) the same of each day that is left, by a coarser solver without noise; or nothing.
        coarse_s: CPU seconds that this took.
        weights, parents: (members,) of a day, and their places in the day before.
    """

    fields: list[np.ndarray] = field(default_factory=list)
    own: list[np.ndarray] = field(default_factory=list)
    outcome: list[np.ndarray] = field(default_factory=list)
    coarse: list[np.ndarray] = field(default_factory=list)
    coarse_s: float = 0.0
    weights: list[np.ndarray] = field(default_factory=list)
    parents: list[np.ndarray] = field(default_factory=list)

    def ancestors(self, day: int, last: int = DAYS - 1) -> np.ndarray:
        """Places in a day of those that the members of a later one descend from."""
        place = np.arange(len(self.outcome[last]))
        for later in range(last, day, -1):
            place = self.parents[later][place]
        return place

    def inputs(self, score: str, day: int, last: int) -> np.ndarray:
        """(members, ...) what a forecast sees on a day of what will come until a later one."""
        if score == "coarse":
            return self.coarse[day][:, last - day - 1, None]
        return self.own[day] if score == "own" else self.fields[day]


class Quiet:
    """Draws no noise."""

    def standard_normal(self, shape: tuple[int, ...]) -> np.ndarray:
        return np.zeros(shape)


def foreseen(states: np.ndarray, days: np.ndarray, left: int) -> np.ndarray:
    """(members, left) outcomes of windows that end 1, 2, ... days later. Args: days: (members, COUNTED) so far."""
    model, _ = solver_of(str(FLOW["case"]), COARSE, 24.0, diffusion_hours=24.0)
    state = truncated(model, torch.view_as_complex(torch.from_numpy(states)).permute(1, 2, 3, 0))  # type: ignore[arg-type]
    outcome = []
    for _ in range(left):
        for _ in range(round(86400 / model.step_s)):
            state = model.forced(model.step(state), [Quiet()] * len(days))  # type: ignore[list-item]
        days = np.column_stack([np.sqrt(boxes(model.shown(state)["v"].numpy())[:, 0]), days[:, :-1]])
        outcome.append(np.sqrt((days**2).mean(1)))
    return np.stack(outcome, 1)


Choose = Callable[[Split, int], list[tuple[int, float]]]


def simulate(
    starts: np.ndarray, seed: int, choose: Choose, flow: dict[str, object] = FLOW, coarse: bool = False
) -> Split:
    """Simulate a window; after each day but the last, `choose` says which members go on, with which weights."""
    window, states, rng = Split(), starts, np.random.default_rng(seed)
    weights, parents = np.full(len(starts), 1 / len(starts)), np.arange(len(starts))
    days = np.zeros((len(starts), COUNTED))  # of each member its newest values, the last one first
    for day in range(DAYS):
        seeds = rng.integers(2**63, size=len(states))
        begun = [Start(frame={"state": state}) for state in states]
        (frames,) = sw.run_members(begun, seeds=seeds, days=1, **flow)  # type: ignore[arg-type]
        fields = np.stack([np.stack([f.height, f.u, f.v]) for f in frames])  # type: ignore[union-attr]
        value = np.sqrt(boxes(fields[:, 2])[:, 0])
        fields = fields[:, :, : fields.shape[2] // 2]  # of the northern hemisphere
        days = np.column_stack([value, days[parents, :-1]])
        window.own.append(days[:, :2])
        everywhere = np.broadcast_to(days[:, :2, None, None], (len(value), 2, *fields.shape[2:]))
        window.fields.append(np.concatenate([fields, everywhere], 1))
        window.outcome.append(np.sqrt((days**2).mean(1)))
        window.weights.append(weights)
        window.parents.append(parents)
        if day < DAYS - 1:
            if coarse:
                now = np.stack([frame.state for frame in frames])  # type: ignore[union-attr]
                began = time.process_time()
                window.coarse.append(foreseen(now, days, DAYS - 1 - day))
                window.coarse_s += time.process_time() - began
            chosen = choose(window, day)
            parents, weights = np.array([i for i, _ in chosen]), np.array([w for _, w in chosen])
            states = np.stack([frames[i].state for i in parents])  # type: ignore[union-attr]
    return window


def plain(window: Split, day: int) -> list[tuple[int, float]]:
    return list(enumerate(window.weights[-1].tolist()))


def by_bins(edges: np.ndarray, rng: np.random.Generator) -> Choose:
    """Equally many members in each bin of the day's value, as a weighted ensemble has them."""

    def choose(window: Split, day: int) -> list[tuple[int, float]]:
        bins, weights, chosen = np.digitize(window.own[-1][:, 0], edges), window.weights[-1], []
        for each in np.unique(bins):
            mine = np.flatnonzero(bins == each)
            chosen += [(int(mine[i]), w) for i, w in resample(weights[mine].tolist(), MEMBERS // (len(edges) + 1), rng)]
        return chosen

    return choose


def by_forecast(model: Outlook, score: str, later: np.ndarray, above: float, rng: np.random.Generator) -> Choose:
    """As `Splitting` chooses. Args: later: (days,) usual spread of the next day."""

    def choose(window: Split, day: int) -> list[tuple[int, float]]:
        mean, spread = model.forecast(window.inputs(score, day, DAYS - 1), float(DAYS - 1 - day))
        worth = worths(mean, spread, np.minimum(later[day], spread), above)
        return split(window.weights[-1], worth, (mean - above) / spread, MEMBERS, DEFENSIVE, rng)

    return choose


def learned(windows: Sequence[Split], score: str) -> tuple[Outlook, np.ndarray]:
    """A forecast from all windows so far, and the usual spread of the one a day later, for each day.

    The flow is stationary, so a state tells of any later day as of the last.
    """
    rows = []
    for number, window in enumerate(windows):
        for last in range(COUNTED - 1, DAYS):
            for day in range(last):
                place, came = window.ancestors(day, last), window.outcome[last]
                counted = window.weights[last]
                first = number * MEMBERS + window.ancestors(0, last)
                inputs = window.inputs(score, day, last)[place]
                rows.append((inputs, came, np.full(len(came), float(last - day)), counted, first))
    inputs, outcome, lead, weights, groups = (np.concatenate(each) for each in zip(*rows, strict=True))
    batch = ALONE if score == "linear" else 64
    model = Outlook.fit(inputs, outcome, lead=lead, weights=weights, groups=groups, batch=batch)
    spread = model.forecast(inputs, lead)[1]
    usual = [float(np.median(spread[lead == left])) for left in range(1, DAYS)]  # of each time left
    return model, np.array([*usual[-2::-1], 0.0])


def replica(keep: Path, score: str, above: float, seed: int, flow: dict[str, object] = FLOW) -> dict[str, object]:
    """One estimate, and what it cost."""
    archive = np.load(keep / "reference.npz")["states"]
    rng, began, trained_s = np.random.default_rng([seed, 1]), time.process_time(), 0.0
    windows, model, estimates, roots, days = list[Split](), None, [], [], 0
    for number in range(PLAIN + STEERED):
        choose: Choose = plain
        if number >= PLAIN and score == "bins" and number == PLAIN:
            edges = np.quantile(np.concatenate([own[:, 0] for w in windows for own in w.own]), BINS)
        if number >= PLAIN and score not in ("bins", "plain") and number == PLAIN:
            before = time.process_time()
            model, later = learned(windows, score)
            trained_s += time.process_time() - before
        if number >= PLAIN and score == "bins":
            choose = by_bins(edges, rng)
        elif number >= PLAIN and model is not None:
            choose = by_forecast(model, score, later, above, rng)
        places = ((np.arange(MEMBERS) + rng.random()) / MEMBERS * len(archive)).astype(int)
        windows.append(
            simulate(rng.permutation(archive)[places], int(rng.integers(2**63)), choose, flow, score == "coarse")
        )
        days += sum(map(len, windows[-1].outcome))
        trained_s += windows[-1].coarse_s
        if number >= PLAIN:
            beyond = windows[-1].weights[-1] * (windows[-1].outcome[-1] > above)
            estimates.append(float(beyond.sum()))
            roots.append(float(np.bincount(windows[-1].ancestors(0), beyond).max()))
    low, high = interval(np.array(estimates))
    cpu_s, total = time.process_time() - began, sum(estimates)
    return {
        "score": score, "above": above, "seed": seed, "estimate": float(np.mean(estimates)), "low": low, "high": high,
        "windows": estimates, "largest_window": max(estimates) / total if total else math.nan,
        "largest_member": max(roots) / total if total else math.nan, "member_days": days, "cpu_s": cpu_s,
        "trained_s": trained_s, "taken": model.card["taken"] if model else "",
    }  # fmt: skip


def main(argv: Sequence[str] | None = None) -> None:
    """Make the reference, or replicas as JSON lines, or the table of them as one JSON object."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    verbs = parser.add_subparsers(dest="verb", required=True)
    long, some, table = (verbs.add_parser(name) for name in ("reference", "replicas", "table"))
    long.add_argument("--days", type=int, default=15_750, help="of each member of the reference")
    for each in (long, some):
        each.add_argument("--keep", type=Path, required=True)
        each.add_argument("--truncation", type=int, choices=STEPS_S, default=15)
    some.add_argument("--score", choices=("plain", "bins", "own", "coarse", "linear", "network"), required=True)
    some.add_argument("--p", type=float, default=1e-3)
    some.add_argument("--seeds", type=int, nargs=2, default=(0, 20))
    table.add_argument("lines", type=Path, nargs="+")
    given = parser.parse_args(argv)
    torch.set_num_threads(1)
    if given.verb != "table":
        flow = FLOW | {"truncation": given.truncation, "step_s": STEPS_S[given.truncation]}
    if given.verb == "reference":
        reference(given.days, given.keep, flow)
    elif given.verb == "replicas":
        above = float(np.quantile(outcomes(np.load(given.keep / "reference.npz")["values"]), 1 - given.p))
        for seed in range(*given.seeds):
            made = replica(given.keep, given.score, above, seed, flow)
            print(json.dumps({"p": given.p, "truncation": given.truncation} | made), flush=True)
    else:
        lines = [json.loads(line) for file in given.lines for line in file.read_text().splitlines()]
        json.dump(summary(lines), sys.stdout, indent=1)


def summary(lines: Sequence[dict[str, object]]) -> list[dict[str, object]]:
    """For each score and p: relative error, bias, coverage, and how many plain member-days the same error takes."""
    found = []
    for p, score in sorted({(float(str(each["p"])), str(each["score"])) for each in lines}):
        mine = [each for each in lines if (each["p"], each["score"]) == (p, score)]
        value = np.array([each["estimate"] for each in mine], float) / p
        squares = (value - 1) ** 2
        rng = np.random.default_rng(1)
        again = squares[rng.integers(len(squares), size=(4000, len(squares)))].mean(1)
        days = np.mean([float(str(each["member_days"])) for each in mine])
        cpu = np.array([[float(str(each[name])) for name in ("cpu_s", "trained_s")] for each in mine]).mean(0)
        alone = (1 - p) / p * DAYS / days  # squared relative error of plain sampling of as many member-days
        gains = alone / np.array([squares.mean(), *np.quantile(again, (0.975, 0.025))])
        few = [not max(float(str(each[n])) for n in ("largest_window", "largest_member")) <= 1 / 3 for each in mine]
        held = [float(str(each["low"])) <= p <= float(str(each["high"])) for each in mine]
        found.append({
            "p": p, "score": score, "replicas": len(mine), "mean": value.mean(),
            "mean_error": value.std(ddof=1) / math.sqrt(len(value)), "relative_error": math.sqrt(squares.mean()),
            "error_low": math.sqrt(np.quantile(again, 0.025)), "error_high": math.sqrt(np.quantile(again, 0.975)),
            "gain": gains[0], "gain_low": gains[1], "gain_high": gains[2],
            "gain_with_training": gains[0] * (cpu[0] - cpu[1]) / cpu[0], "covered": float(np.mean(held)),
            "too_few": float(np.mean(few)), "member_days": days, "cpu_s": cpu[0], "trained_s": cpu[1],
        })  # fmt: skip
    return found


if __name__ == "__main__":
    main()
