"""What an assistant may ask about runs, by the Model Context Protocol: `steersman mcp`."""

from __future__ import annotations

import dataclasses
import functools
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from steersman.journal import run_directory
from steersman.journal.run_directory import RunDirectory
from steersman.system import reading
from steersman.system.errors import BadInput, EngineError, MissingExtra, UnknownName

if TYPE_CHECKING:
    import pandas
    from mcp.server import MCPServer

    from steersman.data.history import History

MOST = 1000  # rows of an answer
ABOUT = """Runs of Steersman: simulations whose starts a policy chooses by scores of a learned model. Segments are named
w0.7 (number 7 of walker 0), frames w0.7:3. Begin with `runs`; leave `run` out where there is one run only."""

Rows = list[dict[str, Any]]


def mcp(
    place: Annotated[Path, typer.Argument(metavar="RUN|FOLDER", help="a run directory, or a folder with several")],
    tell: Annotated[bool, typer.Option("--tell", help="also give commands to runs that go on")] = False,
) -> None:
    """Answer the questions of an assistant (Model Context Protocol) on standard input and output."""
    server(place, tell=tell).run()


def server(place: Path, *, tell: bool = False) -> MCPServer[Any]:
    """What has the questions as tools; it reads, and executes no code of a run. Raises: BadInput. MissingExtra."""
    try:
        from mcp.server import MCPServer
    except ImportError:
        raise MissingExtra("mcp", "mcp") from None
    service: MCPServer[Any] = MCPServer("steersman", instructions=ABOUT, log_level="ERROR")
    desk = _Desk(place)
    reads = (
        desk.runs, desk.status, desk.why, desk.lineage, desk.decisions, desk.segments, desk.scores, desk.metrics,
        desk.models, desk.failures, desk.results,
    )  # fmt: skip
    asks: list[Callable[..., Any]] = [*reads, *([desk.tell] if tell else [])]
    for ask in asks:
        service.add_tool(_answered(ask))
    return service


def _answered(ask: Callable[..., Any]) -> Callable[..., Any]:
    """What is wrong with a question is said to who asked it."""
    from mcp.server.mcpserver.exceptions import ToolError

    @functools.wraps(ask)
    def answer(*args: Any, **options: Any) -> Any:
        try:
            return ask(*args, **options)
        except EngineError as error:
            raise ToolError(str(error)) from None

    return answer


class _Desk:
    def __init__(self, place: Path) -> None:
        if not place.is_dir():
            raise BadInput(f"{place}: there is no such folder; name a run, or the folder with your runs")
        self._place = place

    def runs(self) -> Rows:
        """The runs: name, workflow, state, frames, first metric, age and size."""
        from steersman.data.listing import listed

        if self._alone:
            return [{"name": self._place.name, **_plain(dict(self.status()))}]
        return [_plain(dataclasses.asdict(each)) for each in listed(self._place)]

    def status(self, run: str = "") -> dict[str, Any]:
        """How far a run is: outcome, frames, segments, models, budget, what went wrong."""
        history = self._history(run)
        with run_directory.reading(history.directory):
            return dict(_plain(history.overview().as_plain()))

    def why(self, of: str, run: str = "") -> dict[str, Any]:
        """Where a segment (w0.7) or a frame (w0.7:3) started, who chose that, what was passed over, how it ended."""
        from steersman.data import why

        history = self._history(run)
        with run_directory.reading(history.directory):
            return dict(_plain(why.why(history, of)))

    def lineage(self, of: str, run: str = "") -> Rows:
        """The segments that led from the prepared start to a segment or a frame, with how many frames of each."""
        from steersman.data import lineage

        history = self._history(run)
        with run_directory.reading(history.directory):
            rows = lineage.rows(history, of)
        parts = rows.groupby("segment", sort=False)
        return [{"segment": name, "frames": len(part), "until": float(part["time"].iloc[-1])} for name, part in parts]

    def decisions(self, run: str = "", most: int = 20) -> Rows:
        """The newest choices of starts: policy, reason, among how many frames, and the segment that ran."""
        return self._table("decisions", run, most)

    def segments(self, run: str = "", how: str = "", most: int = 20) -> Rows:
        """The newest segments: parent, policy, frames, how they ended (finished, stopped, failed; `how` selects)."""
        return self._table("segments", run, most, lambda rows: rows[rows["how"] == how] if how else rows)

    def scores(
        self, run: str = "", by: str = "", lowest: bool = False, low: float | None = None, high: float | None = None,
        most: int = 20,
    ) -> Rows:  # fmt: skip
        """Frames with their scores: the highest (or lowest) by a score, within low and high; without `by` the newest.

        As of all tables, the first row says how many rows there are.
        """

        def chosen(rows: pandas.DataFrame) -> pandas.DataFrame:
            if not by:
                return rows
            if by not in rows:
                raise UnknownName("score", by, [name for name in rows if name not in ("segment", "walker", "row")])
            within = rows[rows[by].between(-math.inf if low is None else low, math.inf if high is None else high)]
            return within.sort_values(by, ascending=not lowest)  # the last are shown

        return self._table("scores", run, most, chosen)

    def metrics(self, run: str = "", most: int = 20) -> Rows:
        """The newest values of the run's metrics, by time."""
        return self._table("metrics", run, most)

    def models(self, run: str = "", most: int = 20) -> Rows:
        """The newest trainings: on how many frames, how long, loss, whether the model is used."""
        return self._table("models", run, most)

    def failures(self, run: str = "", most: int = 20) -> Rows:
        """The newest failures of segments and stages, and lost walkers, with the causes."""
        return self._table("failures", run, most)

    def results(self, run: str = "") -> dict[str, Any]:
        """What `steersman analyse` and `steersman compare` found and wrote: of a run, or of a folder that compares."""
        compared = self._place / "comparison.json"
        files = [compared] if compared.is_file() and not run else sorted(self._directory(run).analysis.glob("*.json"))
        return {file.name: json.loads(reading.read(file, self._place)) for file in files}

    def tell(self, words: list[str], run: str = "") -> str:
        """Give a command to a run that goes on, as `steersman tell` has it, e.g. ["pin", "w0.7:3"]."""
        from steersman.engine import people

        return people.tell(self._directory(run), words)

    @property
    def _alone(self) -> bool:
        return (self._place / "journal.jsonl").is_file()

    def _directory(self, run: str) -> RunDirectory:
        if self._alone:
            names = [self._place.name]
            there = self._place
        else:
            names = sorted(each.parent.name for each in self._place.glob("*/journal.jsonl"))
            there = self._place / run
        if run not in ([*names, ""] if self._alone else names):
            raise UnknownName("run", run, names)
        return run_directory.open_run(there)

    def _history(self, run: str) -> History:
        from steersman.data.history import History

        directory = self._directory(run)
        with run_directory.reading(directory):
            return History(directory)

    def _table(
        self, name: str, run: str, most: int, chosen: Callable[[pandas.DataFrame], pandas.DataFrame] = lambda rows: rows
    ) -> Rows:
        from steersman.data import tables

        history = self._history(run)
        with run_directory.reading(history.directory):
            rows = getattr(tables, name)(history)
        rows = chosen(rows)
        shown = rows.tail(max(0, min(most, MOST))).iloc[::-1]
        index = [] if shown.index.name is None else [shown.index.name]
        plain: Rows = json.loads((shown.reset_index() if index else shown).to_json(orient="records", date_format="iso"))
        return [{"rows": len(rows)}, *plain]


def _plain(values: Any) -> Any:
    return json.loads(json.dumps(values, default=str))
