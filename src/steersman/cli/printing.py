"""How verbs print: results to standard output, all else to standard error."""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TextIO

import typer
from rich.console import Console
from rich.segment import Segment
from rich.table import Column, Table
from rich.text import Text

from steersman.system.terminal import shown as shown

if TYPE_CHECKING:  # see campaigns.py
    from steersman.executors.preflight import Finding


_results: list[TextIO] = []  # where `say` prints in place of standard output


@contextmanager
def results_alone() -> Iterator[None]:
    """Keep standard output for what `say` prints: what a workflow file prints, a program that it starts too, goes to
    standard error."""
    try:
        real = sys.stdout.fileno() == 1
    except (OSError, ValueError):  # a test reads it, say
        real = False
    sys.stdout.flush()
    with ExitStack() as kept:
        if real:
            saved = os.dup(1)
            kept.callback(os.close, saved)
            kept.callback(os.dup2, saved, 1)
            kept.callback(sys.stdout.flush)
            os.dup2(2, 1)
            _results.append(kept.enter_context(open(os.dup(saved), "w", encoding=sys.stdout.encoding)))
        else:
            _results.append(sys.stdout)
            kept.enter_context(redirect_stdout(sys.stderr))
        kept.callback(_results.pop)
        yield


def say(text: str, *, to_stderr: bool = False, newline: bool = True) -> None:
    """Print a text as it is, without any markup."""
    typer.echo(shown(text), file=_results[-1] if _results and not to_stderr else None, err=to_stderr, nl=newline)


class Shown(Console):
    """A terminal to which the words of others are shown, whatever they are printed with; styles are ours alone."""

    def __init__(self, **options: Any) -> None:
        colours: Literal["standard", "auto"] = "standard" if os.environ.get("FORCE_COLOR") else "auto"
        super().__init__(emoji=False, color_system=colours, **options)  # else w2.0:-1: has a thumb

    @property
    def is_terminal(self) -> bool:
        """By what it writes to alone: FORCE_COLOR, which Jupyter sets, would move the cursor in a file, too."""
        try:
            return self.file.isatty()
        except (AttributeError, ValueError):  # no file, or a closed one
            return False

    def render(self, *args: Any, **options: Any) -> Iterable[Segment]:
        for segment in super().render(*args, **options):
            yield segment if segment.control else segment._replace(text=shown(segment.text))

    def plain(self, text: str) -> None:
        """Print a text as it is, without any markup, and leave it to the terminal to wrap it."""
        self.print(text, markup=False, highlight=False, soft_wrap=True)


class Lasting(Shown):
    """Standard error, without which a campaign goes on: the terminal may have gone, or who read a pipe."""

    def __init__(self) -> None:
        super().__init__(stderr=True)

    def __exit__(self, *error: object) -> None:
        try:
            super().__exit__(*error)
        except OSError:
            self.quiet = True

    def on_broken_pipe(self) -> None:
        """Print nothing more; rich would end the process."""
        self.quiet = True


out, err = Shown(), Lasting()


@contextmanager
def counting(what: str) -> Iterator[Callable[[str], None]]:
    """What is being done, and how far it is: in place on a terminal, or, where there is none, a line each time."""
    if not err.is_terminal:
        err.plain(what)
        yield err.plain
        return
    with err.status(what) as status:
        yield lambda text: status.update(Text(text))


@contextmanager
def again_continues() -> Iterator[None]:
    """At Ctrl-C say how it goes on, and end with 130."""
    try:
        yield
    except KeyboardInterrupt:
        err.plain("stopped; give the same command again to continue")
        raise typer.Exit(130) from None


class ToStderr(logging.Handler):
    """Log messages in lines of standard error, above a live display."""

    def emit(self, record: logging.LogRecord) -> None:
        at = time.strftime("%H:%M:%S", time.localtime(record.created))
        text = f"{at} {record.levelname.lower()}: {self.format(record)}"
        err.plain(text)


def say_rows(rows: Sequence[Sequence[str]]) -> None:
    """Rows as columns, whole: what a person, or a script, copies is not cut where a terminal ends."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        say("  ".join(f"{word:<{width}}" for word, width in zip(row, widths, strict=True)).rstrip())


def columns(*names: str | Column) -> Table:
    """A plain table with a header."""
    return Table(*names, box=None, header_style="dim", padding=(0, 2, 0, 0))


def first_line(file: Path) -> str:
    """What a file says of itself: its first line, without what marks it as a comment."""
    return file.read_text(encoding="utf-8").partition("\n")[0].strip("#\"' ")


def print_checks(checks: Sequence[Finding]) -> None:
    """Print what takes several lines, and below it, where it stays on the screen, what was found as a table."""
    long = [each for each in checks if "\n" in each.found]
    for each in long:
        print_text(each.what, each.found)
    if long:
        out.rule()
    table = Table.grid(padding=(0, 2))
    for each in checks:
        if each not in long:
            table.add_row("[green]ok[/]" if each.ok else "[red]no[/]", each.what, Text(each.found, overflow="fold"))
    out.print(table)


def print_text(title: str, text: str) -> None:
    """Print a text as it is under a rule with its title."""
    out.rule(Text(title), align="left")
    say(text.rstrip())
