"""State -> what a terminal shows: slots, models, decisions, progress, time left."""

from __future__ import annotations

import contextlib
import datetime
import math
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from steersman.cli.printing import Lasting, Shown, columns, err, out
from steersman.data.facts import clock, count, facts, failing, missed, simulated
from steersman.data.history import History
from steersman.data.overview import Overview
from steersman.journal.records import words
from steersman.journal.run_directory import RunDirectory
from steersman.journal.state import State
from steersman.journal.walkers import ModelVersion, Walker

if TYPE_CHECKING:
    from steersman.analysis.comparison.campaigns import Tally

MOST_SLOTS = 12  # rows of the slots table; the others are counted
DRAW_S, BESIDE_S = 0.25, 1.0
LOG_S, LOG_BESIDE_S = 10.0, 60.0
PROFILE = {  # of training, by DeepEx's labels
    "IpUpdateTime": "input", "FwdTime": "forward", "BwdTime": "backward", "WtUpdateTime": "update", "SyncTime": "sync",
}  # fmt: skip


def view(state: State, seen: Overview, name: str) -> RenderableType:
    """The whole display at one moment."""
    now = seen.now
    return Panel(
        Group(_progress(state, seen), Text(), _slots(state, now), Text(), _models(state, now), Text(), _newest(state)),
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
    ran, done = f"[dim]run for[/] {clock(3600 * seen.hours)}", (f"{seen.frames:,} frames", simulated(seen))
    grid = Table.grid(padding=(0, 2))
    if (share := seen.budget.share) is not None:
        grid.add_row(ProgressBar(total=1.0, completed=share, width=30), f"{100 * share:.0f} %", ran, _rest(seen), *done)
    else:
        grid.add_row(ran, *done)
    metrics = "   ".join(f"[dim]{name}[/] {value:.4g}" for name, value in seen.metrics.items())
    lacking = seen.starting and f"walkers: {seen.starting}"
    alarms = [text for text in (lacking, seen.paused_by and paused(state), *failing(seen)) if text]
    counts = "   ".join(f"{number:,} {how}" for how, number in seen.segments.items())
    return Group(
        grid,
        Text.from_markup(f"[dim]segments[/] {counts or 'none yet'}   {metrics}", emoji=False),
        *(Text(text, style="bold yellow") for text in alarms),
    )


def _slots(state: State, now: float) -> RenderableType:
    table = columns("slot", "walker", "doing", "segment", "since", "frames")
    alive = [walker for walker in state.walkers.values() if walker.alive]
    for walker in alive[:MOST_SLOTS]:
        segment = walker.running
        table.add_row(
            str(walker.slot),
            walker.name,
            _doing(state, walker),
            segment.name if segment else "",
            f"{max(0.0, now - walker.since):.1f} s",
            f"{walker.frames:,}",
        )
    if len(alive) > MOST_SLOTS:
        table.add_row("...", f"{len(alive) - MOST_SLOTS} more")
    return table


def _doing(state: State, walker: Walker) -> str:
    segment = walker.running
    if segment is None:
        if state.wishes.paused:
            return "[yellow]paused[/]"
        return "[yellow]starting[/]" if not walker.segments else "[yellow]waiting[/]"
    start = state.starts.get(segment.start)
    return f"[green]simulating[/] [dim]{escape(start.record.policy) if start else ''}[/]"


def _models(state: State, now: float) -> RenderableType:
    table = columns("model", "frames", "loss", "held out", "time of training", "")
    shown = state.models[-4:]
    for model in shown:
        table.add_row(str(model.version), f"{model.frames:,}", *_figures(model, now))
    if not state.models:
        table.add_row("none yet", *[""] * 5)
    # Below, for a narrow terminal: a column would break them into words.
    reasons = [f"[dim]model {model.version}: {escape(model.reason)}[/]" for model in shown if model.reason]
    return Group(table, *(Text.from_markup(each, emoji=False) for each in reasons[-2:]))


def _figures(model: ModelVersion, now: float) -> tuple[str, str, str, str]:
    known = model.fit or model.epoch
    loss, held_out = getattr(known, "loss", None), model.fit.held_out if model.fit else None
    return (
        "" if loss is None else f"{loss:.4g}",
        "" if held_out is None else f"{held_out:.4g}",
        _profile(known.profile if known else {}),
        _fate(model, now),
    )


def _fate(model: ModelVersion, now: float) -> str:
    """How far its training is, or what became of it."""
    if model.accepted is None:
        far = f", epoch {model.epoch.epoch} of {model.epoch.epochs}" if model.epoch else ""
        return f"[yellow]training for {max(0.0, now - model.at):.0f} s{far}[/]"
    return "[green]in use[/]" if model.accepted else "[red]not used[/]"


def _profile(spent: Mapping[str, float]) -> str:
    """`input 2, forward 31, backward 52, update 14, sync 1 %`: where the time went."""
    shown = {label: spent[label] for label in PROFILE if label in spent}
    whole = sum(shown.values())
    shares = ", ".join(f"{PROFILE[label]} {100 * seconds / whole:.0f}" for label, seconds in shown.items() if whole > 0)
    return f"{shares} %" if shares else ""


def _newest(state: State) -> RenderableType:
    lines = [
        f"[dim]start {start.start}[/] {state.origin(start)} [dim]{escape(start.policy)}:[/] {escape(start.reason)}"
        for start in list(state.decisions)[-4:]
    ]
    lines += [f"[yellow]{escape(words(note))}[/]" for note in list(state.notes)[-2:]]
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
    table = Table(title=escape(seen.workflow), box=None, show_header=False, padding=(0, 2))
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
