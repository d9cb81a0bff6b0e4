"""kill -9 of anything, at any time, costs at most the work since the last committed chunk.

The quick form is in the suite. `make soak` sets STEERSMAN_SOAK and runs the long one: 500 kills and more.
"""

import os
import random
from collections import Counter
from pathlib import Path

import pytest

from .campaign import Campaign

WORKFLOWS = "workflow.py", "biased.py"  # steered by a policy, by a bias
SOAK = bool(os.environ.get("STEERSMAN_SOAK"))
CAMPAIGNS, KILLS = (10, 50) if SOAK else (1, 14)


def table(kills: Counter[str], seed: int) -> str:
    lines = [f"seed {seed}", f"{'killed':<12} {'times':>6}  committed frames lost"]
    lines += [f"{kind:<12} {times:>6}  none" for kind, times in sorted(kills.items())]
    return "\n".join([*lines, f"{'all':<12} {kills.total():>6}  none"])


@pytest.mark.slow
@pytest.mark.timeout(7200 if SOAK else 400)
def test_whatever_is_killed_nothing_that_was_committed_is_lost(tmp_path: Path) -> None:
    seed = int(os.environ.get("STEERSMAN_SEED") or random.SystemRandom().randrange(10**6))
    print(f"\nSTEERSMAN_SEED={seed}")
    kills: Counter[str] = Counter()
    for number in range(CAMPAIGNS):
        folder = tmp_path / str(number)
        folder.mkdir()
        campaign = Campaign(folder, random.Random(seed + number), WORKFLOWS[(seed + number) % 2])
        try:
            while campaign.kills.total() < KILLS:
                campaign.burst(KILLS - campaign.kills.total())
            budget = campaign.state().frames + 200
            campaign.check(campaign.finish(budget), budget)
        finally:
            campaign.close()
        kills += campaign.kills
        print(table(kills, seed), flush=True)
