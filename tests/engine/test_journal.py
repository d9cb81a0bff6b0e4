"""A record is whole or absent, whatever happens to the writer."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steersman.engine.errors import JournalDamaged
from steersman.engine.journal import Journal, decode, encode, follow, read

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
    line = bytearray(encode({"kind": "frames", "walker": 3, "frames": 1234}).encode())
    line[at % (len(line) - 1)] ^= change
    assert decode(line.decode("utf-8", "replace")) is None


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
    assert [record["text"] for record in read(path)] == ["number 0", "number 1"]
    journal = Journal(path)
    assert journal.repaired == last[:kept].decode()
    journal.append("note", {"text": "after"})
    journal.close()
    assert [record["text"] for record in read(path)] == ["number 0", "number 1", "after"]


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
