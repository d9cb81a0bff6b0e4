"""Call every stage of a workflow file once: `steersman try`."""

from __future__ import annotations

import contextlib
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from steersman.cli.options import ParamsFile, Set, WorkflowName
from steersman.cli.printing import out, say
from steersman.stages import loading, modules
from steersman.stages.errors import BadWorkflow
from steersman.stages.params import Params
from steersman.stages.workflow import Workflow

if TYPE_CHECKING:
    from steersman.checks.trying import Step


def try_(
    workflow: WorkflowName,
    assignments: Set = [],  # noqa: B006 (Typer wants a list)
    params: ParamsFile = None,
) -> None:
    """Call every stage once in this process, on a few frames; errors have file and line. No files are left behind."""
    shown, file = loading.find(workflow), params and params.absolute()  # the workflow file may go elsewhere
    source = shown.absolute()
    with tempfile.TemporaryDirectory(prefix="steersman-try-") as folder:
        copy = modules.copied(source, Path(folder).resolve())
        try:
            loaded = loading.load(copy, shown=source, moves=True)
        except BadWorkflow as wrong:
            raise BadWorkflow(str(shown), wrong.line, modules.explained(wrong.problem, copy.parent)) from None
        checked = loading.parameters(loaded, file, assignments)
        loading.check_rules(loaded, checked)
        if not print_steps(loaded, checked, source, copy):
            raise typer.Exit(2)


def print_steps(workflow: Workflow, params: Params, source: Path, copy: Path | None = None) -> bool:
    """Print what came of each stage, as it comes; returns whether all of them work."""
    ok = True
    for step in steps(workflow, params, source, copy):
        ok &= step.ok
        mark = "[green]ok[/]" if step.ok else "[red]no[/]"
        out.print(f"{mark}  [bold]{step.what}[/]  [dim]{step.seconds:.2f} s[/]", highlight=False)
        say("\n".join(f"      {line}" for line in step.found.splitlines()))
    return ok


def steps(workflow: Workflow, params: Params, source: Path, copy: Path | None = None) -> Iterator[Step]:
    """Try the stages; what these print goes to standard error."""
    from steersman.checks import trying

    trial = trying.tried(workflow, params, source, copy)
    while True:
        with contextlib.redirect_stdout(sys.stderr):
            step = next(trial, None)
        if step is None:
            return
        yield step
