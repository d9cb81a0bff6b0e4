"""`steersman analyse`: unbiased answers from segments that steering began where it liked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from steersman.cli.options import Json

Runs = Annotated[list[Path], typer.Argument(metavar="RUN...", help="run directories of one workflow")]


def analyse(
    runs: Runs,
    score: Annotated[str, typer.Option("--of", metavar="SCORE", help="what states are made of")] = "",
    states: Annotated[int, typer.Option("--states", min=0, help="number of states; 0: by the number of frames")] = 0,
    lag: Annotated[int, typer.Option("--lag", min=0, help="in frames; 0: the shortest that is long enough")] = 0,
    folder: Annotated[Path | None, typer.Option("--out", help="where JSON, figure and page are written")] = None,
    as_json: Json = False,
) -> None:
    """Say what equilibrium would be: time scales, populations and free energy, by a Markov state model."""
    from steersman.analysis import answer, figure, markov, trajectories
    from steersman.analysis.write import write
    from steersman.dashboard import style
    from steersman.journal.run_directory import open_run
    from steersman.stages import loading

    found = trajectories.read([open_run(run) for run in runs], score)
    model = markov.build(found, states, lag)
    steering = loading.load(open_run(runs[0]).workflow).steering
    by_weights = answer.by_weights(found, steering.policy)
    said = {"runs": [str(run) for run in runs], **answer.answer(found, model), **by_weights}
    folder = folder or runs[0].parent / f"{runs[0].name}-analysis"
    with style.applied():
        written = write(folder, runs[0].name, said, figure.draw(found, model))
    typer.echo(json.dumps(written) if as_json else "\n".join([*answer.lines(said), f"Page, figure and JSON: {folder}"]))
