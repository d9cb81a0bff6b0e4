"""`steersman`: all verbs, and what becomes of an error."""

from __future__ import annotations

import errno
import importlib.metadata
import logging
import os
import sys
import threading
from typing import Annotated, Any

import typer
from rich.markup import escape

from steersman.cli.printing import ToStderr, err, say
from steersman.cli.verbs import Verbs
from steersman.system.errors import EngineError
from steersman.system.terminal import shown

UsageError: Any = typer.BadParameter.__bases__[0]  # Typer has no public name for it
REFUSED = {  # what the system refuses for where something lies or is called, and what to do then
    errno.EACCES: "ask its owner, or work on a copy",
    errno.EPERM: "ask its owner, or work on a copy",
    errno.ENOSPC: "make room, or choose another disk",
    errno.EDQUOT: "make room, or choose another disk",
    errno.EROFS: "choose a folder that can be written",
    errno.ENAMETOOLONG: "choose a shorter name",
}
SHOWN = 1500, 500  # letters of an error, from its beginning and its end

EXIT_CODES = {
    0: "done: the goal was reached, the budget was spent, or the run was finished with `tell`",
    1: "an error that we did not expect; of `bench track`: a figure got slower",
    2: "bad input: a file, a name, a value",
    3: "only with `--require-goal`: the budget was spent before the goal was reached",
    4: "an operation failed: another process drives the run, the disk is full, a scheduler rejected a job",
    5: "the run failed: its segments, or a stage that never worked or failed too often",
    6: "files of a run are damaged: `verify` or another command found it",
    7: "`doctor` or `remote check` found something wrong",
    130: "interrupted; `resume` continues the run",
}

app = typer.Typer(
    cls=Verbs, no_args_is_help=True, pretty_exceptions_enable=False,
    epilog="\n\n".join(["Exit codes:", *(f"{code:3} {meaning}" for code, meaning in EXIT_CODES.items())]),
)  # fmt: skip


def _version(asked: bool) -> None:
    if asked:
        say(f"steersman {importlib.metadata.version('steersman')}")
        raise typer.Exit


@app.callback()
def options(
    _: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="print the version and end")
    ] = False,
    verbose: Annotated[
        int, typer.Option("--verbose", "-v", count=True, help="log what happens to standard error; -vv: every record")
    ] = 0,
) -> None:
    """Couple simulations with deep learning: run a workflow file, watch it, ask why."""
    if verbose:
        logging.getLogger("steersman").setLevel(logging.INFO if verbose == 1 else logging.DEBUG)
        logging.getLogger("steersman").addHandler(ToStderr())


def main() -> None:
    """Run the command line, and end the process, though a score may hang in a thread of it."""
    try:
        _main()
    except SystemExit as end:
        if any(thread.name.startswith("scoring") for thread in threading.enumerate()):
            sys.stdout.flush()
            os._exit(end.code if isinstance(end.code, int) else 0)
        raise


def _main() -> None:
    """Print in one line what a person did wrong, and end with code 2."""
    os.environ.setdefault("PATH", os.defpath)  # Parsl starts its programs by it
    logging.raiseExceptions = False  # a full disk is reported once, not by every line that Parsl cannot log
    try:
        sys.exit(app(standalone_mode=False))
    except UsageError as error:
        error.message = shown(error.message)
        error.show()
        sys.exit(2)
    except typer.Abort:
        sys.exit(1)
    except EngineError as error:
        _refuse(str(error), error.exit_status)
    except MemoryError:
        _refuse("no memory is left to this process; ask for more (ulimit -v, the limit of a job or a container)", 4)
    except OSError as error:
        if error.errno not in REFUSED:
            raise
        where = f"{error.filename}: " if error.filename else ""  # a full disk has none
        _refuse(f"{where}{error.strerror}; {REFUSED[error.errno]}", 2)


def _refuse(text: str, code: int) -> None:
    """Print what is wrong and end; of a word of thousands of letters the beginning and what to do about it."""
    whole = len(text) <= sum(SHOWN)
    text = text if whole else f"{text[: SHOWN[0]]} ... {text[-SHOWN[1] :]}"
    err.print(f"[red]error:[/] {escape(text)}", highlight=False, soft_wrap=True)
    sys.exit(code)


if __name__ == "__main__":
    main()
