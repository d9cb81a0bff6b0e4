"""A record is whole or absent, whatever happens to the writer; damage shows, and costs only what it hit."""

from __future__ import annotations

import time
import types
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import json

from steersman.data.verify import verify
from steersman.journal import file
from steersman.journal.errors import JournalTooNew, RunIsLocked
from steersman.journal.file import Cursor, Journal, follow, read, rewrite
from steersman.journal.records import (
    KINDS,
    BadRecord,
    Began,
    Biased,
    End,
    FrameId,
    Merged,
    Note,
    Record,
    Start,
    checked,
)
from steersman.journal.run_directory import RunDirectory
from steersman.journal.state import State
from tests.power import Disk

whole = st.integers(0, 2**40 - 1)
amounts = st.floats(0, 1e14)
plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
    max_leaves=4,
)  # fmt: skip
SIMPLE: dict[Any, st.SearchStrategy[Any]] = {
    int: whole, float: amounts, str: st.text(max_size=9), bool: st.booleans(), Any: plain, type(None): st.none(),
    FrameId: st.builds(FrameId, whole, whole, whole),
}  # fmt: skip


def values(hint: Any) -> st.SearchStrategy[Any]:
    """All that a field may hold."""
    kind, parts = get_origin(hint), get_args(hint)
    if kind is Annotated:
        return values(parts[0])
    if kind in (Union, types.UnionType):
        return st.one_of([values(part) for part in parts])
    if kind in (list, tuple):
        return st.lists(values(parts[0]), max_size=3).map(kind)
    if kind is Mapping:
        return st.dictionaries(st.text(max_size=9), values(parts[1]), max_size=3)
    return SIMPLE[hint]


def of_kind(kind: type[Record]) -> st.SearchStrategy[Record]:
    hints = get_type_hints(kind)
    return st.builds(
        kind, **{name: values(hints[name]) for name in kind.__struct_fields__ if name not in ("t", "more")}
    )


stories = st.lists(st.one_of([of_kind(kind) for kind in KINDS.values()]), max_size=6)


def read_back(path: Path) -> tuple[list[Record], Cursor]:
    place = Cursor()
    return list(follow(path, place)), place


@given(st.lists(stories, max_size=3))
def test_what_is_appended_is_read_back_as_it_was(batches: list[list[Record]]) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "journal.jsonl"
        journal = Journal(path, clock=lambda: 1_800_000_000.0625)
        written = [record for batch in batches for record in journal.append(*batch)]
        journal.close()
        found, place = read_back(path)
        assert found == written
        assert (place.flaws, place.offset, place.line) == ([], path.stat().st_size, len(written))


@given(stories, st.lists(st.floats(0, 1), max_size=4))
def test_a_journal_that_grows_is_read_on_wherever_it_was_cut(story: list[Record], cuts: list[float]) -> None:
    with TemporaryDirectory() as folder:
        path, place, found = Path(folder) / "journal.jsonl", Cursor(), list[Record]()
        rewrite(path, story)
        data = path.read_bytes()
        for cut in [*sorted(cuts), 1.0]:
            path.write_bytes(data[: int(cut * len(data))])
            found += follow(path, place)
        assert found == story
        assert not place.flaws


def damaged(path: Path, lines: Iterable[bytes]) -> tuple[list[Record], bool]:
    """What is read of damaged lines, and whether damage shows."""
    path.write_bytes(b"".join(lines))
    found, place = read_back(path)
    return found, bool(place.flaws) or place.offset < path.stat().st_size


def counted(records: Iterable[Record]) -> Counter[bytes]:
    return Counter(json.encode(record) for record in records)


@pytest.mark.slow
@given(stories, st.sampled_from(["change", "delete", "double", "swap"]), st.data())
@settings(max_examples=300)
def test_damage_anywhere_shows_and_costs_only_what_it_hit(story: list[Record], how: str, data: st.DataObject) -> None:
    """One byte changed, a line deleted or doubled, two lines swapped; a changed end of a line hits the next one too."""
    story = [*(record for record in story if not isinstance(record, End)), End(outcome="goal", reason="")]
    with TemporaryDirectory() as folder:
        path = Path(folder) / "journal.jsonl"
        rewrite(path, story)
        lines = path.read_bytes().splitlines(keepends=True)
        at = data.draw(st.integers(0, len(lines) - 1), "line")
        kept = list(story)
        if how == "change":
            line = bytearray(lines[at])
            byte = data.draw(st.integers(0, len(line) - 1), "byte")
            line[byte] ^= data.draw(st.integers(1, 255), "change")
            lines[at] = bytes(line)
            del kept[at : at + 1 + (byte == len(line) - 1)]
        elif how == "delete":
            del lines[at], kept[at]
        elif how == "double":
            lines.insert(at, lines[at])
            kept.insert(at, kept[at])
        else:
            other = data.draw(
                st.integers(0, len(lines) - 1).filter(lambda n: n != at) if len(lines) > 1 else st.just(at)
            )
            lines[at], lines[other] = lines[other], lines[at]
            if other == at:
                return
        found, shows = damaged(path, lines)
        assert counted(found) == counted(kept)
        if how == "delete" and at == len(story) - 1:  # what no chain can show: the run has no end then
            assert not any(isinstance(record, End) for record in found)
        else:
            assert shows


def write(path: Path, count: int) -> None:
    journal = Journal(path, clock=lambda: 5.0)
    for i in range(count):
        journal.append(Note(text=f"number {i}"))
    journal.close()


def texts(path: Path) -> list[str]:
    return [note.text for note in read(path, Note)]


@pytest.mark.parametrize("kept", [1, 20, -1])
def test_a_torn_last_line_is_cut_and_writing_goes_on(tmp_path: Path, kept: int) -> None:
    path = tmp_path / "journal.jsonl"
    write(path, 3)
    data = path.read_bytes()
    last = data.splitlines(keepends=True)[-1]
    path.write_bytes(data[: -len(last)] + last[:kept])
    assert texts(path) == ["number 0", "number 1"]
    journal = Journal(path)
    assert journal.repaired == last[:kept].decode()
    journal.append(Note(text="after"))
    journal.close()
    assert texts(path) == ["number 0", "number 1", "after"]
    assert not read_back(path)[1].flaws


@pytest.mark.parametrize("lines", [1, 2, 3])
def test_records_that_belong_together_are_there_all_or_none(tmp_path: Path, lines: int) -> None:
    path, together = tmp_path / "journal.jsonl", [Start(start=i, seed=i) for i in range(4)]
    write(path, 1)
    journal = Journal(path)
    journal.append(*together)
    journal.close()
    data = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(data[: 1 + lines]))
    seen: list[str] = []
    again = Journal(path, replay=lambda record: seen.append(record.kind))
    assert seen == ["note"]
    assert again.repaired == b"".join(data[1 : 1 + lines]).decode()
    again.append(*together)
    again.close()
    assert [record.start for record in read(path, Start)] == [0, 1, 2, 3]
    assert not read_back(path)[1].flaws


def test_what_was_synced_is_on_the_disk_when_the_power_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "run").mkdir()
    disk = Disk(tmp_path / "run", monkeypatch)
    journal = Journal(tmp_path / "run" / "journal.jsonl")

    def left(number: int) -> list[Record]:
        return list(read(disk.after_power_failure(tmp_path / str(number)) / "journal.jsonl"))

    for number in range(3):
        journal.append(Note(text=str(number)))
        assert len(left(2 * number)) == number, "what was not synced is not, or this test sees nothing"
        journal.sync()
        assert left(2 * number + 1) == list(read(journal.path))
    journal.append(Note(text="the last"))
    journal.close()
    assert left(7) == list(read(journal.path))
    rewrite(journal.path, [Note(t=1.0, text="anew")])
    assert left(8) == list(read(journal.path)) == [Note(t=1.0, text="anew")]


def test_a_newer_version_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "journal.jsonl"
    with monkeypatch.context() as newer:
        newer.setattr(Note, "format", file.VERSION + 1)
        rewrite(path, [Note(text="from the future")])
    with pytest.raises(JournalTooNew, match=f"version {file.VERSION + 1}"):
        Journal(path)
    with pytest.raises(JournalTooNew):  # it is not damaged, so nothing is to be repaired
        verify(RunDirectory(tmp_path))


@pytest.mark.parametrize("record", [Merged(group="m0", walkers=(0, 1)), Biased(bias=1, model=0, frames=20, sha256="0")])
def test_an_older_program_refuses_a_run_only_once_it_has_what_that_does_not_know(
    record: Record, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would look for merged frames where they are no more, and take those of a biased segment for plain ones; a
    journal without such records is read as before."""
    path = tmp_path / "journal.jsonl"
    before = [Note(text="before"), Note(text="still")]
    rewrite(path, before)
    monkeypatch.setattr(file, "VERSION", record.format - 1)
    assert read_back(path)[0] == before
    rewrite(path, [*before, record, Note(text="after")])
    with pytest.raises(JournalTooNew, match=f"version {record.format}"):
        read_back(path)
    monkeypatch.undo()
    found, place = read_back(path)
    assert (found[2], place.flaws) == (record, [])


class Teleport(Record, tag="teleport", frozen=True):
    """Of no version."""


def test_a_record_of_an_unknown_kind_is_set_aside_and_named(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    rewrite(path, [Note(text="before"), Teleport(), Note(text="after")])
    found, place = read_back(path)
    assert found == [Note(text="before"), Note(text="after")]
    assert [flaw.line for flaw in place.flaws] == [2]
    with pytest.raises(BadRecord):
        checked("teleport", {})


def test_a_record_that_does_not_fit_those_before_it_is_set_aside(tmp_path: Path) -> None:
    """Of a walker that was never asked for."""
    path, stray = tmp_path / "journal.jsonl", Began(walker=7, segment=0, start=0, first_row=0)
    with pytest.raises(BadRecord):
        State([stray])
    rewrite(path, [Note(text="before"), stray, Note(text="after")])
    state = State()
    journal = Journal(path, replay=state.apply)
    journal.close()
    assert [flaw.line for flaw in journal.flaws] == [2]
    assert len(state.notes) == 2


def test_a_second_writer_is_refused_before_it_writes(tmp_path: Path) -> None:
    """Two that were to go on with a run read the same journal; one of them was stopped until the other was through."""
    path = tmp_path / "journal.jsonl"
    write(path, 3)
    one, late = Journal(path), Journal(path)
    one.append(Note(text="goes on"))
    with pytest.raises(RunIsLocked):
        late.append(Note(text="the same number"))
    one.append(Note(text="and on"))
    _, place = read_back(path)
    assert (place.number, place.flaws) == (5, [])


def test_a_line_whose_rest_is_written_while_it_is_read_is_no_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "journal.jsonl"
    write(path, 3)
    data = path.read_bytes()
    path.write_bytes(data[:-5])
    at_once = file._read

    def slowly(path: Path, line: bytes, place: Cursor) -> tuple[Record | None, str]:
        found = at_once(path, line, place)
        if found[0] is None:
            path.write_bytes(data)  # meanwhile the writer goes on
        return found

    monkeypatch.setattr(file, "_read", slowly)
    place = Cursor()
    assert len(list(follow(path, place))) == 2
    assert len(list(follow(path, place))) == 1
    assert not place.flaws


def test_setting_the_clock_moves_no_time_of_a_journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A correction by an hour would end a budget of hours."""
    journal = Journal(tmp_path / "journal.jsonl")
    before = journal.append(Note(text="before"))[0].t
    monkeypatch.setattr(time, "time", lambda: before + 3600.0)
    assert 0 <= journal.append(Note(text="after"))[0].t - before < 60


def test_a_session_that_begins_before_the_last_one_ended_goes_on_from_there(tmp_path: Path) -> None:
    """The machine's time was set back by an hour between the two: the order of times is that of the records."""
    path = tmp_path / "journal.jsonl"
    first = Journal(path, clock=iter([5000.0, 5000.0, 5007.0]).__next__)
    first.append(Note(text="one"))
    first.append(Note(text="two"))
    first.close()
    second = Journal(path, clock=iter([1400.0, 1400.0, 1402.5]).__next__)
    assert second.behind_s == 3607.0
    second.append(Note(text="three"))
    second.append(Note(text="four"))
    second.close()
    assert [record.t for record in read(path)] == [5000.0, 5007.0, 5007.0, 5009.5]
