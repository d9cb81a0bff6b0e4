"""A run that is written while it is copied: the copy is a run directory at any moment, and nothing comes twice."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec import Raw

from steersman.calls.opened import open_run
from steersman.data.verify import verify
from steersman.executors import site_files
from steersman.executors.errors import ServiceSilent
from steersman.journal import copies, manifest, run_directory
from steersman.journal.file import Journal, read
from steersman.journal.records import Began, Hired, Note, Published, Run, Session, Start
from steersman.remote import incoming, there, transfer
from steersman.remote.copy import Copy, View
from steersman.remote.known import KnownEndpoint, Sent, seen
from steersman.remote.submitted import Submitted
from steersman.remote.wire import decode, encode
from steersman.stages import loading
from steersman.store import Span, column, merge
from steersman.store.check import damages
from steersman.store.group import GroupWriter
from steersman.system.errors import BadInput, EngineError
from tests.dashboard.serving import Served, serving
from tests.waiting import until

Asked = tuple[str, dict[str, Any]]


class Near:
    """A `Site` whose machine is this process; what is said goes through the wire's words.

    Attributes:
        before: called before each answer; what it raises is raised.
        instead: questions and honest answers -> the answers.
    """

    def __init__(self, folder: Path) -> None:
        self.run = Submitted(str(folder), "run")
        self.before: Callable[[str], None] = lambda question: None
        self.instead: Callable[[Any, list[Any]], Any] = lambda questions, answers: answers
        self.received = 0

    def ask(self, run: str, *questions: Asked, within_s: float = 0.0) -> list[Any]:
        for name, _ in questions:
            self.before(name)
        answers = [there.QUESTIONS[name](self.run, **values) for name, values in decode(encode(questions))]
        self.received += sum(len(part.get("data", b"")) for each in answers if isinstance(each, list) for part in each)
        return incoming.checked(questions, decode(encode(self.instead(questions, answers)), list[Raw]))


class Written:
    """A run at the site that goes on."""

    def __init__(self, path: Path) -> None:
        self.directory = run_directory.create(path.parent, "run", path)
        site = site_files.load_site("laptop").model_dump(mode="json")
        settings = {"workflow": "double_well", "params": {}, "site": site, "seed": 1, "rounds": False}
        run_directory.write_settings(self.directory, settings, loading.find("double_well"))
        self.journal = Journal(self.directory.journal)
        self.journal.append(Run(workflow="double_well", seed=1, slots=1))
        self.journal.append(Session(host="here", pid=1))
        self.journal.append(Hired(walker=0, slot=0))
        self.journal.append(Start(start=0, seed=7, policy="prepared", reason="the first"))
        self.journal.append(Began(walker=0, segment=0, start=0, first_row=0))
        self.group = GroupWriter(self.directory.frames.path / "w0")
        self.rows = 0
        self.go_on()

    def go_on(self, rows: int = 100) -> None:
        """Publish frames, then write down how many there are, as walker and driver do."""
        random = np.random.default_rng(self.rows)
        self.group.extend("frame", {"x": random.random((rows, 50))})
        self.rows = self.group.publish()["frame"]
        self.journal.append(Note(text=str(self.rows)))
        self.journal.append(Published(walker=0, frames=self.rows, segments=0))
        self.journal.sync()


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Written:
    monkeypatch.setattr(transfer, "MOST_BYTES", 20_000)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.chdir(tmp_path)
    submitted = Submitted(str(tmp_path / "site"), "run")
    submitted.path.mkdir(parents=True)
    submitted.ask(["run"], "login")
    return Written(submitted.run)


@pytest.fixture
def near(tmp_path: Path) -> Near:
    return Near(tmp_path / "site")


def copy_of(near: Near, most: int = 10**9) -> Copy:
    sent = Sent("run", "double_well", KnownEndpoint("here", ""), "login", 0.0)
    return Copy(View(near, sent), Path("copy"), most)  # type: ignore[arg-type]  # it asks as a Site does


def noted(path: Path) -> int:
    """How many rows a journal speaks of."""
    return max(int(each.text) for each in read(path / "journal.jsonl") if isinstance(each, Note))


def rows(path: Path) -> int:
    """How many rows can be read, each of them."""
    frames = run_directory.RunDirectory(path).frames
    (span,) = frames.spans()
    return int(np.isfinite(frames.read("x", span)).all(axis=1).sum())


@pytest.mark.slow
def test_a_copy_has_every_row_that_its_journal_speaks_of(written: Written, near: Near) -> None:
    """However the run goes on between two answers, and between two parts of a shard."""
    near.before = lambda question: written.go_on(20)
    for _ in range(3):
        copy_of(near).fetch(["frames"])
        assert 0 < noted(Path("copy")) <= rows(Path("copy"))
    assert noted(Path("copy")) <= written.rows


def test_a_copy_has_all_that_its_counts_speak_of(written: Written, near: Near, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run goes on with a new shard before each answer, and at first with a new variable, too."""
    monkeypatch.setattr(column, "SHARD_BYTES", 1)
    monkeypatch.setattr(column, "CHUNK_BYTES", 1)
    group, numbers = GroupWriter(written.directory.frames.path / "w1"), itertools.count()

    def publish(question: str) -> None:
        group.append("frame", {"x": np.float64(1.0), f"x{min(next(numbers), 4)}": np.float64(1.0)})
        group.publish()

    near.before = publish
    for _ in range(3):
        copy_of(near).fetch(["frames"])
        copy = run_directory.RunDirectory(Path("copy"))
        assert list(damages(copy.frames, "w1")) == []
        assert copy.frames.count("w1") > 0


@pytest.mark.parametrize("at", range(7))
def test_a_copy_has_every_frame_whenever_groups_are_merged(at: int, written: Written, near: Near) -> None:
    """Also between the listing and the shards; what was merged goes when the group that has it now is there."""
    for number in (1, 2):
        group = GroupWriter(written.directory.frames.path / f"w{number}")
        group.extend("frame", {"x": np.full((100, 50), number, np.float64)})
        group.close()
    questions = itertools.count()

    def merging(question: str) -> None:
        if next(questions) == at:
            frames = written.directory.frames
            merge.merge(frames, ["w1", "w2"], "m0")
            for name in ("w1", "w2"):
                merge.remove(frames, name)

    near.before = merging
    for here in ({"w0", "w1", "w2"}, {"w0", "m0"}):
        copy_of(near).fetch(["frames"])
        frames = run_directory.RunDirectory(Path("copy")).frames
        assert frames.walkers() == ["w0", "w1", "w2"]
        assert all((frames.read("x", Span(f"w{number}", 0, 100)) == number).all() for number in (1, 2))
        assert {path.name for path in frames.path.iterdir() if path.is_dir()} in (here, {"w0", "m0"})
    assert {path.name for path in frames.path.iterdir() if path.is_dir()} == {"w0", "m0"}


def test_settings_that_are_large_come_whole(written: Written, near: Near) -> None:
    written.directory.workflow.write_bytes(os.urandom(50_000))
    copy_of(near).fetch([])
    assert Path("copy", "workflow.py").read_bytes() == written.directory.workflow.read_bytes()


@pytest.mark.slow
def test_who_looks_at_a_copy_while_it_is_fetched_sees_a_run_that_grows(written: Written, near: Near) -> None:
    """In the dashboard and with open_run, before each part of a file arrives; one fetch stops on its way."""
    copy_of(near).fetch(["frames"])
    run, seen, stopped = open_run("copy"), [100], list[str]()
    with serving(run_directory.RunDirectory(Path("copy"))) as served:
        until_shown(served, 100)

        def look(question: str) -> None:
            written.go_on(20)
            seen.append(shown(served))
            assert served.ask(f"/run/copy/film?walker=0&row={seen[-1] - 1}&name=x").status == 200
            assert np.isfinite(run.frames["w0"]["x"]).all()
            if list(Path("copy", copies.FOLDER).glob("*.of")) and not stopped:  # half of a file has arrived
                stopped.append(question)
                raise ServiceSilent("on its way")

        written.go_on(100)
        near.before = look
        with pytest.raises(ServiceSilent):
            copy_of(near).fetch(["frames"])
        for _ in range(2):
            copy_of(near).fetch(["frames"])
            until_shown(served, noted(Path("copy")))
        assert seen == sorted(seen)
        assert int(run.state["frames"]) == noted(Path("copy")) > 200


def shown(served: Served) -> int:
    """How many frames the dashboard says there are."""
    state = served.ask("/run/copy/state").values
    assert not state.get("trouble")
    assert state["copy"]
    return int(state["facts"]["frames"])


def until_shown(served: Served, frames: int) -> None:
    until(lambda: served.ask("/run/copy/state").values["change"] and shown(served) >= frames, look_s=0.1)


@pytest.mark.parametrize("after", range(8))
def test_a_fetch_that_was_interrupted_goes_on_where_it_stopped(after: int, written: Written, near: Near) -> None:
    written.go_on(1000)
    answers = iter(range(100))

    def interrupt(question: str) -> None:
        if next(answers) == after:
            raise ServiceSilent("interrupted")

    near.before = interrupt
    with pytest.raises(ServiceSilent):
        copy_of(near).fetch(["frames"])
    if (Path("copy") / "journal.jsonl").exists():
        assert noted(Path("copy")) <= rows(Path("copy"))
    near.before = lambda question: None
    copy_of(near).fetch(["frames"])
    assert (noted(Path("copy")), rows(Path("copy"))) == (1100, 1100)
    whole = sum(path.stat().st_size for path in written.directory.path.rglob("*") if path.is_file())
    assert near.received < 1.2 * whole, "what had come did not come again"


def test_only_what_is_new_comes(written: Written, near: Near) -> None:
    assert copy_of(near).fetch(["frames"]).files > 0
    before = near.received
    assert copy_of(near).fetch(["frames"]).files == 0
    assert near.received == before
    written.go_on(1)
    assert copy_of(near).fetch(["frames"]).files == 2, "the open shard, and what says how many rows there are"


def test_what_is_gone_there_goes_here(written: Written, near: Near) -> None:
    stray = written.directory.errors / "w0.stderr"
    stray.write_text("empty in the end")
    copy_of(near).fetch([])
    assert (Path("copy") / "errors" / "w0.stderr").exists()
    stray.unlink()
    copy_of(near).fetch([])
    assert not (Path("copy") / "errors" / "w0.stderr").exists()


def test_a_seal_goes_with_a_part_of_what_came_after_it(written: Written, near: Near) -> None:
    """Else the copy of a run that was gone on with would seem to be damaged."""
    seal = Path("copy", manifest.UNSEALED[0])
    manifest.seal(written.directory)
    copy_of(near).fetch(["frames", "rest"])
    copy_of(near).fetch(["frames"])
    assert seal.exists(), "nothing came after it"
    manifest.unseal(written.directory)
    written.go_on()
    copy_of(near).fetch(["models"])
    assert not seal.exists()
    manifest.seal(written.directory)
    copy_of(near).fetch(["frames", "rest"])
    assert seal.exists()


def test_a_group_that_is_too_large_stays_and_the_others_come(written: Written, near: Near) -> None:
    (written.directory.path / "models" / "0001").mkdir(parents=True)
    (written.directory.model(1) / "card.json").write_text(json.dumps({"version": 1}))
    done = copy_of(near, most=1000).fetch(["frames", "models"])
    assert set(done.left) == {"frames"}
    assert done.left["frames"] > 1000
    assert (Path("copy") / "models" / "0001" / "card.json").exists()
    assert not (Path("copy") / "frames.zarr").exists()


def test_a_group_of_many_files_is_as_large_as_all_of_them(written: Written, near: Near) -> None:
    (written.directory.path / "models" / "0001").mkdir(parents=True)
    for number in range(5):
        (written.directory.model(1) / f"weights-{number}").write_bytes(bytes(300))
    assert copy_of(near, most=1400).fetch(["models"]).left == {"models": 1500}
    assert copy_of(near, most=1500).fetch(["models"]).left == {}


def test_what_speaks_of_other_files_is_removed_before_them(
    written: Written, near: Near, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever looks meanwhile finds all that a group or a model says there is."""
    group, model = written.directory.frames.path / "w7", written.directory.model(1)
    model.mkdir(parents=True)
    writer = GroupWriter(group)
    writer.append("frame", {"x": 1.0})
    writer.close()
    for name in ("a-weights", "card.json", "weights"):
        (model / name).write_text("{}")
    copy_of(near).fetch(["frames", "models"])
    for folder in (group, model):
        shutil.rmtree(folder)
    removed, unlink = list[Path](), Path.unlink

    def note(path: Path, *, missing_ok: bool = False) -> None:
        if path.parts[:2] in (("copy", "frames.zarr"), ("copy", "models")):
            removed.append(path)
        unlink(path, missing_ok=missing_ok)

    monkeypatch.setattr(Path, "unlink", note)
    copy_of(near).fetch(["frames", "models"])
    heads = [path.name in ("zarr.json", "card.json") for path in removed]
    assert heads == sorted(heads, reverse=True)
    assert 2 < sum(heads) < len(heads)


def test_what_does_not_arrive_as_it_was_sent_is_refused(
    written: Written, near: Near, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = transfer.read

    def damaged(*args: Any) -> list[dict[str, Any]]:
        answers = honest(*args)
        return [each | {"data": each["data"][:-1] + b"?"} if each.get("data") else each for each in answers]

    monkeypatch.setattr(transfer, "read", damaged)
    with pytest.raises(EngineError):
        copy_of(near).fetch(["frames"])


def test_a_copy_knows_what_it_is_of(written: Written, near: Near) -> None:
    copy_of(near).fetch(["frames"])
    mark = copies.of(Path("copy"))
    assert mark is not None
    assert (mark.run, mark.at, mark.path) == ("run", "here", str(written.directory.path))
    assert verify(run_directory.open_run(Path("copy"))) == verify(written.directory)
    with pytest.raises(BadInput):
        copies.refuse(Path("copy"))


def test_nothing_else_is_written_over(written: Written, near: Near) -> None:
    Path("copy").mkdir()
    Path("copy", "mine").touch()
    with pytest.raises(BadInput):
        copy_of(near)
    assert os.listdir("copy") == ["mine"]
    Path("copy", "mine").rename("file")
    Path("copy").rmdir()
    Path("file").rename("copy")
    with pytest.raises(BadInput):
        copy_of(near)


def test_of_two_fetches_into_one_folder_the_second_waits(written: Written, near: Near, tmp_path: Path) -> None:
    """As `fetch` beside `fetch --follow`; else they would take each other's parts away."""
    other, asks = Near(tmp_path / "site"), threading.Event()
    other.before = lambda question: asks.set()
    with ThreadPoolExecutor(1) as pool:
        second: list[Future[Any]] = []

        def begin(question: str) -> None:
            if not second:
                second.append(pool.submit(lambda: copy_of(other).fetch(["rest", "frames"])))
            assert not asks.wait(0.1), "the other one is not done yet"

        near.before = begin
        copy_of(near).fetch(["rest", "frames"])
        near.before = lambda question: None
        second[0].result(60)
    assert asks.is_set()
    assert rows(Path("copy")) == written.rows


def test_a_journal_that_was_replaced_is_read_anew(written: Written, near: Near) -> None:
    sent = Sent("run", "double_well", KnownEndpoint("here", ""), "login", 0.0)
    view = View(near, sent)  # type: ignore[arg-type]
    view.catch_up()
    journal = written.directory.journal
    replaced = journal.read_bytes().splitlines(keepends=True)[:-1]
    journal.rename(journal.with_name("before"))
    journal.write_bytes(b"".join(replaced))
    view.catch_up()
    assert (view.path / "journal.jsonl").read_bytes() == journal.read_bytes()


def test_a_line_that_is_being_written_comes_when_it_is_whole(written: Written, near: Near) -> None:
    sent = Sent("run", "double_well", KnownEndpoint("here", ""), "login", 0.0)
    with written.directory.journal.open("ab") as journal:
        journal.write(b'{"half":')
        journal.flush()
        View(near, sent).catch_up()  # type: ignore[arg-type]
        assert (seen("run") / "journal.jsonl").read_bytes().endswith(b"}\n")
        journal.write(b"1}\n")
    View(near, sent).catch_up()  # type: ignore[arg-type]
    assert (seen("run") / "journal.jsonl").read_bytes() == written.directory.journal.read_bytes()


def test_each_start_of_a_copy_is_explained(written: Written, near: Near, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run chooses before each file that is read."""
    chosen, read_piece = itertools.count(), transfer._piece

    def choose(*piece: Any) -> dict[str, Any]:
        start = Start(start=next(chosen), seed=7, policy="prepared", reason="the first")
        line = {"start": start.start, "model": 0, "policy": "prepared", "reason": "the first", "frame": None}
        line |= {"t": 0.0, "candidates": 0, "refused": []}
        with written.directory.decisions.open("a") as file:
            file.write(json.dumps(line) + "\n")
        written.journal.append(start)
        return read_piece(*piece)

    monkeypatch.setattr(transfer, "_piece", choose)
    for _ in range(3):
        copy = copy_of(near)
        copy.fetch([])
        assert not [each for each in verify(run_directory.open_run(copy.path)) if each.what == "decisions"]
    assert next(chosen) > 3
