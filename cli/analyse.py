"""`steersman analyse`: unbiased answers from segments that steering began where it liked."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from steersman.cli.options import Json, Trust
from steersman.journal.errors import BadDirectory

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
    as_json: Json = False,
) -> None:
    """Estimate equilibrium properties by a Markov state model: time scales, populations and free energy.

    The report of a single run shows the results, too.
    """
    from steersman.analysis import answer, figure, markov, trajectories
    from steersman.analysis.write import write
    from steersman.dashboard import style
    from steersman.dashboard.report import write_report
    from steersman.journal import manifest
    from steersman.journal.run_directory import open_run, reading
    from steersman.stages import trust
    from steersman.system.reading import check_inside

    directories = [open_run(run) for run in runs]
    if code:
        trust.trust(directories[0].workflow)
    alone = directories[0] if len(runs) == 1 and folder is None else None
    if not alone:
        folder = folder or runs[0].parent / f"{runs[0].name}-analysis"
        _make(folder)
    with reading(directories[0]):
        found = trajectories.read(directories, score)
        model = markov.build(found, states, lag)
        steering = trust.load(directories[0].workflow).steering
        by_weights = answer.by_weights(found, steering.policy)
    said = {"runs": [str(run) for run in runs], **answer.answer(found, model), **by_weights}
    folder = folder or directories[0].analysis
    check_inside(folder, directories[0].path) if alone else None
    with style.applied():
        written = write(folder, runs[0].name, said, figure.draw(found, model))
    if alone:
        write_report(alone)
        manifest.renew(alone, alone.analysis, alone.report, alone.figures)
    typer.echo(json.dumps(written) if as_json else "\n".join([*answer.lines(said), f"Page, figure and JSON: {folder}"]))


def _make(folder: Path) -> None:
    """Before anything is read. Raises: BadDirectory: nothing can be written there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        problem = f"this folder cannot be written: {error.strerror}; give another one with --out"
        raise BadDirectory(str(folder), problem) from None
