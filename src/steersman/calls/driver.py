"""The process of a run that Python started: `python -m steersman.calls.driver FD`, the wish on standard input."""

from __future__ import annotations

import os
import pickle
import sys
from typing import Any

from steersman.calls.start import begin, describe, expect_same
from steersman.engine import campaign
from steersman.journal.lock import driven
from steersman.journal.run_directory import RunDirectory
from steersman.stages import loading
from steersman.system.errors import EngineError
from steersman.system.processes import end_with_parent


def main() -> None:
    end_with_parent()
    os.set_inheritable(int(sys.argv[1]), False)
    with os.fdopen(int(sys.argv[1]), "wb", buffering=0) as answers:
        try:
            _drive(pickle.load(sys.stdin.buffer), answers)
        except EngineError as error:
            pickle.dump(error, answers)
        except KeyboardInterrupt:  # a second one; its journal says so
            pass


def _drive(asked: dict[str, Any], answers: Any) -> None:
    own = ("outline", "run_dir", "bus_url", "report", "wait", "place")
    outline, run_dir, bus_url, report, wait, place = (asked.pop(key) for key in own)
    plan = campaign.plan(**asked, **place)
    if outline is not None:
        loading.expect(plan.source, plan.workflow, outline)
    if run_dir and not wait and driven(run_dir):  # the same call again, of a run that goes on
        expect_same(plan, RunDirectory(run_dir), place.get("seed"))
        pickle.dump(str(run_dir.absolute()), answers)
        return
    run = begin(plan, run_dir=run_dir, bus_url=bus_url, go_on=True, **place)
    pickle.dump(str(run.directory.path), answers)
    over = run.state.finished and not run.mended
    if over and run.directory.manifest.exists():
        return
    if not over:
        run.execute()
    describe(run.directory, run.state, draw=report)


if __name__ == "__main__":
    main()
