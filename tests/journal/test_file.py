"""A record is whole or absent, whatever happens to the writer."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steersman.journal.errors import JournalDamaged, JournalTooNew, UnknownRecord
from steersman.journal.file import Journal, decode, encode, follow, read
from steersman.journal.state import State

plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(min_size=1).filter(lambda key: key != "crc"), plain, min_size=1, max_size=4))
def test_a_record_comes_back_as_it_was(fields: dict[str, object]) -> None:
    assert decode(encode(fields)) == fields


@given(st.dictionaries(st.text("ab", min_size=1), st.integers(), min_size=1), st.data())
def test_no_cut_line_passes_for_a_record(fields: dict[str, int], data: st.DataObject) -> None:
    line = encode(fields)
    assert decode(line[: data.draw(st.integers(0, len(line) - 1))]) is None


@given(st.integers(0, 200), st.integers(1, 255))
def test_no_changed_byte_passes_for_the_record(at: int, change: int) -> None:
    line = bytearray(encode({"kind": "frames", "walker": 3, "frames": 1234}))
    line[at % (len(line) - 1)] ^= change
    assert decode(bytes(line)) is None


def write(path: Path, count: int) -> None:
    journal = Journal(path, clock=lambda: 5.0)
    for i in range(count):
        journal.append("note", {"text": f"number {i}"})
    journal.close()


@pytest.mark.parametrize("kept", [1, 20, -1])
def test_a_torn_last_line_is_cut_and_writing_goes_on(tmp_path: Path, kept: int) -> None:
    path = tmp_path / "journal.jsonl"
    write(path, 3)
    whole = path.read_bytes()
    last = whole.splitlines(keepends=True)[-1]
    path.write_bytes(whole[: -len(last)] + last[:kept])
    assert [record.text for record in read(path)] == ["number 0", "number 1"]
    journal = Journal(path)
    assert journal.repaired == last[:kept].decode()
    journal.append("note", {"text": "after"})
    journal.close()
    assert [record.text for record in read(path)] == ["number 0", "number 1", "after"]


@pytest.mark.parametrize("lines", [1, 2, 3])
def test_records_that_belong_together_are_there_all_or_none(tmp_path: Path, lines: int) -> None:
    path = tmp_path / "journal.jsonl"
    write(path, 1)
    journal = Journal(path)
    journal.append_all("start", [{"start": i} for i in range(4)])
    journal.close()
    whole = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(whole[: 1 + lines]))
    seen: list[str] = []
    again = Journal(path, replay=lambda record: seen.append(record.kind))
    assert seen == ["note"]
    assert again.repaired == b"".join(whole[1 : 1 + lines]).decode()
    again.append_all("start", [{"start": i} for i in range(4)])
    again.close()
    assert [record.start for record in read(path) if record["kind"] == "start"] == [0, 1, 2, 3]


def test_a_record_of_a_newer_version_or_an_unknown_kind_is_refused_in_words(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    path.write_bytes(encode({"v": 2, "t": 1.0, "kind": "note", "text": "from the future"}))
    with pytest.raises(JournalTooNew, match="version 2"):
        Journal(path)
    with pytest.raises(UnknownRecord, match="'teleport'"):
        State([{"v": 1, "t": 1.0, "kind": "teleport"}])


def test_damage_in_the_middle_is_told_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    write(path, 3)
    path.write_text(path.read_text().replace("number 1", "number 9"))
    with pytest.raises(JournalDamaged, match="line 2"):
        list(read(path))


def test_following_goes_on_where_it_left_off(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    write(path, 2)
    offset = max(end for _, end in follow(path))
    write(path, 1)
    assert [record["text"] for record, _ in follow(path, offset=offset)] == ["number 0"]


def test_a_line_whose_rest_is_written_while_it_is_read_is_no_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "journal.jsonl"
    write(path, 3)
    whole = path.read_bytes()
    path.write_bytes(whole[:-5])

    def slowly(line: bytes) -> dict[str, object] | None:
        found = decode(line)
        if found is None:
            path.write_bytes(whole + whole)  # meanwhile the writer goes on
        return found

    monkeypatch.setattr("steersman.journal.file.decode", slowly)
    assert len(list(read(path))) == 2
