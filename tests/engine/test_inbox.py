"""Whatever stands on the bus, the driver goes on, and its journal holds what can be true and nothing else."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

import numpy as np
import psutil
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import ValidationError, convert

from steersman.bus import ALL, Server, TupleSpace
from steersman.bus.tuples import dead_letters
from steersman.engine import people
from steersman.engine.driven import Driven
from steersman.engine.driver import Driver
from steersman.engine.inbox import LONGEST, TELL, JobBegan, Words
from steersman.engine.people import ANSWER, People
from steersman.executors import site_files
from steersman.journal import file as journal
from steersman.journal.file import Journal
from steersman.journal.recorder import Recorder
from steersman.journal.records import (
    FROM_WORKERS,
    BadRecord,
    Began,
    End,
    Hired,
    Joined,
    Note,
    Published,
    Record,
    Run,
    Start,
    Tell,
    checked,
)
from steersman.journal.run_directory import RunDirectory
from steersman.journal.state import State
from steersman.stages import loading
from steersman.system.errors import BadInput, BadValue
from steersman.worker.orders import EVENT, JOB

STORY: list[Record] = [
    Hired(walker=0, slot=0), Joined(walker=0, node="here"), Start(start=0, seed=1),
    Began(walker=0, segment=0, start=0, first_row=0),
]  # fmt: skip
scalars = (
    st.none() | st.booleans() | st.integers(-3, 3) | st.integers(-(2**63), 2**64 - 1) | st.floats()
    | st.text(max_size=9)
    | st.binary(max_size=9) | st.just("x" * 20_000) | st.just(np.zeros(2)) | st.just({1: 2})
)  # fmt: skip
values = scalars | st.lists(scalars, max_size=3) | st.dictionaries(st.text(max_size=5), scalars, max_size=3)
names = sorted({name for kind in FROM_WORKERS.values() for name in kind.__struct_fields__} | {"job", "manager"})
fields = st.dictionaries(st.sampled_from(names) | st.text(max_size=5) | st.integers(-1, 1), values, max_size=9)


def likely(kind: str) -> st.SearchStrategy[tuple[str, dict[Any, Any]]]:
    """What a walker could say, if it were not for a field or two."""
    right: dict[str, st.SearchStrategy[Any]] = {
        "how": st.sampled_from(["finished", "stopped", "failed", "lost"]), "loss": st.none(),
        "block_ends": st.none(), "adopted": st.booleans(), "epochs": st.just(9),
        "node": st.just("here"), "pool": st.just(""), "cause": st.text(max_size=9), "cut": st.just(""),
    } | dict.fromkeys(("waited_s", "read_s", "ran_s", "simulated"), st.floats(0, 9))  # fmt: skip
    whole = {name: right.get(name, st.integers(0, 2)) for name in FROM_WORKERS[kind].__struct_fields__}
    wrong: st.SearchStrategy[dict[str, Any]] = st.just({}) | st.dictionaries(
        st.sampled_from(sorted(whole)), values, max_size=1
    )
    return st.tuples(st.just(kind), st.builds(lambda told, odd: told | odd, st.fixed_dictionaries(whole), wrong))


events = st.tuples(
    st.sampled_from([*FROM_WORKERS, JOB, "walker", "end"]) | st.text(max_size=9), fields
) | st.sampled_from(sorted(FROM_WORKERS)).flatmap(likely)
verbs = st.sampled_from(["pause", "continue", "stop", "pin", "set", "finish", "", "--help"])
spoken = st.sampled_from(["w0.0", "w0.0:0", "w9.9", "frames=9", "frames=[", "x=1", "=", "steps=.inf"]) | st.text(
    max_size=9
)
right_words = st.tuples(verbs, spoken).map(list) | verbs.map(lambda verb: [verb])
tells = st.fixed_dictionaries({"id": st.sampled_from("abc"), "who": st.just("me@here"), "words": right_words}) | (
    st.fixed_dictionaries(
        {},
        optional={
            "id": st.text(max_size=70) | values,
            "who": st.text(max_size=9) | values,
            "words": right_words | values,
        },
    )
)
_numbers = itertools.count()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server.start(tmp_path_factory.mktemp("server")) as started:
        yield started


@contextmanager
def driver(server: Server) -> Iterator[tuple[Driver, TupleSpace, Recorder]]:
    """The driver of a run with one walker in its first segment; its jobs are not Parsl's."""
    workflow = loading.load(loading.find("double_well"))
    with TemporaryDirectory() as folder, TupleSpace.connect(server.url, space=f"inbox{next(_numbers)}") as space:
        directory = RunDirectory(Path(folder))
        directory.frames.path.mkdir()
        recorder = Recorder(Journal(directory.journal), State())
        recorder.record_all(list(STORY))
        jobs: Any = SimpleNamespace(began=lambda job, manager: None)
        run = Driven(
            directory=directory, workflow=workflow, params=loading.parameters(workflow, None, []),
            site=site_files.load_site("laptop"), recorder=recorder, seed=1,
        )  # fmt: skip
        made = Driver(run, jobs, SimpleNamespace(), space)  # type: ignore[arg-type]
        try:
            yield made, space, recorder
        finally:
            made._bag.close()
            recorder.journal.close()


def fits(kind: str, said: dict[Any, Any]) -> bool:
    try:
        convert(said, JobBegan) if kind == JOB else checked(kind, said, FROM_WORKERS)
    except (ValidationError, BadRecord):
        return False
    return True


def notes(recorder: Recorder) -> list[str]:
    found = journal.read(recorder.journal.path, Note)
    return [note.text for note in found if "invalid message" in note.text]


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(st.lists(events, min_size=1, max_size=8))
def test_an_event_is_journalled_if_it_can_be_true_and_else_it_is_among_the_dead_letters(
    server: Server, said: list[tuple[str, dict[Any, Any]]]
) -> None:
    """Each sender of what does not fit is noted once, however much it sends."""
    with driver(server) as (made, space, recorder):
        space.put_many((EVENT, *message) for message in said)
        made._hear()
        dead = [(kind, found) for _, kind, found in space.take_many_nowait(dead_letters(EVENT), str, dict, n=ALL)]
        unfit = [message for message in said if not fits(*message) and message != (JOB, {})]
        assert len(dead) >= len(unfit)
        assert all(any(repr(each) == repr(one) for one in dead) for each in unfit)
        story = list(journal.read(recorder.journal.path))
        assert State(story).walkers.keys() == {0}, "it can be replayed, and nobody made up a walker"
        heard = [record for record in story[len(STORY) :] if not isinstance(record, Note)]
        assert len(heard) + len(dead) <= len(said)
        assert all(record.kind in FROM_WORKERS for record in heard)
        assert all(record.more == 0 and record.t > 1e9 for record in heard), "these are the journal's own to say"
        senders = {f"w{found.get('walker', '?')!s:.20}" for _, found in dead}
        assert len(notes(recorder)) == len(senders)
        assert space.count(EVENT, str, dict) == 0


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(st.lists(tells, min_size=1, max_size=6))
def test_a_word_is_journalled_if_it_can_be_done_and_answered_or_it_is_among_the_dead_letters(
    server: Server, said: list[dict[str, Any]]
) -> None:
    with driver(server) as (made, space, recorder):
        space.put_many((TELL, message) for message in said)
        made._people.listen()
        dead = [message for _, message in space.take_many_nowait(dead_letters(TELL), dict, n=ALL)]
        answers = space.take_many_nowait(ANSWER, str, bool, str, n=ALL)
        assert len(dead) + len(answers) == len(said)
        for message in dead:
            with pytest.raises(ValidationError):
                convert(message, Words)
        done = list(journal.read(recorder.journal.path, Tell))
        assert len({tell.id for tell in done}) == len(done), "a word that comes twice is done once"
        assert {tell.id for tell in done} == {answer[1] for answer in answers if answer[2]}
        assert State(journal.read(recorder.journal.path)).wishes.settings == recorder.state.wishes.settings
        assert len(notes(recorder)) == len({f"{message.get('who', 'unknown sender')!s:.80}" for message in dead})


def test_what_comes_too_late_to_change_anything_is_refused(server: Server) -> None:
    """After the budget, while the last training is awaited, it may be raised; after the loop nothing helps."""
    with driver(server) as (made, space, recorder):

        def done(*words: str) -> bool:
            new = str(next(_numbers))
            space.put(TELL, {"id": new, "who": "me@here", "words": list(words)})
            made._people.listen()
            return bool(space.take(ANSWER, new, bool, str)[2])

        recorder.record(Published(walker=0, frames=10, segments=1))
        assert not done("label", "w0.0:3"), "this workflow has no label stage"
        assert done("pin", "w0.0:3")
        people, made._people = made._people, People(made._inbox, space, recorder, made._check, labels=True)
        assert [done("label", frame) for frame in ("w0.0:3", "w0.0:9999", "w0.0", "here")] == [True, *[False] * 3]
        made._people = people
        assert done("pause")
        assert done("continue")
        recorder.record(Published(walker=0, frames=60_000, segments=1))
        assert not done("pin", "w0.0:4")
        assert not done("pause")
        assert done("set", "frames=70000")
        assert done("pin", "w0.0:5"), "it goes on now"
        made._ends = End(outcome="budget", reason="it is spent")
        assert not any(done(*words) for words in (["set", "frames=80000"], ["finish"], ["pin", "w0.0:6"]))
        assert [pin.frame.row for pin in recorder.state.wishes.pins if pin.frame] == [3, 5]


@pytest.mark.parametrize("ends", [True, False])
def test_what_is_given_up_at_the_end_is_noted(server: Server, monkeypatch: pytest.MonkeyPatch, ends: bool) -> None:
    """Else what comes after the loop finds no scores, and nobody knows why."""
    with driver(server) as (made, _, recorder):
        made._clock = itertools.count().__next__
        made._crew = SimpleNamespace(dismissed=True, at_work=False)  # type: ignore[assignment]
        for name in ("_step", "_hear"):
            monkeypatch.setattr(made, name, lambda *_: None)
        left = iter([True, not ends])
        learning = type("Learning", (), {"busy": property(lambda _: next(left, not ends)), "training": False})
        monkeypatch.setattr(learning, "advance", lambda *_: None, raising=False)
        monkeypatch.setattr(made, "_learning", learning())
        made._say_goodbye()
        found = [note.text for note in journal.read(recorder.journal.path, Note)]
        assert len(found) == (0 if ends else 1)


@pytest.mark.parametrize("then", [None, SimpleNamespace(why_gone="")])
def test_who_tells_a_run_something_while_it_ends_hears_how_it_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, then: SimpleNamespace | None
) -> None:
    """And not that a server does not answer, which is what is seen of it; its driver may still be at the report."""
    monkeypatch.setattr(people, "ANSWER_S", 0.2)
    drivers = iter([SimpleNamespace(why_gone=""), then])
    monkeypatch.setattr(people, "owner", lambda run: next(drivers))
    directory = RunDirectory(tmp_path)
    journal.rewrite(directory.journal, [Run(t=1.0), End(t=2.0, outcome="budget", reason="it is spent")])
    with Server.start(directory.bus) as server:
        psutil.Process(server.pid).kill()
        with pytest.raises(BadInput, match="it is spent"):
            people.tell(directory, ["pause"])


def test_a_word_that_is_too_long_is_refused_before_it_is_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Among the dead letters nobody would answer it."""
    monkeypatch.setattr(people, "owner", lambda run: SimpleNamespace(why_gone=""))
    with pytest.raises(BadValue):
        people.tell(RunDirectory(tmp_path), ["set", f"name={'x' * LONGEST}"])
