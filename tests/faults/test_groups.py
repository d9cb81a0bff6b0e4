"""kill -9 at any moment of `examples/groups.py`: each call is done once, its result stays what it was, the order holds.

Only `make soak` runs it; tests/engine/test_tasks.py kills the same campaign twice.
"""

from __future__ import annotations

import contextlib
import os
import random
import time
from collections import Counter
from pathlib import Path

import psutil
import pytest

from steersman.engine import orphans
from tests.engine.conftest import started, steersman
from tests.engine.test_tasks import ROOT, is_golden, results

KILLS = 20
SOAK = bool(os.environ.get("STEERSMAN_SOAK"))


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.skipif(not SOAK, reason="20 kills of the golden trace are left out; `make soak` sets STEERSMAN_SOAK")
def test_the_golden_trace_holds_however_often_anything_is_killed(tmp_path: Path) -> None:
    seed = int(os.environ.get("STEERSMAN_SEED") or random.SystemRandom().randrange(10**6))
    print(f"\nSTEERSMAN_SEED={seed}")
    rng, kills, campaigns = random.Random(seed), Counter[str](), 0
    while kills.total() < KILLS:
        run, campaigns = tmp_path / f"run{campaigns}", campaigns + 1
        killed_at_random(run, rng, kills)
        done = steersman("resume", run, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        is_golden(run)
        print(f"{campaigns} campaigns, killed: {dict(kills)}", flush=True)


def killed_at_random(run: Path, rng: random.Random, kills: Counter[str]) -> None:
    """Kill its driver, or any of its processes, when some lines more are in the journal, until the run has ended."""
    words: tuple[object, ...] = ("run", ROOT / "examples" / "groups.py", "--run-dir", run, "--workers", 2)
    driver = started(*words, cwd=run.parent)
    while kills.total() < KILLS and driver.poll() is None:
        until, kept = lines(run) + rng.randint(1, 20), results(run) if lines(run) else {}
        while lines(run) < until and driver.poll() is None:
            time.sleep(0.002)
        time.sleep(rng.uniform(0, 0.05))  # this is the random moment, not a wait for something
        if driver.poll() is not None:
            break
        others = orphans.of_run(run) if rng.random() < 0.5 else []
        victim = rng.choice(others) if others else psutil.Process(driver.pid)
        with contextlib.suppress(psutil.NoSuchProcess):
            kills[victim.name() if others else "driver"] += 1
            victim.kill()
        if not others:
            driver.wait()
            found = results(run) if lines(run) else {}
            assert {key: found[key] for key in kept} == kept, "what the journal has stays what it was"
            driver = started("resume", run, cwd=run.parent)
    driver.kill()
    driver.wait()


def lines(run: Path) -> int:
    file = run / "journal.jsonl"
    return file.read_bytes().count(b"\n") if file.exists() else 0
