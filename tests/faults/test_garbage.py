"""Garbage on the bus of a campaign: it ends as it should, and its run directory is whole."""

import contextlib
import itertools
import os
import random
import time
from pathlib import Path
from typing import Any

import pytest

from steersman.bus import BusError, TupleSpace
from steersman.bus.tuples import dead_letters
from steersman.engine.inbox import TELL
from steersman.journal import file as journal
from steersman.journal.records import Note
from steersman.worker.orders import EVENT, START

from .campaign import Campaign

EVERY_S, FOR_S = 0.05, 15.0
ODD: list[Any] = [None, -1, 2**63 - 1, 0.5, float("nan"), "w0", b"\xff", [1, [2]], {"a": 1}, True]
FIELDS = ("walker", "segment", "start", "first_row", "end_row", "frames", "segments", "how", "model", "seed", "parent")


def garbage(rng: random.Random) -> tuple[Any, ...]:
    fields = {rng.choice(FIELDS): rng.choice(ODD) for _ in range(rng.randrange(5))}
    return rng.choice([
        (EVENT, rng.choice(["began", "ended", "frames", "joined", "epoch", "job", "end", ""]), fields),
        (EVENT, "ended", {"walker": 0, "segment": 9**9, "start": 0, "first_row": 0, "end_row": 1, "how": "finished"}),
        (TELL, {"id": "x", "who": rng.choice(ODD), "words": rng.choice(ODD)}),
        (TELL, {"id": "y", "who": "me", "words": ["stop", "w99.99"]}),
        (START, rng.choice([-7, 0, 10**9]), fields),
        (START, 10**9, {"start": 10**9, "seed": 1, "parent": [10**6, 0, 0]}),
    ])  # fmt: skip


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.skipif(not os.environ.get("STEERSMAN_SOAK"), reason="of `make soak`")
def test_a_campaign_with_garbage_on_its_bus_ends_as_it_should_and_is_whole(tmp_path: Path) -> None:
    seed = int(os.environ.get("STEERSMAN_SEED") or random.SystemRandom().randrange(10**6))
    print(f"\nSTEERSMAN_SEED={seed}")
    campaign = Campaign(tmp_path, random.Random(seed))
    try:
        with TupleSpace.connect(campaign.directory.bus) as space:
            deadline = time.monotonic() + FOR_S
            for _ in itertools.takewhile(lambda _: time.monotonic() < deadline, itertools.count()):
                with contextlib.suppress(BusError):
                    space.put(*garbage(campaign.rng))
                time.sleep(EVERY_S)
            for name, *kinds in ((EVENT, str, dict), (TELL, dict), (START, int, dict)):
                assert space.count(dead_letters(name), *kinds)
        budget = campaign.state().frames + 200
        state = campaign.finish(budget)
        campaign.check(state, budget)
    finally:
        campaign.close()
    assert state.end is not None
    assert state.end.outcome == "budget"
    notes = [note.text for note in journal.read(campaign.directory.journal, Note) if "invalid message" in note.text]
    assert 0 < len(notes) == len(set(notes))
    assert not any("is gone" in each.cause for each in state.stages.values())
