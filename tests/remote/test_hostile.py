"""A site that answers whatever it likes: nothing is written but the copy, nothing goes on without end."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import math
import tarfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from steersman.cli.remote import _in_words
from steersman.journal import copies
from steersman.remote import bundle, incoming, wire
from steersman.system.errors import BadInput, EngineError
from tests.remote.test_copy import Near, Written, copy_of, near, written  # noqa: F401

PATHS = [
    "/etc/cron.d/x", "../x", "../../.ssh/authorized_keys", "models/../../x", "models/..", "./x", "", ".", "a//b",
    "bus/bus.json", "driver.json", ".lock", ".remote/identities.json", ".remote/copy.json", "aside/x", "x.partial",
    "a\0b", "a" * 300, "a/" * 2000 + "a",
]  # fmt: skip
DATA = b"PWN"
SHA_EMPTY = hashlib.sha256(b"").hexdigest()


def part(path: str, **other: Any) -> dict[str, Any]:
    facts = {"path": path, "of": "1-1", "offset": 0, "size": len(DATA)}
    return facts | {"data": DATA, "sha256": hashlib.sha256(DATA).hexdigest()} | other


def of(question: str, change: Callable[[Any], Any]) -> Callable[[Any, list[Any]], list[Any]]:
    """Answer one question otherwise."""
    return lambda questions, answers: [
        change(answer) if name == question else answer for (name, _), answer in zip(questions, answers, strict=True)
    ]


def outside(folder: Path) -> dict[Path, bytes]:
    """All files but those of the copy, of what was seen, and of what is at the site."""
    ours = [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]
    return {path: path.read_bytes() for path in ours if not {"copy", "site", "seen"} & set(path.parts)}


@pytest.fixture
def home(written: Written, near: Near, tmp_path: Path) -> Path:  # noqa: F811
    """A folder with files that are none of the site's business, and a copy that was fetched before."""
    copy_of(near).fetch([])
    for name in ("x", ".ssh/authorized_keys", "copy/bus/bus.json", "copy/.lock"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("mine")
    return tmp_path


@pytest.mark.parametrize("path", PATHS)
def test_a_path_that_leads_out_or_is_ours_is_refused(path: str, home: Path, near: Near) -> None:  # noqa: F811
    before = outside(home)
    for hostile in (
        of("listing", lambda found: found | {path: (3, "1-1")}),
        of("read", lambda parts: [part(path), *parts[1:]]),
        of("read", lambda parts: [*parts, part(path)]),
    ):
        near.instead = hostile
        with pytest.raises(EngineError):
            copy_of(near).fetch(["models"])
    assert outside(home) == before
    assert Path("copy/bus/bus.json").read_text() == Path("copy/.lock").read_text() == "mine"


def test_what_is_behind_a_link_is_neither_written_nor_removed(home: Path, near: Near, written: Written) -> None:  # noqa: F811
    """A stranger's copy may hold links, and may say that it fetched any file before."""
    (home / "elsewhere").mkdir()
    (home / "elsewhere" / "w0.txt").write_text("mine")
    Path("copy/errors").rmdir() if Path("copy/errors").exists() else None
    Path("copy/errors").symlink_to(home / "elsewhere")
    before = outside(home)
    (written.directory.errors / "w0.txt").write_text("a cause")
    with pytest.raises(EngineError):
        copy_of(near).fetch([])
    (written.directory.errors / "w0.txt").unlink()
    name = hashlib.sha256(b"notes.txt").hexdigest()[:16]
    for end in (".part", ".of"):
        Path("copy", copies.FOLDER, name + end).symlink_to(home / "x")
    (written.directory.path / "notes.txt").write_text("new")
    copy_of(near).fetch([])
    assert Path("copy/notes.txt").read_text() == "new"
    identities = Path("copy", copies.FOLDER, "identities.json")
    for path in ("errors/w0.txt", "../x", str(home / "x")):
        identities.write_text(json.dumps({path: "1-1"}))
        with pytest.raises(EngineError):
            copy_of(near).fetch([])
    assert outside(home) == before
    Path("copy", copies.FOLDER).rename("elsewhere2")
    Path("copy", copies.FOLDER).symlink_to(home / "elsewhere2")
    with pytest.raises(BadInput):
        copy_of(near)


@pytest.mark.parametrize(
    "hostile",
    [
        of("read", lambda parts: [each | {"size": each["size"] + 2**40} for each in parts if "size" in each]),
        of("read", lambda parts: [each | {"size": 2**50, "data": b"", "sha256": SHA_EMPTY} for each in parts]),
        of("read", lambda parts: [each | {"offset": 2**40} for each in parts]),
        of("read", lambda parts: []),
        of("read", lambda parts: [{"path": each["path"]} for each in parts]),
        of("read", lambda parts: [each | {"offset": -1} for each in parts]),
        of("listing", lambda found: found | {"models/0001/weights": (-1, "1")}),
        of("listing", lambda found: found | {"models/0001/weights": "1"}),
        of("listing", lambda found: list(found)),
        of("listing", lambda found: None),
        of("look", lambda look: {}),
        of("look", lambda look: look | {"state": "pwned"}),
        of("look", lambda look: look | {"state": "ended"}),
        of("look", lambda look: look | {"state": "lost"}),
        of("look", lambda look: look | {"state": "ended", "code": 10**6}),
        of("look", lambda look: look | {"now": math.nan}),
        of("look", lambda look: look | {"now": 1e300}),
        of("look", lambda look: look | {"path": 7}),
        lambda questions, answers: answers[:-1],
        lambda questions, answers: [],
    ],
)  # fmt: skip
def test_an_answer_that_is_none_ends_a_fetch(hostile: Any, home: Path, near: Near) -> None:  # noqa: F811
    before = outside(home)
    near.instead = hostile
    with pytest.raises(EngineError):
        copy_of(near).fetch(["models"])
    assert outside(home) == before


def test_no_answer_is_so_odd_that_it_cannot_be_shown() -> None:
    for code in range(-64, 256):
        assert "ended" in _in_words({"state": "ended", "code": code})


@pytest.mark.parametrize("path", ["figures", "run.yaml/x"])
def test_a_file_in_the_place_of_a_folder_ends_a_fetch(path: str, home: Path, near: Near) -> None:  # noqa: F811
    Path("copy/figures").mkdir(exist_ok=True)

    def hostile(questions: Any, answers: list[Any]) -> list[Any]:
        return [
            {path: (3, "1-1")} if name == "listing"
            else [part(path) for path, *_ in given["pieces"]] if name == "read" and len(questions) == 1 else answer
            for (name, given), answer in zip(questions, answers, strict=True)
        ]  # fmt: skip

    near.instead = hostile
    with pytest.raises(EngineError):
        copy_of(near).fetch(["figures"])


def test_a_fetch_ends_though_the_site_has_other_files_each_time(home: Path, near: Near) -> None:  # noqa: F811
    numbers = iter(range(10**6))

    def hostile(questions: Any, answers: list[Any]) -> list[Any]:
        """A new head in every listing, and whatever is asked for is another file than before."""
        found: list[Any] = []
        for (name, given), answer in zip(questions, answers, strict=True):
            if name == "listing":
                found.append({f"models/{next(numbers)}/card.json": (3, "1-1")})
            else:
                found.append([part(path) for path, *_ in given["pieces"]] if name == "read" and len(questions) == 1
                             else answer)  # fmt: skip
        return found

    near.instead = hostile
    with pytest.raises(EngineError):
        copy_of(near).fetch(["models"])


def test_small_files_are_bounded_as_the_groups_are(home: Path, near: Near) -> None:  # noqa: F811
    near.instead = of("listing", lambda found: found | {"notes.txt": (2**40, "1-1")})
    assert copy_of(near, most=10**6).fetch(["models"]).left == {"": pytest.approx(2**40, rel=1e-3)}


def test_what_is_compressed_becomes_no_more_than_can_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "MOST_PLAIN", 10**6)
    bomb = base64.b64encode(zlib.compress(msgspec.msgpack.encode(b"0" * 10**6))).decode()
    with pytest.raises(ValueError, match="more than"):
        wire.decode(bomb)
    nested = base64.b64encode(zlib.compress(b"\x91" * 10**5)).decode()
    with pytest.raises(ValueError, match="nested"):
        wire.decode(nested)
    with pytest.raises(EngineError):
        incoming.checked([("listing", {})], [msgspec.Raw(b"\x91" * 10**5)])


def test_an_archive_is_files_of_a_bounded_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundle, "MOST_UNPACKED", 10**5)

    def packed(*members: tuple[str, bytes, int]) -> bytes:
        content = io.BytesIO()
        with tarfile.open(fileobj=content, mode="w") as archive:
            for kind, text, size in members:
                member = tarfile.TarInfo(f"x{kind}")
                member.type, member.size, member.linkname = text, size, "/etc/passwd"
                archive.addfile(member, io.BytesIO(b"0" * size))
        return zlib.compress(content.getvalue())

    bundle.unpack(packed(("a", tarfile.REGTYPE, 100)), tmp_path)
    assert (tmp_path / "xa").read_bytes() == b"0" * 100
    for bad in (
        packed(("b", tarfile.REGTYPE, 10**6)), packed(("c", tarfile.SYMTYPE, 0)), packed(("d", tarfile.FIFOTYPE, 0)),
        b"no archive", zlib.compress(b"no archive" * 100), packed(("e", tarfile.REGTYPE, 100))[:-9],
    ):  # fmt: skip
        with pytest.raises(BadInput):
            bundle.unpack(bad, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["xa"]


@pytest.mark.parametrize("text", ["", "{}", "[]", "nothing", '{"python": "3"}', "[" * 10**5])
def test_what_a_python_prints_there_has_its_kind(text: str) -> None:
    for question in (incoming.facts, incoming.installed):
        with pytest.raises(EngineError):
            question(text)
    with pytest.raises(EngineError):
        incoming.done({"code": "0"})
