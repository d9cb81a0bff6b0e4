"""Peptides that are hot until their torsions are learned: a picture of one run, and a table of the residues that turn.

steersman run peptide --rounds --workers 2 --set sim_ns=4 --seed 0          # and other seeds; the same of `oracle`
steersman run peptide --rounds --workers 2 --set sim_ns=4 --seed 0 --set hot_K=300 --set first=1000000     # plain
python docs/figures/residues.py PLAIN=runs/peptide-0009,... ORACLE=runs/oracle-0001,... LEARNED=runs/peptide-0001,...
"""

import sys
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import yaml
from matplotlib.figure import Figure

from steersman import Run, open_run
from steersman.apps import molecular_dynamics as md
from steersman.dashboard import style
from steersman.workflows.dipeptide import LEFT

RIGHT = np.radians((-166.0, -23.0))


@dataclass(frozen=True)
class Track:
    """Frames of a run, in the order in which they were simulated.

    Args:
        phi: (n, R) rad, of each residue.
        hot: (n,) bool.
        walker: (n,) int.
        time: (n,) of each walker, ns.
        ps: (n,) simulated until then, of all walkers together.
        energy: of each residue's left basin above all else, kT, with its 95 % interval; empty without a bias.
        newest: mean log weight of the newest frames.
    """

    phi: np.ndarray
    hot: np.ndarray
    walker: np.ndarray
    time: np.ndarray
    ps: np.ndarray
    energy: list[tuple[float, float, float]]
    newest: float

    @classmethod
    def of(cls, path: Path) -> "Track":
        run = open_run(path, trust=True)
        scores = run.scores if len(run.scores.columns) > 4 else None
        params = yaml.safe_load((path / "run.yaml").read_text())["params"]
        molecule = md.build_peptide(params["sequence"], capped=True)
        stored = run.dataset(scores, ["positions", *(["hot"] if "hot" in run.dataset() else [])])
        fours = np.array(md.Torsions.backbone(molecule).atoms[::2])
        phi = md.dihedral(stored["positions"].to_numpy()[:, fours])
        heated = "hot" in stored and params.get("hot_K", 1000) > 300
        hot = stored["hot"].to_numpy() if heated else np.zeros(len(phi), bool)
        began = run.segments["start"].loc[stored["segment"].to_numpy().astype(str)].to_numpy()
        order = np.lexsort((stored["row"].to_numpy(), began))
        each_ps = float(run.state["simulated"]) / len(phi)
        energy, newest = _energies(run, phi)
        time, walker = stored["time"].to_numpy()[order] / 1000, stored["walker"].to_numpy()[order]
        return cls(phi[order], hot[order], walker, time, each_ps * np.arange(1, len(phi) + 1), energy, newest)

    def found(self, residue: int) -> float:
        """ps until it is first on the left at 300 K; NaN: never."""
        at = np.flatnonzero(_inside(self.phi[:, residue], *LEFT) & ~self.hot)
        return float(self.ps[at[0]]) if len(at) else np.nan

    def crossings(self, residue: int) -> int:
        """At 300 K, from one side to the other or back."""
        side = np.where(_inside(self.phi[:, residue], *LEFT), 1, np.where(_inside(self.phi[:, residue], *RIGHT), -1, 0))
        paths = (side[(self.walker == walker) & (side != 0) & ~self.hot] for walker in np.unique(self.walker))
        return sum(int((np.diff(path) != 0).sum()) for path in paths)


def _inside(values: np.ndarray, low: float, high: float) -> np.ndarray:
    return np.asarray((values > low) & (values < high))


def _energies(run: Run, phi: np.ndarray) -> tuple[list[tuple[float, float, float]], float]:
    if "bias" not in run.segments or not len(run.unbiased.weights):
        return [], np.nan
    means = [run.unbiased.difference(left, ~left) for left in (_inside(each, *LEFT) for each in phi.T)]
    return [(mean.value, mean.low, mean.high) for mean in means], run.unbiased.weights.newest


def table(arms: dict[str, list[Track]]) -> str:
    """Markdown: a row for each run."""
    lines = [
        "| bias along | hot, ps | on the left at 300 K after, ps | crossings at 300 K | free energy, kT (95 %) "
        "| mean log weight |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for name, tracks in arms.items():
        for track in tracks:
            residues = range(track.phi.shape[1])
            after = ", ".join(f"{t:,.0f}" if np.isfinite(t := track.found(each)) else "-" for each in residues)
            energies = "; ".join(f"{value:.1f} ({low:.1f} to {high:.1f})" for value, low, high in track.energy) or "-"
            crossed = ", ".join(str(track.crossings(each)) for each in residues)
            newest = f"{track.newest:.1f}" if track.energy else "-"
            hot = f"{track.hot.sum() * track.ps[0]:,.0f}"
            lines.append(f"| {name} | {hot} | {after} | {crossed} | {energies} | {newest} |")
    return "\n".join(lines)


def draw(plain: Track, learned: Track) -> Figure:
    """phi of each residue of one walker: of plain dynamics, and of a run that is hot until it has learned."""
    figure = style.sheet(3.4)
    panels = figure.subplots(learned.phi.shape[1], 2, sharex=True, sharey=True)
    titles = ("plain dynamics at 300 K", "hot (orange), then pushed at 300 K")
    for side, (track, title) in enumerate(zip((plain, learned), titles, strict=True)):
        mine = track.walker == track.walker.min()
        for residue, axes in enumerate(panels[:, side]):
            for which, colour in ((track.hot, style.ORANGE), (~track.hot, (style.GREY, style.BLUE)[side])):
                some = mine & which
                axes.plot(track.time[some], np.degrees(track.phi[some, residue]), ".", color=colour, markersize=0.8,
                          rasterized=True)  # fmt: skip
            axes.axhspan(*np.degrees(LEFT), color=style.GREEN, alpha=0.2, linewidth=0, zorder=0)
            axes.set(ylim=(-180, 180), yticks=(-180, 0, 180))
            if not side:
                axes.set_ylabel(f"phi {residue + 1} (degrees)")
        panels[0, side].set_title(title, loc="left", fontsize=8)
        panels[-1, side].set(xlabel="simulated time of one walker (ns)", xlim=(0, learned.time.max()))
    return figure


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    named = dict(argument.split("=", 1) for argument in sys.argv[1:])
    arms = {name: [Track.of(Path(path)) for path in paths.split(",")] for name, paths in named.items()}
    print(table(arms))
    with style.applied():
        draw(arms["PLAIN"][0], arms["LEARNED"][0]).savefig(Path(__file__).with_suffix(".png"))
