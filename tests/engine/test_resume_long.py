"""A long campaign resumes fast and in bounded memory."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from steersman.journal.file import rewrite
from steersman.journal.records import Began, Ended, FrameId, Hired, Published, Record, Start

EVENTS = 300_000
SEGMENTS_PER_WALKER = 5_000
REPLAY = """
import json, sys, time
from pathlib import Path
from steersman.journal.file import Journal
from steersman.journal.state import State

def peak():  # getrusage's is never less than that of the process that started this one
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(status["VmHWM"].split()[0]) / 1024

path, began = Path(sys.argv[1]), time.process_time()
with path.open("rb") as file:
    for line in file:
        json.loads(line)
read, before = time.process_time(), peak()
state = State()
Journal(path, replay=state.apply)
replayed = time.process_time() - read
print(json.dumps({"read_s": read - began, "replayed_s": replayed, "mib": peak() - before,
                  "segments": state.ended.total(), "frames": state.frames}))
"""


def long_story(segments: int) -> Iterator[Record]:
    """What a long run writes: four records a segment."""
    for walker in range(segments // SEGMENTS_PER_WALKER):
        yield Hired(walker=walker, slot=walker)
    for at in range(segments):
        walker, number = divmod(at, SEGMENTS_PER_WALKER)
        first, t = number * 20, float(at)
        parent = FrameId(max(0, walker - 1), first, number) if at else None
        reason = "distance 0.123 in z to its nearest neighbour"
        yield Start(t=t, start=at, parent=parent, seed=2**61 + at, policy="Novelty", reason=reason, model=3)
        yield Began(t=t, walker=walker, segment=number, start=at, first_row=first, waited_s=0.001)
        yield Ended(
            t=t, walker=walker, segment=number, start=at, first_row=first, end_row=first + 20, how="finished",
            simulated=2.0, waited_s=0.001, read_s=0.001, ran_s=0.5,
        )  # fmt: skip
        yield Published(t=t, walker=walker, frames=first + 20, segments=number + 1)


@pytest.mark.slow
def test_events_are_replayed_in_the_time_of_reading_them_and_in_bounded_memory(tmp_path: Path) -> None:
    """A million in some 6 s, one and a half times what Python's json takes for the lines; records are not kept."""
    path = tmp_path / "journal.jsonl"
    segments = EVENTS // 4
    rewrite(path, long_story(segments))
    done = subprocess.run([sys.executable, "-c", REPLAY, str(path)], capture_output=True, text=True, check=True)
    measured = json.loads(done.stdout)
    print(measured)
    assert measured["segments"] == segments
    assert measured["frames"] == segments * 20
    assert measured["replayed_s"] < 3 * measured["read_s"]
    assert measured["mib"] < 15
