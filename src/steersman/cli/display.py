"""State -> what a terminal shows: slots, models, decisions, progress, time left."""

from __future__ import annotations

import contextlib
import datetime
import math
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from steersman.cli.printing import Lasting, Shown, err, out
from steersman.data.facts import clock, count, facts, missed, simulated
from steersman.data.history import History
from steersman.data.overview import Overview
from steersman.journal.records import words
from steersman.journal.run_directory import RunDirectory
from steersman.journal.state import State

if TYPE_CHECKING:
    from steersman.analysis.comparison.campaigns import Tally

DRAW_S, BESIDE_S = 0.25, 1.0
LOG_S, LOG_BESIDE_S = 10.0, 60.0


def view(state: State, seen: Overview, name: str) -> RenderableType:
    """The whole display at one moment."""
    return Panel(
        Group(_progress(state, seen), Text(), _table(seen), Text(), _newest(state)),
        title=f"[bold]{escape(name)}[/]" + (" [yellow](guided by a known reference)[/]" if seen.guided else ""),
        title_align="left",
    )


def line(seen: Overview) -> str:
    """One line for logs; without a rule, what is left is not known."""
    share, segments = seen.budget.share, sum(seen.segments.values())
    ahead = [] if share is None else [f"{100 * share:.0f} % of the budget"]
    ahead += [rest] if ahead and (rest := _rest(seen)) else []
    marks = ["PAUSED"] if seen.paused_by else []
    marks += [f"walkers: {seen.starting}"] if seen.starting else []
    if not seen.ended and seen.tasks.keys() & {"begun", "waiting"}:
        marks += [f"tasks: {' '.join(f'{number} {how}' for how, number in seen.tasks.items())}"]
    return ", ".join([
        *marks, f"{clock(3600 * seen.hours)}  {seen.frames:,} frames", simulated(seen),
        count(segments, "segment"),
        f"model {seen.model or '-'}", *ahead,
    ])  # fmt: skip


def _rest(seen: Overview) -> str:
    """What there is to wait for: time, or a training that goes on when the budget is spent; "": nothing goes on."""
    budget = seen.budget
    if seen.ended or seen.paused_by:
        return ""
    if budget.share is not None and budget.share >= 1 and seen.training:
        return f"{seen.training.partition(',')[0]} is being trained"
    if budget.share is not None and budget.share >= 1:
        return "the run is to end" + (f": {count(seen.waiting, 'frame')} wait for scores" if seen.waiting else "")
    if budget.left_s is None:
        return "? left"
    return f"{'' if budget.spends else 'at most '}{clock(budget.left_s)} left"


def _progress(state: State, seen: Overview) -> RenderableType:
    grid = Table.grid(padding=(0, 2))
    if (share := seen.budget.share) is not None:
        grid.add_row(ProgressBar(total=1.0, completed=share, width=30), f"{100 * share:.0f} %", _rest(seen))
    return Group(grid, *([Text(paused(state), style="bold yellow")] if seen.paused_by else []))


def _newest(state: State) -> RenderableType:
    lines = [
        f"[dim]start {start.start}[/] {state.origin(start)} [dim]{escape(start.policy)}:[/] {escape(start.reason)}"
        for start in list(state.decisions)[-4:]
    ]
    return Text.from_markup("\n".join(lines) or "no decisions yet", emoji=False)


class Beside:
    """Campaigns beside each other: how many are done, and a line for each that runs, once a second on a terminal and
    once a minute elsewhere.

    Args:
        say: prints lines, in place of those before where that can be.
        clock: seconds since 1970.
    """

    def __init__(self, say: Callable[[str], None], clock: Callable[[], float] = time.time) -> None:
        self._say, self._clock, self._every_s = say, clock, BESIDE_S if err.is_terminal else LOG_BESIDE_S
        self._histories: dict[str, History] = {}
        self._shown, self._done = -math.inf, -1

    def show(self, progress: Tally) -> None:
        now = self._clock()
        if progress.done == self._done and now - self._shown < self._every_s:
            return
        self._shown, self._done = now, progress.done
        lines = [str(progress)]
        self._histories = {
            run: self._histories.get(run) or History(RunDirectory(Path(run)), read=False) for run in progress.running
        }
        for run, history in self._histories.items():
            name, rule = progress.campaigns[run]
            with contextlib.suppress(FileNotFoundError):
                history.catch_up()
            lines.append(f"  {name}: {line(history.overview(rule, now)) if history.state.sessions else 'starts'}")
        self._say("\n".join(lines))


class Display:
    """Shows a running state, on standard error unless it is given a console: live on a terminal, else lines."""

    def __init__(self, name: str, console: Shown | None = None) -> None:
        self.console = console or Lasting()
        self._name = name
        self._live: Live | None = None
        self._shown, self._noted = 0.0, time.time()

    def show(self, state: State, see: Callable[[], Overview], now: float) -> None:
        """Show it, if it is time to: `see` looks at the run then."""
        if now - self._shown < (DRAW_S if self._live else LOG_S):
            return
        self._shown = now
        if self._live:
            self._live.update(view(state, see(), self._name), refresh=True)
        elif state.sessions:
            notes = [words(note) for note in state.notes if self._noted < note.t]
            self._noted = max(self._noted, state.now)
            for text in [*notes, line(see())]:
                self.console.plain(text)

    @contextlib.contextmanager
    def live(self) -> Iterator[None]:
        if not self.console.is_terminal:
            yield
            return
        first = Text("bus and workers start", style="dim")
        with Live(first, console=self.console, auto_refresh=False, transient=True) as self._live:
            yield
        self._live = None


def closing(seen: Overview) -> RenderableType:
    """A run in one table."""
    return _table(seen, escape(seen.workflow))


def _table(seen: Overview, title: str | None = None) -> RenderableType:
    table = Table(title=title, box=None, show_header=False, padding=(0, 2))
    for name, value in facts(seen).items():
        table.add_row(f"[dim]{name}[/]", escape(value))
    return table


def print_outcome(seen: Overview) -> None:
    """Print how a run ended, if it has."""
    if seen.reason is not None:
        out.print(f"[bold]{seen.outcome}[/]: {escape(seen.reason + missed(seen))}", highlight=False, soft_wrap=True)


def paused(state: State, tell: str = "tell RUN") -> str:
    """Who paused the run and since when, or ""."""
    if state.wishes.paused is None:
        return ""
    since = datetime.datetime.fromtimestamp(state.wishes.paused.t).strftime("%Y-%m-%d %H:%M:%S")
    return f"PAUSED by {state.wishes.paused.who} since {since}; `steersman {tell} continue` continues it"
