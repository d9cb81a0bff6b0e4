"""Store -> journal: what walkers committed and could not report any more is taken over, and those walkers are given up.

It is called with the walkers of a driver, or of a Parsl, that died. They are fenced off: another walker takes their
slot, what they still write is not read. See docs/design/004-durable-campaign.md.
"""

from __future__ import annotations

import contextlib

from steersman.journal import missing
from steersman.journal.recorder import Recorder
from steersman.journal.records import Began, Hired, Lost, Published, Record
from steersman.journal.state import State
from steersman.journal.walkers import Walker
from steersman.stages.start import looked
from steersman.store import FRAME, Frames, StoreError, finish, number_of
from steersman.system.errors import DamagedFile


def reconcile(recorder: Recorder, frames: Frames, *, keep: bool, cause: str) -> int:
    """Adopt what the walkers that are still taken for alive have committed, then declare them lost.

    Args:
        keep: a segment that was cut short goes on from its last committed frame; else its start is run again.
        cause: why they are lost.
    Returns: frames adopted.
    """
    state = recorder.state
    for number in sorted(map(number_of, frames.walkers())):
        if number not in state.walkers:  # the end of the journal was lost with the machine
            recorder.record(Hired(walker=number, slot=0))
    before = sum(walker.frames for walker in state.walkers.values())  # those that count may become fewer
    catch_up(recorder, frames)
    for walker in list(state.walkers.values()):
        if walker.alive:
            recorder.record(Lost(walker=walker.number, cause=cause, keep=keep))
        if frames.own(walker.name):  # one that was taken for dead may have gone on
            finish(frames.path / walker.name)
    return sum(walker.frames for walker in state.walkers.values()) - before


def catch_up(recorder: Recorder, frames: Frames) -> None:
    """Adopt what walkers have committed and a killed server forgot to hand on: they report it only once, and one that
    waits for its next start reports nothing."""
    for walker in list(recorder.state.walkers.values()):
        if walker.alive:
            adopt(recorder, frames, walker)


def hear(recorder: Recorder, frames: Frames, walker: Walker, record: Record) -> bool:
    """Record what a walker says, unless it is known. Where a killed server forgot what came before, that is adopted.

    Returns: False: it is not recorded, since it cannot follow what is known.
    """
    if not (walker.knows(record) or walker.expects(record)):
        catch_up(recorder, frames)
    if walker.knows(record):
        return True
    if walker.expects(record):
        recorder.record(record)
        return True
    return False


def adopt(recorder: Recorder, frames: Frames, walker: Walker) -> None:
    """Record what the store holds of a walker and the journal does not know, as far as it can be read."""
    try:
        _adopt(recorder, frames, walker)
    except (StoreError, DamagedFile, OSError, ValueError, KeyError) as error:
        recorder.note(f"{walker.name} cannot be read beyond row {walker.frames}: {error}; see `verify`")


def _adopt(recorder: Recorder, frames: Frames, walker: Walker) -> None:
    name = walker.name
    if not frames.own(name):
        return
    rows, fresh, attributes = frames.publication(name, walker.published_segments)
    published = walker.published_segments + len(fresh)
    for row in missing.rows(fresh.tolist()):
        if row["start"] >= recorder.state.next_start:
            recorder.record(missing.start_of(recorder.state, row, walker.slot))
        for record in missing.of_segment(frames, walker, row):
            recorder.record(record)
    simulated, running = 0.0, attributes.get("running")
    if running and running[0] >= len(walker.segments) and rows > running[2]:
        segment, start, first = running
        recorder.record(Began(walker=walker.number, segment=segment, start=start, first_row=first, adopted=True))
    if running and running[0] == published:
        simulated = missing.simulated(frames, name, running[2], rows)
    reads, known = looked(attributes, rows), recorder.state.reads
    if rows > walker.frames or len(fresh) or (not known and reads not in (None, known)):
        recorder.record(Published(
            walker=walker.number, frames=rows, segments=published, simulated=simulated, reads=reads, adopted=True
        ))  # fmt: skip


def first_shapes(state: State, frames: Frames) -> tuple[str, dict[str, list[int]]] | None:
    """A walker that has frames, the first that can be read, and the shapes of these; None: there is none yet."""
    for walker in state.walkers.values():
        with contextlib.suppress(StoreError, OSError):
            if walker.frames:
                stored = frames.stored(walker.name, FRAME).items()
                return walker.name, {name: list(array.like.shape) for name, array in stored if name != "segment"}
    return None
