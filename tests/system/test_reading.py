"""Files of a folder that anybody may have filled."""

import os
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from steersman.system import plain, reading
from steersman.system.reading import OddFile


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "folder" / "below").mkdir(parents=True)
    (tmp_path / "folder" / "file").write_text("one\ntwo\nthr")
    (tmp_path / "outside").write_text("secret\n")
    return tmp_path / "folder"


def test_a_file_is_read_also_by_a_link_within(folder: Path) -> None:
    (folder / "below" / "link").symlink_to("../file")
    for file in (folder / "file", folder / "below" / "link"):
        assert reading.read(file, folder) == b"one\ntwo\nthr"
        assert list(reading.lines(file, folder)) == [b"one\n", b"two\n"], "the last one is being written"
        assert reading.text(file, folder) == "one\ntwo\nthr"
    folder.rename(folder.with_name("moved"))
    folder.symlink_to("moved")  # as of a disk that is mounted elsewhere
    assert reading.read(folder / "file", folder)


@pytest.mark.parametrize(
    "make",
    [
        lambda path: path.symlink_to("../outside"),
        lambda path: path.symlink_to("/dev/zero"),
        lambda path: path.symlink_to("/dev/null"),
        lambda path: os.mkfifo(path),
        lambda path: path.mkdir(),
    ],
    ids=["link", "zeros", "nothing", "pipe", "folder"],
)
def test_what_is_no_file_of_the_folder_is_refused(folder: Path, make: Callable[[Path], object]) -> None:
    make(folder / "odd")
    for read in (reading.read, reading.opened, lambda *where: list(reading.lines(*where))):
        with pytest.raises(OddFile):
            read(folder / "odd", folder)
    assert "secret" not in reading.text(folder / "odd", folder)


def test_a_folder_on_the_way_may_lead_out_as_well(folder: Path) -> None:
    (folder.parent / "elsewhere").mkdir()
    (folder.parent / "elsewhere" / "file").write_text("secret\n")
    (folder / "errors").symlink_to("../elsewhere")
    with pytest.raises(OddFile):
        reading.read(folder / "errors" / "file", folder)


def test_memory_is_asked_for_what_a_file_has_and_not_for_what_it_may_have(folder: Path) -> None:
    (folder / "run.yaml").write_text("{}")
    tracemalloc.start()
    reading.read(folder / "run.yaml", folder)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 2**20


def test_sizes_are_bounded(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert reading.read(folder / "file", folder, 11)
    with pytest.raises(OddFile):
        reading.read(folder / "file", folder, 10)
    monkeypatch.setattr(reading, "MOST_LINE", 4)
    with pytest.raises(OddFile):
        list(reading.lines(folder / "below" / ".." / "long", folder)) if (folder / "long").write_text("12345") else None
    monkeypatch.setattr(reading, "MOST_TEXT", 3)
    assert reading.text(folder / "file", folder) == reading.CUT + "thr"
    assert reading.text(folder / "none", folder) == ""


def test_what_pyyaml_wrote_is_read_as_it_was(folder: Path) -> None:
    """A person means a number by 1e4; PyYAML writes the text "1e4" so."""
    import yaml

    values = {"text": "1e4", "number": 1e4, "list": [1, None, True], "date": "2026-01-01"}
    assert plain.parse(yaml.safe_dump(values), dumped=True) == values
    assert plain.parse("a: 1e4") == {"a": 1e4}
