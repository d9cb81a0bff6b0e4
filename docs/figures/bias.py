"""A bias along what a model learned of alanine dipeptide: a picture of one run, and a table of all of them.

steersman compare biased --vary model=TICA,DeepTICA,PCA --seeds 6 --workers 2 --rounds --out runs/biased
steersman compare oracle --seeds 6 --workers 2 --rounds --out runs/oracle
python docs/figures/bias.py runs/biased runs/oracle
"""

import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from steersman import Run, open_run
from steersman.analysis.comparison.arms import OWN, PLAIN, Arm
from steersman.analysis.comparison.statistics import Times, median_time
from steersman.dashboard import style
from steersman.workflows.dipeptide import LEFT

MODELS = "DeepTICA", "TICA", "PCA"
ORACLE, OTHER = "phi, psi (oracle)", (-2.9, -0.4)  # rad: phi of the other basins, well inside their barriers
REFERENCE_KT, BINS = 3.8, 60


def phi(run: Run) -> np.ndarray:
    """(n,) rad, in the order of `run.scores`."""
    scores = run.scores
    return np.asarray(scores["phi" if "phi" in scores else "torsions_0"])


@dataclass(frozen=True)
class Found:
    """Of one run: simulated ps, of all walkers together, until the left-handed basin was found, and in all; crossings
    between the cores of the basins, its free energy above all else with its 95 % interval, and segments that failed."""

    ps: float
    whole_ps: float
    crossings: int
    energy: tuple[float, float, float]
    failed: int

    @classmethod
    def of(cls, path: Path) -> "Found":
        run = open_run(path, trust=True)
        scores, angle = run.scores, phi(run)
        inside = (angle > LEFT[0]) & (angle < LEFT[1])
        began = run.segments["start"].loc[scores["segment"].astype(str)].to_numpy()
        made = np.lexsort((scores["row"], began))  # two walkers take turns, a segment each
        per_frame = run.state["simulated"] / len(scores)
        first = np.argmax(inside[made]) if inside.any() else len(made) - 1
        energy = (np.nan,) * 3
        if len(run.segments) and "bias" in run.segments and len(run.unbiased.weights) > 10:
            mean = run.unbiased.difference(inside, ~inside)
            energy = mean.value, mean.low, mean.high
        return cls(
            float(first + 1) * per_frame, float(run.state["simulated"]), crossings(run, angle, inside), energy,
            int((run.segments["how"] == "failed").sum()),
        )  # fmt: skip


def crossings(run: Run, angle: np.ndarray, inside: np.ndarray) -> int:
    """From the core of one basin to that of the other, in the order of time of each walker."""
    scores = run.scores
    side = np.where(inside, 1, np.where((angle > OTHER[0]) & (angle < OTHER[1]), -1, 0))
    total = 0
    for walker in scores["walker"].unique():
        mine = side[(scores["walker"] == walker).to_numpy()]
        total += int((np.diff(mine[mine != 0]) != 0).sum())
    return total


def seeds(folder: Path, arm: Arm) -> list[Path]:
    """Of the runs that are finished."""
    return sorted(each.parent for each in (folder / arm.slug).glob("seed-*/manifest.sha256"))


def table(arms: dict[str, list[Found]]) -> str:
    """Markdown: a row for each arm."""
    lines = [
        "| bias along | seeds that found the basin | found after, ps (each seed) | median, ps | crossings (each seed) "
        "| free energy of the basin, kT (each seed; 95 %) | intervals that hold 3.8 | segments that failed |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name, runs in arms.items():
        times = Times(np.array([each.ps for each in runs]), np.array([each.ps < each.whole_ps for each in runs]))
        middle = median_time(times)
        whole = sorted({round(each.whole_ps) for each in runs})
        after = ", ".join(f"{t:.0f}" for t in np.sort(times.time[times.reached])) or "-"
        known = [each.energy for each in runs if np.isfinite(each.energy[0])]
        energies = "; ".join(f"{value:.1f} ({low:.1f} to {high:.1f})" for value, low, high in sorted(known)) or "-"
        hold = sum(low <= REFERENCE_KT <= high for _, low, high in known)
        lines.append(
            f"| {name} | {times.reached.sum()} of {len(runs)} | {after} | "
            f"{f'{middle:.0f}' if np.isfinite(middle) else f'not within {whole[0]:,}'} | "
            f"{', '.join(str(each.crossings) for each in runs)} | {energies} | "
            f"{f'{hold} of {len(known)}' if known else '-'} | {sum(each.failed for each in runs)} |"
        )
    return "\n".join(lines)


def draw(steered: Path, plain: Path, oracle: Path) -> Figure:
    figure = style.sheet(2.9)
    grid = figure.add_gridspec(1, 2, width_ratios=(1.7, 1))
    above, below = grid[0].subgridspec(2, 1).subplots(sharex=True, sharey=True, squeeze=False)[:, 0]
    track(above, plain, "plain dynamics", style.GREY)
    track(below, steered, "pushed along what a model learned meanwhile", style.BLUE)
    above.label_outer()
    profiles(figure.add_subplot(grid[1]), {"the steered run, 95 %": steered, "along both known torsions": oracle})
    return figure


def track(axes: Axes, path: Path, name: str, colour: str) -> None:
    """phi of every walker, and where models came into use."""
    run = open_run(path, trust=True)
    scores = run.scores
    axes.plot(scores["time"] / 1000, np.degrees(phi(run)), ".", color=colour, markersize=0.9, rasterized=True)
    axes.axhspan(*np.degrees(LEFT), color=style.ORANGE, alpha=0.25, linewidth=0, zorder=0)
    axes.set_title(name, loc="left", fontsize=8, color=colour)
    axes.set(
        ylabel="phi (degrees)", ylim=(-180, 180), yticks=(-180, -90, 0, 90, 180), xlim=(0, scores["time"].max() / 1000)
    )
    if "bias" in run.segments:
        model = run.segments["with_model"].where(run.segments["bias"] > 0, 0)
        of_frame = model.loc[scores["segment"].astype(str)].to_numpy()
        style.mark_models(axes, [(scores["time"][of_frame == v].min() / 1000, v) for v in np.unique(of_frame) if v])
        axes.set_xlabel("simulated time of each walker (ns)")


def profiles(axes: Axes, runs: dict[str, Path]) -> None:
    for (name, path), colour in zip(runs.items(), (style.BLUE, style.INK), strict=True):
        run = open_run(path, trust=True)
        found = run.unbiased.free_energy(np.degrees(phi(run)), bins=BINS)
        axes.plot(found.index, found["free_energy"], color=colour, label=name)
        if colour == style.BLUE:
            axes.fill_between(found.index, found["low"], found["high"], color=colour, alpha=0.25, linewidth=0)
    axes.axvspan(*np.degrees(LEFT), color=style.ORANGE, alpha=0.25, linewidth=0, zorder=0)
    axes.set(
        xlabel="phi (degrees)",
        ylabel="free energy (kT)",
        xlim=(-180, 180),
        xticks=(-180, -90, 0, 90, 180),
        ylim=(0, 22),
        yticks=range(0, 21, 5),
    )
    style.legend_above(axes, ncols=1)


if __name__ == "__main__":
    biased, known = map(Path, sys.argv[1:3])
    paths = {name: seeds(biased, Arm(OWN, (f"model={name}",))) for name in MODELS}
    paths["nothing (plain dynamics)"] = seeds(biased, Arm(PLAIN, ("model=TICA",)))
    paths[ORACLE] = seeds(known, Arm(OWN))
    print(table({name: [Found.of(path) for path in each] for name, each in paths.items()}))
    with style.applied():
        shown = paths["DeepTICA"][0], paths["nothing (plain dynamics)"][0], paths[ORACLE][0]
        draw(*shown).savefig(Path(__file__).with_suffix(".png"))
