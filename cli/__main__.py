"""`steersman`: all verbs, and what becomes of an error.

Exit codes: 0 the run reached its goal (or spent its budget, where it has no other goal), 2 bad input, 3 the budget was
spent before the goal, 4 simulations failed, 130 interrupted.
"""

from __future__ import annotations

import errno
import logging
import os
import sys
import threading
from typing import Any

import typer
from rich.markup import escape

from steersman.cli.bus import bus
from steersman.cli.campaigns import check, resume, run
from steersman.cli.compare import compare
from steersman.cli.printing import err, shown
from steersman.cli.runs import journal, replay, status, tell, verify, watch, why
from steersman.cli.shipped import bench, new, workflows
from steersman.cli.sites import doctor, sites
from steersman.cli.trying import try_
from steersman.system.errors import BadInput, EngineError

UsageError: Any = typer.BadParameter.__bases__[0]  # Typer has no public name for it
REFUSED = {  # what the system refuses for where something lies or is called, and what to do then
    errno.EACCES: "ask its owner, or work on a copy",
    errno.EPERM: "ask its owner, or work on a copy",
    errno.EROFS: "choose a folder that can be written",
    errno.ENAMETOOLONG: "choose a shorter name",
}
SHOWN = 1500, 500  # letters of an error, from its beginning and its end

app = typer.Typer(
    help="Couple simulations with deep learning: run a workflow file, watch it, ask why.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
VERBS = (
    run,
    check,
    try_,
    resume,
    status,
    watch,
    tell,
    why,
    replay,
    compare,
    journal,
    verify,
    bus,
    workflows,
    new,
    doctor,
    bench,
)
OPEN = {  # words of theirs may look like options
    tell: {"ignore_unknown_options": True},
    bench: {"allow_extra_args": True, "ignore_unknown_options": True},
}
for verb in VERBS:
    app.command(verb.__name__.rstrip("_"), context_settings=OPEN.get(verb))(verb)
app.add_typer(sites, name="sites", help="List the site files that come with Steersman, or show one.")


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
    except BadInput as error:
        _refuse(str(error), 2)
    except EngineError as error:
        _refuse(str(error), 4)
    except OSError as error:
        if error.errno not in REFUSED:
            raise
        _refuse(f"{error.filename}: {error.strerror}; {REFUSED[error.errno]}", 2)


def _refuse(text: str, code: int) -> None:
    """Print what is wrong and end; of a word of thousands of letters the beginning and what to do about it."""
    whole = len(text) <= sum(SHOWN)
    text = text if whole else f"{text[: SHOWN[0]]} ... {text[-SHOWN[1] :]}"
    err.print(f"[red]error:[/] {escape(text)}", highlight=False, soft_wrap=True)
    sys.exit(code)


if __name__ == "__main__":
    main()
