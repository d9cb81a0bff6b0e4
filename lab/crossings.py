"""How often does a dipeptide turn from extended to right-handed within a picosecond? Members split by what is forecast.

    python -m lab.crossings --keep FOLDER --arm plain --seeds 0 20 --out lines.jsonl      # goes on where it was stopped
    python -m lab.crossings --keep FOLDER --arm ranks --seeds 0 12 --out lines.jsonl
    python -m lab.crossings --keep FOLDER --out lines.jsonl                               # the table

Alanine dipeptide, 22 atoms in implicit solvent. A window is ten segments of 0.1 ps. Members begin at states of a long
trajectory with phi below -120 and psi above 130 degrees; a member has the event if its psi is within 60 degrees of -20
at the end. A seed of "plain" is 2,000 windows without steering: the reference. One of another arm is 16 windows of 64
members, of which the first four are plain sampling where the arm learns, and as much simulated time in bins.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from lab.extremes import DAYS as WINDOW
from lab.extremes import summary
from steersman.apps import molecular_dynamics as md
from steersman.models import Outlook
from steersman.stages.start import Start
from steersman.steering import NEW, Candidate, Scores, Splitting, WeightedEnsemble
from steersman.steering.splitting import interval

ARMS = ("plain", "bins", "psi", "outlook", "ranks")
SEGMENT_PS, MEMBERS, WINDOWS, PLAIN, EVERY = 0.1, 64, 16, 4, 3  # windows: all, the first ones, between two trainings
SETTINGS = {"temperature_K": 300.0, "duration_ps": SEGMENT_PS, "report_ps": SEGMENT_PS, "platform": "Reference"}
CHUNK, ARCHIVE_PS, APART = 2000, 4500.0, 10  # windows of one plain seed; frames between two states that are kept
PHI, PSI, TARGET, ABOVE = [4, 6, 8, 10], [6, 8, 10, 16], -20.0, -60.0  # atoms, degrees
EDGES = (-140.0, -120.0, -100.0, -80.0, -60.0)  # of bins of -|psi - TARGET|, with as many members each
IN_BIN = 12


def torsions(positions: np.ndarray) -> np.ndarray:
    """(n, 2) phi and psi, degrees."""
    return np.asarray(np.degrees([md.dihedral(positions[:, atoms]) for atoms in (PHI, PSI)])).T


def progress(angles: np.ndarray) -> np.ndarray:
    """(n,) how near psi is to the right-handed basin, degrees: at most 0."""
    return np.asarray(-np.abs((angles[:, 1] - TARGET + 180) % 360 - 180))


def archive(keep: Path, molecule: md.Molecule) -> np.ndarray:
    """(n, 2, 22, 3) positions and velocities of extended states, a picosecond apart or more."""
    file = keep / "extended.npy"
    if not file.exists():
        keep.mkdir(parents=True, exist_ok=True)
        states, last = [], 0
        run = md.run(Start(prepared=molecule), seed=7, **SETTINGS | {"duration_ps": ARCHIVE_PS})  # type: ignore[arg-type]
        for number, frame in enumerate(run):
            ((phi, psi),) = torsions(frame.state["positions"][None])
            if number >= last + APART and phi < -120 and psi > 130:
                states.append(np.stack([frame.state["positions"], frame.state["velocities"]]))
                last = number
        np.save(file, np.stack(states))
    return np.asarray(np.load(file))


def moved(molecule: md.Molecule, states: np.ndarray, rng: np.random.Generator, segments: int = 1) -> np.ndarray:
    """States (n, 2, 22, 3) one segment later, or several."""
    found = np.empty_like(states)
    settings = SETTINGS | {"duration_ps": segments * SEGMENT_PS}
    for each, (positions, velocities) in enumerate(states):
        start = Start(prepared=molecule, state={"positions": positions, "velocities": velocities})
        *_, frame = md.run(start, seed=int(rng.integers(2**31)), **settings)  # type: ignore[arg-type]
        found[each] = frame.state["positions"], frame.state["velocities"]
    return found


class Ensemble:
    """All members of a replica, in the order of rounds: columns of `Scores`, and the states of the newest round."""

    def __init__(self, molecule: md.Molecule, starts: np.ndarray, seed: int | list[int]) -> None:
        self.molecule, self.starts, self.rng = molecule, starts, np.random.default_rng(seed)
        self.parent, self.root, self.round = (np.empty(0, int) for _ in range(3))
        self.weight, self.angles, self.states = np.empty(0), np.empty((0, 2)), np.empty((0, 2, 22, 3))
        self.values = dict[str, np.ndarray]()

    def __len__(self) -> int:
        return len(self.weight)

    @property
    def x(self) -> np.ndarray:
        return progress(self.angles)

    def inputs(self) -> np.ndarray:
        radians = np.radians(self.angles)
        return np.concatenate([np.cos(radians), np.sin(radians)], 1)

    def advance(self, members: Sequence[Candidate]) -> None:
        old, count, new = len(self) - len(self.states), len(self), np.array([each.index for each in members])
        places = [np.ravel(each.draw["point"])[0] if each.draw else 0.0 for each in members]
        begun = [
            self.starts[int(place * len(self.starts))] if at == NEW else self.states[at - old]
            for at, place in zip(new, places, strict=True)
        ]
        fresh = count + np.arange(len(new))
        self.root = np.append(self.root, np.where(new == NEW, fresh, self.root[new] if count else fresh))
        self.round = np.append(self.round, np.full(len(new), self.round.max(initial=0) + 1))
        self.parent, self.weight = np.append(self.parent, new), np.append(self.weight, [m.weight for m in members])
        self.states = moved(self.molecule, np.stack(begun), self.rng)
        self.angles = np.concatenate([self.angles, torsions(self.states[:, 0])])

    def scores(self) -> Scores:
        at = np.arange(len(self))
        values = {"x": self.x - ABOVE} | self.values
        return Scores(at, at, at, at, at >= 0, values, 1, weight=self.weight, round=self.round, root=self.root)

    def fates(self) -> tuple[np.ndarray, ...]:
        """Rows, the members at the end of windows that descend from them, and segments that were left."""
        ends = np.flatnonzero(self.round % WINDOW == 0)
        rows = [ends]
        for _ in range(WINDOW - 1):
            rows.append(self.parent[rows[-1]])
        left = np.arange(1, WINDOW)
        return np.concatenate(rows[1:]), np.tile(ends, WINDOW - 1), np.repeat(left, len(ends))


def learned(ensemble: Ensemble, ranks: bool, last: Outlook | None) -> Outlook:
    rows, ends, left = ensemble.fates()
    told = {"lead": left, "weights": ensemble.weight[ends], "groups": ensemble.root[ends], "ranks": ranks}
    return Outlook.fit(ensemble.inputs()[rows], ensemble.x[ends], init=last, **told)


def forecast(ensemble: Ensemble, arm: str, model: Outlook | None) -> dict[str, np.ndarray]:
    """Mean and spread for all members, of the progress at the end less ABOVE."""
    left = (-ensemble.round % WINDOW).astype(float)
    if model is not None:
        mean, spread = model.forecast(ensemble.inputs(), left)
        return {"mean": mean - model.ranked(ABOVE), "spread": spread}
    x, first = ensemble.x, ensemble.round <= PLAIN * WINDOW
    later = first & (ensemble.parent != NEW)  # by hand: psi stays, give or take what it moves in a segment
    step = float(np.std(x[later] - x[ensemble.parent[later]]))
    return {"mean": x - ABOVE, "spread": step * np.sqrt(np.maximum(left, 1e-9))}


def split(ensemble: Ensemble, arm: str) -> dict[str, object]:
    """Windows of `Splitting`: the estimate, and what it took to learn the forecast."""
    policy, model, trained_s = Splitting("x", window=WINDOW, members=MEMBERS), None, 0.0
    for window in range(WINDOWS):
        if window >= PLAIN and (window - PLAIN) % EVERY == 0 and arm != "psi":
            began = time.process_time()
            model = learned(ensemble, arm == "ranks", model)
            trained_s += time.process_time() - began
        for _ in range(WINDOW):
            if window >= PLAIN and len(ensemble):
                ensemble.values = forecast(ensemble, arm, model)
            ensemble.advance(policy.rank(ensemble.scores(), ensemble.rng))
    ensemble.values = {}
    rare = policy.estimate(ensemble.scores())
    shares = {"largest_window": rare.largest_window, "largest_member": rare.largest_member}
    taken = model.card["taken"] if model else ""
    return {
        "estimate": rare.probability,
        "low": rare.low,
        "high": rare.high,
        "trained_s": trained_s,
        "taken": taken,
    } | shares


def bins(molecule: md.Molecule, starts: np.ndarray, seed: int) -> dict[str, object]:
    """Windows of `WeightedEnsemble`, each of which begins at the starts, until as much was simulated as elsewhere."""
    policy, rng = (
        WeightedEnsemble("x", tuple(edge - ABOVE for edge in EDGES), members=IN_BIN),
        np.random.default_rng(seed),
    )
    came, roots, segments = list[float](), list[float](), 0
    while segments < WINDOWS * WINDOW * MEMBERS:
        window = Ensemble(molecule, starts, int(rng.integers(2**31)))
        members = Splitting("x", members=MEMBERS).rank(window.scores(), rng)  # all begin as there
        for _ in range(WINDOW):
            window.advance(members)
            members = policy.rank(window.scores(), rng)
        ends = window.round == WINDOW
        beyond = window.weight[ends] * (window.x[ends] > ABOVE)
        came.append(float(beyond.sum()))
        roots.append(float(np.bincount(window.root[ends], beyond).max()))
        segments += len(window)
    low, high = interval(np.array(came))
    shares = {
        name: max(each) / sum(came) if any(came) else math.nan
        for name, each in (("largest_window", came), ("largest_member", roots))
    }
    return {
        "estimate": float(np.mean(came)),
        "low": low,
        "high": high,
        "trained_s": 0.0,
        "taken": "",
        "segments": segments,
    } | shares


def line(keep: Path, arm: str, seed: int) -> dict[str, object]:
    """What one seed of an arm gives."""
    molecule, began = md.build_peptide("A", capped=True), time.process_time()
    starts = archive(keep, molecule)
    if arm == "plain":
        rng = np.random.default_rng([seed, 0])
        ends = moved(molecule, starts[(seed * CHUNK + np.arange(CHUNK)) % len(starts)], rng, WINDOW)
        found: dict[str, object] = {"events": int((progress(torsions(ends[:, 0])) > ABOVE).sum()), "windows": CHUNK}
    else:
        ensemble = Ensemble(molecule, starts, [seed, 1])
        found = {"segments": WINDOWS * WINDOW * MEMBERS}
        found |= bins(molecule, starts, seed) if arm == "bins" else split(ensemble, arm)
    return {"score": arm, "seed": seed} | found | {"cpu_s": time.process_time() - began}


def table(lines: Sequence[dict[str, object]]) -> dict[str, object]:
    """The reference, and of each arm what `lab.extremes.summary` says."""
    plain = [each for each in lines if each["score"] == "plain"]
    events, windows = (sum(int(str(each[name])) for each in plain) for name in ("events", "windows"))
    p = events / windows
    others = [each | {"p": p, "member_days": each["segments"]} for each in lines if each["score"] != "plain"]
    return {"p": p, "events": events, "windows": windows, "error": 1 / math.sqrt(events), "arms": summary(others)}


def main(argv: Sequence[str] | None = None) -> None:
    """Add lines of the seeds that are not there yet, or print the table of those that are."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--keep", type=Path, required=True, help="folder of the states to begin from")
    parser.add_argument("--out", type=Path, required=True, help="JSON lines")
    parser.add_argument("--arm", choices=ARMS)
    parser.add_argument("--seeds", type=int, nargs=2, default=(0, 12))
    given = parser.parse_args(argv)
    torch.set_num_threads(1)
    lines = [json.loads(each) for each in given.out.read_text().splitlines()] if given.out.exists() else []
    if not given.arm:
        json.dump(table(lines), sys.stdout, indent=1)
        return
    for seed in sorted({*range(*given.seeds)} - {each["seed"] for each in lines if each["score"] == given.arm}):
        with given.out.open("a") as out:
            print(json.dumps(line(given.keep, given.arm, seed)), file=out, flush=True)


if __name__ == "__main__":
    main()
