"""Files that travel in pieces while they are written: what arrives is a file that was there, and all of it."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steersman.executors.place import Place
from steersman.remote import bundle, submit, transfer, wire
from steersman.system.errors import BadInput
from steersman.system.files import replace_file

MOST = 1000  # bytes in an answer


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(transfer, "MOST_BYTES", MOST)
    (tmp_path / "run" / "bus").mkdir(parents=True)
    return tmp_path / "run"


def pieces(run: Path, name: str) -> Iterator[dict[str, Any]]:
    """Read a file as `Copy` does, piece by piece."""
    offset, of = 0, ""
    while True:
        (answer,) = transfer.read(run, run.parent / "held", [(name, offset, of)])
        yield answer
        if answer.get("gone") or answer["offset"] + len(answer["data"]) >= answer["size"]:
            return
        offset, of = answer["offset"] + len(answer["data"]), answer["of"]


def test_a_file_that_is_replaced_between_its_pieces_arrives_as_it_was(run: Path) -> None:
    """As the open shard of a walker is, twice a second."""
    first, later = os.urandom(5 * MOST), os.urandom(6 * MOST)
    (run / "shard").write_bytes(first)
    received = b""
    for answer in pieces(run, "shard"):
        assert hashlib.sha256(answer["data"]).hexdigest() == answer["sha256"]
        received += answer["data"]
        replace_file(run / "shard", later)
    assert received == first
    assert b"".join(answer["data"] for answer in pieces(run, "shard")) == later
    assert not list((run.parent / "held").iterdir()), "what was held is let go"


def test_where_a_file_system_has_no_links_a_changed_file_is_told(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "link", refuse)
    (run / "shard").write_bytes(os.urandom(2 * MOST))
    reading = pieces(run, "shard")
    assert next(reading)["offset"] == 0
    replace_file(run / "shard", os.urandom(2 * MOST))
    assert next(reading)["gone"]


def test_a_journal_that_grows_stays_the_same_file(run: Path) -> None:
    (run / "journal.jsonl").write_bytes(b"a\n")
    (first,) = transfer.read(run, run, [("journal.jsonl", 0, "")])
    with (run / "journal.jsonl").open("ab") as journal:
        journal.write(b"b\n")
    (then,) = transfer.read(run, run, [("journal.jsonl", 2, first["of"])])
    assert (first["data"], then["data"]) == (b"a\n", b"b\n")


@pytest.mark.parametrize("name", ["bus/bus.json", "driver.json", "../secret", "/etc/hostname", "link", ""])
def test_what_is_private_or_outside_is_not_read(name: str, run: Path) -> None:
    for path in (run / "bus" / "bus.json", run / "driver.json", run.parent / "secret"):
        path.write_text("a password")
    (run / "link").symlink_to(run.parent / "secret")
    (answer,) = transfer.read(run, run.parent / "held", [(name, 0, "")])
    assert answer == {"path": name, "gone": True}
    assert not {"bus/bus.json", "driver.json"} & set(transfer.listing(run, ["rest"]))


def test_files_come_by_group_and_small_ones_always(run: Path) -> None:
    written = "frames.zarr/w0/zarr.json", "models/0001/card.json", "biases/00001.npz", "figures/a.png", "parsl/log"
    for name in (*written, "errors/w0.1.txt"):
        (run / name).parent.mkdir(parents=True, exist_ok=True)
        (run / name).write_text("x")
    assert set(transfer.listing(run, [])) == {"errors/w0.1.txt"}
    assert set(transfer.listing(run, ["models"])) == {"errors/w0.1.txt", "models/0001/card.json", "biases/00001.npz"}
    assert len(transfer.listing(run, [*transfer.GROUPS, "rest"])) == 6


def test_an_answer_has_no_more_than_travels(run: Path) -> None:
    for number in range(5):
        (run / f"f{number}").write_bytes(bytes(400))
    answers = transfer.read(run, run.parent / "held", [(f"f{number}", 0, "") for number in range(5)])
    assert 0 < sum(len(each["data"]) for each in answers) <= MOST
    assert len(answers) < 5


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@settings(max_examples=30)
@given(VALUES)
def test_plain_values_come_as_they_went(values: object) -> None:
    assert wire.decode(wire.encode(values)) == values


@settings(max_examples=30)
@given(st.binary(min_size=1), st.data())
def test_what_was_cut_is_no_answer(content: bytes, data: st.DataObject) -> None:
    text = wire.encode(content)
    with pytest.raises(ValueError, match=r"."):
        wire.decode(text[: data.draw(st.integers(0, len(text) - 5))])


def test_a_bundle_has_the_workflow_and_the_modules_that_it_imports(tmp_path: Path) -> None:
    (tmp_path / "my.py").write_text("import ours\n")
    (tmp_path / "ours.py").write_text("x = 1\n")
    (tmp_path / "other.py").write_text("not imported\n")
    (tmp_path / "data.txt").write_text("an input")
    contents = bundle.files(tmp_path / "my.py", tmp_path / "data.txt")
    packed = bundle.pack(contents)
    assert packed == bundle.pack(dict(reversed(contents.items()))), "the same files make the same name of a run"
    bundle.unpack(packed, tmp_path / "there")
    found = {path.name: path.read_bytes() for path in (tmp_path / "there").iterdir()}
    assert found == contents
    assert set(found) == {"my.py", "ours.py", "data.txt"}


def test_what_is_too_large_to_send_is_told_before(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="MiB"):
        bundle.pack({"data": os.urandom(7 * 2**20)})


def test_two_inputs_of_one_name_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "my.py").write_text("x")
    (tmp_path / "my.py").write_text("y")
    with pytest.raises(BadInput):
        bundle.files(tmp_path / "my.py", tmp_path / "a" / "my.py")


def test_a_seed_of_zero_is_one() -> None:
    """Options are words for the site's check and for the driver; inside an allocation those of the job are its own."""
    place: Place = {"seed": 0, "rounds": True, "workers": 2, "nodes": 3, "account": None}
    check, words, job = submit._words(submit.Wish("x", place=place), ["x.py"], [])
    assert (check, words[5:], job) == (["x.py", "--workers", "2", "--nodes", "3"], ["--seed", "0", "--rounds"], {})
    check, words, job = submit._words(submit.Wish("x", where="allocation", place=place), ["x.py"], [])
    assert (check, job) == (["x.py"], {"where": "allocation", "nodes": 3})
    assert words == ["x.py", "--seed", "0", "--rounds", "--workers", "2"]
