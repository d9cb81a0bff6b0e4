"""A long campaign resumes fast and in bounded memory."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from steersman.journal.file import encode

EVENTS = 1_000_000
SEGMENTS_PER_WALKER = 5_000
REPLAY = """
import json, resource, sys, time
from pathlib import Path
from steersman.journal.file import Journal
from steersman.journal.state import State
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
began, state = time.process_time(), State()
Journal(Path(sys.argv[1]), replay=state.apply)
took = time.process_time() - began
grew = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
print(json.dumps({"seconds": took, "mib": grew, "segments": state.ended.total(), "frames": state.frames}))
"""


def write_long_journal(path: Path, events: int) -> int:
    """A journal as a long run writes it: four records a segment; returns the number of segments."""
    segments = events // 4
    with path.open("wb") as file:
        for walker in range(segments // SEGMENTS_PER_WALKER):
            file.write(encode({"v": 1, "t": 0.0, "kind": "walker", "walker": walker, "slot": walker}))
        for at in range(segments):
            own = {"v": 1, "t": float(at), "start": at}
            row = at % SEGMENTS_PER_WALKER * 20
            told = own | {"walker": at // SEGMENTS_PER_WALKER, "segment": at % SEGMENTS_PER_WALKER, "first_row": row}
            parent = [max(0, at // SEGMENTS_PER_WALKER - 1), row, at % SEGMENTS_PER_WALKER] if at else None
            file.write(
                encode(
                    own
                    | {
                        "kind": "start",
                        "slot": 0,
                        "parent": parent,
                        "seed": 2**61 + at,
                        "policy": "Novelty",
                        "reason": "distance 0.123 in z to its nearest neighbour",
                        "model": 3,
                        "exact": False,
                    }
                )
            )
            file.write(encode(told | {"kind": "began", "waited_s": 0.001}))
            file.write(
                encode(
                    told
                    | {
                        "kind": "ended",
                        "how": "finished",
                        "cause": "",
                        "end_row": row + 20,
                        "read_s": 0.001,
                        "simulated": 2.0,
                        "waited_s": 0.001,
                        "ran_s": 0.5,
                    }
                )
            )
            file.write(
                encode(
                    {
                        "v": 1,
                        "t": float(at),
                        "kind": "frames",
                        "walker": at // SEGMENTS_PER_WALKER,
                        "frames": row + 20,
                        "segments": at % SEGMENTS_PER_WALKER + 1,
                    }
                )
            )
    return segments


@pytest.mark.slow
def test_a_million_events_are_replayed_in_ten_seconds_and_bounded_memory(tmp_path: Path) -> None:
    """Memory: some 300 bytes a segment, for 250,000 of them; records themselves are not kept."""
    path = tmp_path / "journal.jsonl"
    segments = write_long_journal(path, EVENTS)
    done = subprocess.run([sys.executable, "-c", REPLAY, str(path)], capture_output=True, text=True, check=True)
    measured = json.loads(done.stdout)
    print(measured)
    assert measured["segments"] == segments
    assert measured["frames"] == segments * 20
    assert measured["seconds"] < 10
    assert measured["mib"] < 200
