"""Verbs for what comes after a run: `steersman export | report | ls | diff`."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import signal
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from steersman.cli.options import Json, RunPath, Trust
from steersman.cli.printing import err, say, say_rows
from steersman.data.history import History
from steersman.journal import manifest, run_directory
from steersman.system.errors import BadInput, UnknownName

if TYPE_CHECKING:
    from steersman.data.listing import Listed

# What brings pandas and xarray with it is imported by the verbs that need it.
COLUMNS = ("name", "workflow", "state", "frames", "metric", "age", "size")


def export(
    run: RunPath,
    segment: Annotated[str, typer.Argument(help="<walker>.<number>, e.g. w0.7", show_default=False)] = "",
    lineage: Annotated[
        Path | None,
        typer.Option("--lineage", metavar="FILE", help="frames from the prepared start to the end of SEGMENT"),
    ] = None,
    frames: Annotated[
        Path | None, typer.Option("--frames", metavar="FILE", help="frames of SEGMENT alone, or of the whole run")
    ] = None,
    tables: Annotated[
        Path | None, typer.Option("--tables", metavar="DIR", help="every table of the run, as CSV and Parquet")
    ] = None,
    score: Annotated[
        list[str],
        typer.Option("--score", metavar="NAME=LOW:HIGH", help="only frames with a score in this range, for --frames"),
    ] = [],  # noqa: B006 (Typer wants a list)
    cluster: Annotated[
        str,
        typer.Option("--cluster", metavar="K/N", help="only frames of the K-th largest of N clusters, for --frames"),
    ] = "",
    by: Annotated[str, typer.Option("--by", help="score by which frames are clustered")] = "z",
    part: Annotated[
        str, typer.Option("--range", metavar="A:B", help="only frames A to B of the selected ones, counted from 0")
    ] = "",
    stride: Annotated[int, typer.Option("--stride", min=1, help="only each N-th of the selected frames")] = 1,
    model: Annotated[
        str,
        typer.Option("--model", metavar="N=FILE", help="model N as .pt2 (torch.export), .onnx or .pt (TorchScript)"),
    ] = "",
    shape: Annotated[
        str,
        typer.Option("--shape", metavar="A,B", help="of one input of the model's `forward`, for --model"),
    ] = "",
    double: Annotated[bool, typer.Option("--double", help="inputs and outputs of --model are float64")] = False,
    topology: Annotated[
        Path | None,
        typer.Option("--topology", metavar="FILE", help="file with the atoms (default: the run's topology.pdb)"),
    ] = None,
    variables: Annotated[
        str, typer.Option("--variables", metavar="NAME,NAME", help="only these, in a .nc of a run without atoms")
    ] = "",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="replace existing files")] = False,
) -> None:
    """Write frames to a trajectory (.xtc, .dcd, .pdb, .nc), all tables, or a model, for other programs."""
    from steersman.data import choice
    from steersman.data.export import trajectory, write_tables
    from steersman.data.lineage import rows

    if [lineage, frames, tables, model or None].count(None) != 3:
        raise BadInput("give one of --lineage FILE, --frames FILE, --tables DIR and --model N=FILE")
    if lineage and (not segment or score or cluster):
        raise BadInput("--lineage takes a SEGMENT, e.g. `steersman export RUN w0.7 --lineage out.xtc`, and no scores")
    directory = run_directory.open_run(run)
    with run_directory.reading(directory), damage_in_a_line(), _stoppable():
        if model:
            _write_model(directory, model, shape, overwrite=overwrite, double=double)
            return
        history = History(directory)
        if tables:
            for file in write_tables(history, tables, overwrite=overwrite):
                err.plain(f"wrote {file}")
            return
        selection = (
            rows(history, segment)
            if lineage
            else choice.of_scores(history, segment=segment, scores=score, cluster=cluster, by=by)
        )
        selection = choice.part(selection, part, stride)
        path = lineage or frames
        assert path is not None
        names = [name.strip() for name in variables.split(",")] if variables else None
        written = trajectory(history, selection, path, topology=topology, overwrite=overwrite, variables=names)
        with _progress() as shown:
            task = shown.add_task("frames", total=len(selection))
            for frames_done in written:
                shown.update(task, completed=frames_done)
    atoms = topology or directory.topology
    beside = f"; its atoms are in {atoms}" if atoms.exists() else ""
    err.plain(f"wrote {len(selection):,} frames to {path}{beside}")


def _write_model(
    directory: run_directory.RunDirectory, words: str, shape: str, *, overwrite: bool, double: bool
) -> None:
    from steersman.data.export import check_new
    from steersman.models import portable
    from steersman.stages import trust

    version, _, file = words.partition("=")
    if not (version.isdecimal() and file and shape.replace(",", "").isdecimal() >= bool(shape)):
        raise BadInput(f"--model {words} --shape {shape}: write e.g. --model 7=model.onnx --shape 3,64,64")
    folder = directory.model(int(version))
    if not folder.is_dir():
        raise UnknownName("model", version, [str(int(each.name)) for each in folder.parent.glob("[0-9]*")])
    check_new(Path(file), overwrite)
    sizes = [int(each) for each in shape.split(",")] if shape else None
    portable.write(trust.load_model(folder, directory.workflow), Path(file), sizes, double=double)
    accepted = {each.version: each.accepted or each.reason for each in History(directory).state.models}
    reason = accepted.get(int(version)) or "its training has not ended"
    err.plain(f"wrote model {version} to {file}{'' if reason is True else f'; the run never used it: {reason}'}")


def report(run: RunPath, code: Trust = False) -> None:
    """Make report.html and the figures of a run again, whether it has ended or not."""
    from steersman.dashboard.report import write_report
    from steersman.stages import trust

    directory = run_directory.open_run(run)
    if code:
        trust.trust(directory.workflow)
    with err.status("drawing figures and the report"):
        write_report(directory)
    manifest.renew(directory, directory.report, directory.figures)
    say(str(directory.report))


def ls(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="folder with run directories")] = Path("runs"),
    as_json: Json = False,
) -> None:
    """List the runs of a folder, the newest last: state, frames, first metric, age and size."""
    from steersman.data.listing import listed

    if not folder.is_dir():
        problem = "this is a file" if folder.exists() else "this folder does not exist"
        raise BadInput(f"{folder}: {problem}; name the folder with your runs")
    runs = listed(folder)
    if as_json:
        say(json.dumps({"folder": str(folder), "runs": [dataclasses.asdict(each) for each in runs]}))
        return
    if not runs:
        err.plain(f"there are no runs in {folder}")
        return
    say_rows([COLUMNS, *(_columns(each) for each in runs)])


def diff(run: RunPath, other: Annotated[Path, typer.Argument(metavar="RUN")], as_json: Json = False) -> None:
    """Show the differences between two runs: parameters, settings, code, versions and outcome."""
    from steersman.data.difference import difference, lines

    histories = []
    for path in (run, other):
        directory = run_directory.open_run(path)
        with run_directory.reading(directory):
            histories.append(History(directory))
    differences = difference(*histories)
    say(json.dumps(differences) if as_json else "\n".join(lines(differences)))


@contextlib.contextmanager
def damage_in_a_line() -> Iterator[None]:
    from steersman.data.errors import DamagedPart, Unconverted

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        err.print(f"[yellow]warning:[/] {escape(str(message))}", highlight=False, soft_wrap=True)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for shown in (DamagedPart, Unconverted):
            warnings.simplefilter("always", shown)
        warnings.showwarning = show
        yield


@contextlib.contextmanager
def _stoppable() -> Iterator[None]:
    """Ctrl-C and SIGTERM end an export in order: no half of a file stays."""

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    except KeyboardInterrupt:
        err.plain("stopped; the file was not written")
        raise typer.Exit(130) from None
    finally:
        signal.signal(signal.SIGTERM, before)


def _progress() -> Progress:
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    return Progress(*columns, console=err, transient=True, disable=not err.is_terminal)


def _columns(each: Listed) -> tuple[str, ...]:
    metric = "-" if each.value is None else f"{each.metric} {each.value:.4g}"
    return (
        each.name,
        each.workflow,
        each.state,
        "?" if each.frames is None else f"{each.frames:,}",
        metric,
        _age(each.age_s),
        _size(each.bytes),
    )


def _age(seconds: float) -> str:
    """90 -> 1 min; of days the number."""
    for unit, length in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"


def _size(number: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if number < 1000:
            return f"{number:.3g} {unit}"
        number /= 1000
    return f"{number:.3g} TB"
