"""Plan -> its run, of a new directory or of one that exists and holds the same; and what is written when it ended."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Unpack

from steersman.engine import campaign
from steersman.engine.campaign import Plan
from steersman.engine.run import Campaign
from steersman.executors.place import OF_RUN, Place, site_name
from steersman.journal import manifest
from steersman.journal.crate import write_crate
from steersman.journal.lock import Lock, driven, owner
from steersman.journal.run_directory import RunDirectory
from steersman.journal.state import State
from steersman.stages import loading
from steersman.stages.content import same
from steersman.system.errors import BadInput, EngineError
from steersman.system.terminal import remark

LOOK_S = 0.2
ENDS_S = 30.0  # a driver whose caller was killed ends soon after it


def begin(
    plan: Plan,
    *,
    run_dir: Path | None = None,
    bus_url: str | None = None,
    go_on: bool = False,
    **place: Unpack[Place],
) -> Campaign:
    """Make the run of a plan; `execute()` starts it, or goes on with it.

    Args:
        go_on: a `run_dir` that exists is continued, if it holds the same loop, parameters and seed; where it was moved
            to another site meanwhile it stays there.
        place: of which the plan was made; without a seed it goes on with any.
    Raises: BadInput: the directory holds another run. RunIsLocked: another process drives it. BadSite.
        BadDirectory.
    """
    there = RunDirectory(run_dir.absolute()) if go_on and run_dir else None
    if there is None or not there.journal.exists():
        return campaign.begin(plan, run_dir=run_dir, bus_url=bus_url)
    expect_same(plan, there, place.get("seed"))
    deadline = time.monotonic() + ENDS_S
    if driven(there.path):
        remark(f"{there.path} is driven by {owner(there.path)}: waiting {ENDS_S:g} s for its end")
    while driven(there.path) and time.monotonic() < deadline:
        time.sleep(LOOK_S)
    loading.adopt(plan.source, plan.workflow)
    moved = plan.site.model_dump(mode="json") != there.settings()["site"]
    where: Place = {**place, "site": site_name(place)} if moved else {}
    return campaign.resume(there, bus_url=bus_url, source=plan.source, **where)


def expect_same(plan: Plan, there: RunDirectory, seed: int | None) -> None:
    """Raises: BadInput: a directory holds a run with other parameters."""
    settings = there.settings()
    written = {key: value for key, value in settings["params"].items() if key in type(plan.params).model_fields}
    known, asked = loading.checked(plan.workflow, written).model_dump(), plan.params.model_dump()
    known, asked = ({f"parameter {key}": value for key, value in each.items()} for each in (known, asked))
    of_run = [name for name in sorted(OF_RUN) if name != "seed" or seed is not None]
    asked |= {name: getattr(plan, name) for name in of_run}
    known |= {name: settings[name] for name in of_run}
    other = [what for what, value in asked.items() if not same(known[what], value)]
    if differing := tuple(f"{what} is {known[what]} there, not {asked[what]}" for what in other):
        raise BadInput(
            "{path} holds another run: {differing}. Give another run_dir; or, to go on with other parameters, "
            "`steersman resume {path} --set key=value`",
            path=there.path, differing="; ".join(differing),
        )  # fmt: skip


def describe(directory: RunDirectory, state: State, *, draw: bool = True) -> None:
    """Write what a person and a program read of a run that has ended; nobody continues or verifies it meanwhile.

    A report of a run that was interrupted, and may go on, is not drawn: who stopped it waits for the end.
    """
    interrupted = state.end is not None and state.end.outcome == "interrupted"
    with Lock(directory.path).held():
        if draw and not interrupted and any(state.segments):
            from steersman.dashboard.report import write_report

            try:
                write_report(directory)
            except EngineError as error:  # a full disk, say: the run is finished all the same
                remark(error)
        write_crate(directory, state)
        manifest.seal(directory)
