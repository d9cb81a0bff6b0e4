"""Store -> journal: what walkers committed and could not tell any more is taken over, and those walkers are given up.

It is called with the walkers of a driver, or of a Parsl, that died. They are fenced off: another walker takes their
slot, what they still write is not read. See docs/design/004-durable-campaign.md.
"""

from __future__ import annotations

from typing import Any

from steersman.journal import published
from steersman.journal.file import Record
from steersman.journal.recorder import Recorder
from steersman.journal.walkers import Walker
from steersman.store import ENDED, SEGMENT_FIELDS, Frames, StoreError


def reconcile(recorder: Recorder, frames: Frames, *, keep: bool, cause: str) -> int:
    """Adopt what the walkers that are still taken for alive have committed, then declare them lost.

    Args:
        keep: a segment that was cut short goes on from its last committed frame; else its start is run again.
        cause: why they are lost.
    Returns: frames adopted.
    """
    state = recorder.state
    for number in sorted(int(name[1:]) for name in frames.walkers()):
        if number not in state.walkers:  # the end of the journal was lost with the machine
            recorder.record("walker", walker=number, slot=0)
    before = state.frames
    catch_up(recorder, frames)
    for walker in list(state.walkers.values()):
        if walker.alive:
            recorder.record("lost", walker=walker.number, cause=cause, keep=keep, blame=False)
    return state.frames - before


def catch_up(recorder: Recorder, frames: Frames) -> None:
    """Adopt what walkers have committed and a killed server forgot to hand on: they do not tell it twice, and one that
    waits for its next start tells nothing."""
    for walker in list(recorder.state.walkers.values()):
        if walker.alive:
            try:
                adopt(recorder, frames, walker)
            except (StoreError, OSError, ValueError, KeyError) as error:
                recorder.note(f"w{walker.number} cannot be read beyond row {walker.frames}: {error}; see `verify`")


def adopt(recorder: Recorder, frames: Frames, walker: Walker) -> None:
    """Record what the store holds of a walker and the journal does not know."""
    name = f"w{walker.number}"
    if name not in frames:
        return
    rows, fresh, attributes = frames.publication(name, walker.published_segments)
    published = walker.published_segments + len(fresh)
    for values in fresh.tolist():
        row = dict(zip(SEGMENT_FIELDS, values, strict=True))
        if row["start"] >= recorder.state.next_start:
            recorder.record("start", **_start(recorder, row, walker.slot))
        told = {"walker": walker.number, "segment": row["number"], "start": row["start"], "first_row": row["first_row"]}
        if row["number"] >= len(walker.segments):
            recorder.record("began", **told, waited_s=0.0, adopted=True)
        if walker.segments[row["number"]].end is None:
            times = {"read_s": 0.0, "waited_s": 0.0, "ran_s": 0.0, "simulated": _time(frames, name, row)}
            how = ENDED[row["ended"]]
            recorder.record("ended", **told, end_row=row["end_row"], how=how, cause="", **times, adopted=True)
    running = attributes.get("running")
    if running and running[0] >= len(walker.segments) and rows > running[2]:
        told = dict(zip(("segment", "start", "first_row"), running, strict=True))
        recorder.record("began", walker=walker.number, **told, waited_s=0.0, adopted=True)
    if rows > walker.frames or len(fresh):
        recorder.record("frames", walker=walker.number, frames=rows, segments=published, adopted=True)


def _time(frames: Frames, name: str, row: dict[str, int]) -> float:
    """Simulated time of a segment: the `time` of its last frame."""
    if row["end_row"] <= row["first_row"] or "time" not in frames.variables(name):
        return 0.0
    return float(frames.row(name, row["end_row"] - 1)["time"])


def _start(recorder: Recorder, row: dict[str, int], slot: int) -> Record:
    """A start that only the store knows of: the machine went down before the journal was on the disk."""
    parent: list[int] | None = None
    if row["parent_walker"] >= 0:
        made_by = published.segment_of(recorder.state, row["parent_walker"], row["parent_row"])
        parent = [row["parent_walker"], row["parent_row"], made_by.number if made_by else 0]
    told: dict[str, Any] = {key: row[key] for key in ("start", "seed", "model")}
    reason = "the decision was lost with the end of the journal; the store tells of it"
    return told | {"slot": slot, "parent": parent, "policy": "unknown", "reason": reason, "exact": False}
