"""`steersman`: all verbs, and what becomes of an error.

Exit codes: 0 the run reached its goal (or spent its budget, where it has no other goal), 2 bad input, 3 the budget was
spent before the goal, 4 simulations failed, 130 interrupted.
"""

from __future__ import annotations

import logging
import os
import sys
import threading

import typer
from rich.markup import escape

from steersman.bus import BusError
from steersman.cli.bus import bus
from steersman.cli.campaigns import check, resume, run
from steersman.cli.compare import compare
from steersman.cli.printing import err
from steersman.cli.runs import journal, replay, status, tell, verify, watch, why
from steersman.cli.shipped import bench, new, workflows
from steersman.cli.sites import doctor, sites
from steersman.executors.errors import BadSite
from steersman.system.errors import BadInput, EngineError

app = typer.Typer(
    help="Couple simulations with deep learning: run a workflow file, watch it, ask why.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
VERBS = (
    run,
    check,
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
    app.command(context_settings=OPEN.get(verb))(verb)
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
    """What a person did wrong is told in one line and ends with code 2."""
    logging.raiseExceptions = False  # a full disk is told once, not by every line that Parsl cannot log
    try:
        app()
    except (BadInput, BadSite) as error:
        err.print(f"[red]error:[/] {escape(str(error))}", highlight=False, soft_wrap=True)
        sys.exit(2)
    except (EngineError, BusError) as error:
        err.print(f"[red]error:[/] {escape(str(error))}", highlight=False, soft_wrap=True)
        sys.exit(4)


if __name__ == "__main__":
    main()
