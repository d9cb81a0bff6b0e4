"""Biases along what models learned: a picture of one run of alanine dipeptide, and tables of all runs of two systems.

steersman compare biased --vary model=TICA,DeepTICA,PCA,Autoencoder --set sim_ns=4 --seeds 8 --workers 2 --rounds \
    --out runs/biased
steersman compare oracle --set sim_ns=4 --seeds 8 --workers 2 --rounds --out runs/oracle
steersman compare cube --vary model=TICA,DeepTICA,PCA,contacts --seeds 8 --workers 2 --rounds --out runs/cube
python docs/figures/bias.py runs/biased runs/oracle runs/cube
"""

import sys
from collections.abc import Callable
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

NOTHING, ORACLE = "nothing (plain dynamics)", "phi, psi (oracle)"
BINS = 60


@dataclass(frozen=True)
class Question:
    """What is looked for in runs of one system.

    Args:
        found: of a run, (n,) bool in the order of `run.scores`: which frames are in the state that is looked for.
        begun: which are well inside the state where runs begin; what is in neither is on its way.
        reference_kT: free energy of the state that is looked for above all else.
    """

    found: Callable[[Run], np.ndarray]
    begun: Callable[[Run], np.ndarray]
    reference_kT: float


def phi(run: Run) -> np.ndarray:
    """(n,) rad, in the order of `run.scores`."""
    scores = run.scores
    return np.asarray(scores["phi" if "phi" in scores else "torsions_0"])


DIPEPTIDE = Question(lambda run: _between(phi(run), *LEFT), lambda run: _between(phi(run), -2.9, -0.4), 3.8)
CUBE = Question(lambda run: run.scores["made"].to_numpy() < 9, lambda run: run.scores["made"].to_numpy() > 21, 6.9)


def _between(values: np.ndarray, low: float, high: float) -> np.ndarray:
    return np.asarray((values > low) & (values < high))


@dataclass(frozen=True)
class Found:
    """Of one run: simulated ps, of all walkers together, until the state was found, and in all; crossings between the
    two states, the free energy of the one that was found with its 95 % interval, and segments that failed."""

    ps: float
    whole_ps: float
    crossings: int
    energy: tuple[float, float, float]
    failed: int

    @classmethod
    def of(cls, path: Path, question: Question) -> "Found":
        run = open_run(path, trust=True)
        scores, inside = run.scores, question.found(run)
        began = run.segments["start"].loc[scores["segment"].astype(str)].to_numpy()
        made = np.lexsort((scores["row"], began))  # two walkers take turns, a segment each
        per_frame = run.state["simulated"] / len(scores)
        first = np.argmax(inside[made]) if inside.any() else len(made) - 1
        energy = (np.nan,) * 3
        if len(run.segments) and "bias" in run.segments and len(run.unbiased.weights) > 10:
            mean = run.unbiased.difference(inside, ~inside)
            energy = mean.value, mean.low, mean.high
        return cls(
            float(first + 1) * per_frame, float(run.state["simulated"]), crossings(run, question), energy,
            int((run.segments["how"] == "failed").sum()),
        )  # fmt: skip


def crossings(run: Run, question: Question) -> int:
    """From one state to the other, in the order of time of each walker."""
    side = np.where(question.found(run), 1, np.where(question.begun(run), -1, 0))
    walkers = run.scores["walker"].to_numpy()
    paths = (side[(walkers == walker) & (side != 0)] for walker in np.unique(walkers))
    return sum(int((np.diff(path) != 0).sum()) for path in paths)


def seeds(folder: Path, arm: Arm) -> list[Path]:
    """Of the runs that are finished."""
    return sorted(each.parent for each in (folder / arm.slug).glob("seed-*/manifest.sha256"))


def table(arms: dict[str, list[Found]], reference_kT: float) -> str:
    """Markdown: a row for each arm."""
    lines = [
        "| bias along | seeds that found it | found after, ps (each seed) | median, ps | crossings (each seed) "
        f"| free energy, kT (each seed; 95 %) | intervals that hold {reference_kT} | segments that failed |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name, runs in arms.items():
        times = Times(np.array([each.ps for each in runs]), np.array([each.ps < each.whole_ps for each in runs]))
        middle = median_time(times)
        whole = sorted({round(each.whole_ps) for each in runs})
        after = ", ".join(f"{t:.0f}" for t in np.sort(times.time[times.reached])) or "-"
        known = [each.energy for each in runs if np.isfinite(each.energy[0])]
        energies = "; ".join(f"{value:.1f} ({low:.1f} to {high:.1f})" for value, low, high in sorted(known)) or "-"
        hold = sum(low <= reference_kT <= high for _, low, high in known)
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


def arms(folder: Path, models: tuple[str, ...]) -> dict[str, list[Path]]:
    """The finished runs along what each model learned, and of plain dynamics, which is the same for all."""
    runs = {name: seeds(folder, Arm(OWN, (f"model={name}",))) for name in models}
    return {**runs, NOTHING: seeds(folder, Arm(PLAIN, (f"model={models[0]}",)))}


if __name__ == "__main__":
    biased, known, cube = map(Path, sys.argv[1:4])
    dipeptide = arms(biased, ("TICA", "DeepTICA", "PCA", "Autoencoder")) | {ORACLE: seeds(known, Arm(OWN))}
    folding = arms(cube, ("TICA", "DeepTICA", "PCA", "contacts"))
    for question, paths in ((DIPEPTIDE, dipeptide), (CUBE, folding)):
        every = {name: [Found.of(path, question) for path in each] for name, each in paths.items()}
        print(table(every, question.reference_kT), end="\n\n")
    with style.applied():
        shown = dipeptide["DeepTICA"][0], dipeptide[NOTHING][0], dipeptide[ORACLE][0]
        draw(*shown).savefig(Path(__file__).with_suffix(".png"))
