"""`steersman analyse`: unbiased answers from segments that steering began where it liked."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from steersman.cli.options import Json, Trust
from steersman.cli.printing import say
from steersman.journal.errors import BadDirectory
from steersman.system.errors import BadInput

if TYPE_CHECKING:
    from steersman.analysis.page import Analysis
    from steersman.journal.run_directory import RunDirectory

Runs = Annotated[list[Path], typer.Argument(metavar="RUN...", help="run directories of one workflow")]


def analyse(
    runs: Runs,
    score: Annotated[str, typer.Option("--of", metavar="SCORE", help="score by which states are defined")] = "",
    states: Annotated[int, typer.Option("--states", min=0, help="number of states; 0: by the number of frames")] = 0,
    lag: Annotated[
        int, typer.Option("--lag", min=0, help="lag time in frames; 0: the shortest that is long enough")
    ] = 0,
    folder: Annotated[
        Path | None,
        typer.Option(
            "--out", help="folder for JSON, figure and page (default: in the run, or beside the first of several)"
        ),
    ] = None,
    code: Trust = False,
    regions: Annotated[
        list[str] | None,
        typer.Option("--region", metavar="EXPRESSION", help="a state of a biased run, e.g. '0 < phi < 2'; repeatable"),
    ] = None,
    as_json: Json = False,
) -> None:
    """Estimate equilibrium properties: populations and free energy, and time scales by a Markov state model.

    Of a biased run it weighs the frames instead of making a model. The report of a single run shows the results, too.
    """
    from steersman.analysis.page import write
    from steersman.cli.data import damage_in_a_line
    from steersman.dashboard import style
    from steersman.dashboard.report import write_report
    from steersman.data.history import History
    from steersman.journal import manifest
    from steersman.journal.run_directory import open_run, reading
    from steersman.stages import trust
    from steersman.system.reading import check_inside

    directories = [open_run(run) for run in runs]
    if len({each.path.resolve() for each in directories}) < len(runs):
        raise BadInput("a run is given twice; its frames would count twice")
    if states == 1:
        raise BadInput("--states 1: one state says nothing about averages; give 2 or more, or 0")
    if code:
        trust.trust(directories[0].workflow)
    alone = directories[0] if len(runs) == 1 and folder is None else None
    if not alone:
        folder = folder or runs[0].parent / f"{runs[0].name}-analysis"
        _make(folder)
    folder = folder or directories[0].analysis
    check_inside(folder, directories[0].path) if alone else None
    with style.applied():
        with reading(directories[0]), damage_in_a_line():
            analysis = _analysis(directories, score, states, lag, regions or [])
        there = [History(each).state.frames for each in directories]
        written = write(folder, runs[0].name, {"runs": [str(run) for run in runs], "run_frames": there}, analysis)
    if alone:
        write_report(alone)
        manifest.renew(alone, alone.analysis, alone.report, alone.figures)
    say(json.dumps(written) if as_json else "\n".join([*analysis.lines, f"Page, figure and JSON: {folder}"]))


def _analysis(runs: Sequence[RunDirectory], score: str, states: int, lag: int, regions: Sequence[str]) -> Analysis:
    """As a biased run, or else by a Markov state model."""
    from steersman.analysis import answer, biased, markov, trajectories
    from steersman.data.history import History
    from steersman.data.unbiased import Unbiased
    from steersman.journal.modes.biases import Biases
    from steersman.stages import trust

    workflow = trust.load(runs[0].workflow)
    histories = [History(run) for run in runs]
    if any(history.state.mode(Biases).versions for history in histories):
        if len(runs) > 1 or states or lag:
            raise BadInput("a biased run is analysed alone; leave --states and --lag out")
        return biased.analysis(Unbiased(histories[0]), workflow, score, regions)
    if regions:
        raise BadInput(
            "--region is of biased runs; write a @wf.yardstick() that returns the number of a state, which "
            "`steersman resume RUN --workflow FILE` takes without a new simulation"
        )
    data = trajectories.read(runs, score)
    return answer.analysis(data, markov.build(data, states, lag), histories[0].steering(workflow).policy)


def _make(folder: Path) -> None:
    """Before anything is read. Raises: BadDirectory: nothing can be written there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        problem = f"this folder cannot be written: {error.strerror}; give another one with --out"
        raise BadDirectory(str(folder), problem) from None
