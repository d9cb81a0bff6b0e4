"""The page follows the journal: who looks sees the run as it is now, and the list of runs, too."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from steersman.dashboard.live.watched import Watched
from steersman.data.history import History
from steersman.journal import file
from steersman.journal.file import Journal
from steersman.journal.lock import Lock
from steersman.journal.records import Began, End, Hired, Metrics, Note, Published, Scored, Session, Start
from steersman.journal.run_directory import RunDirectory
from tests.dashboard.conftest import FRAMES, SLOTS, MadeRun
from tests.dashboard.serving import TOKENS, serving, unpacked


def test_a_run_is_ready_once_viewers_can_be_answered(made: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that asks between two steps of the reader waits."""
    watched, note = Watched(made, "run"), Watched._note_changes

    def before(self: Watched) -> None:
        assert not self.wait()
        note(self)

    monkeypatch.setattr(Watched, "_note_changes", before)
    watched.look()
    assert watched.wait(60)
    assert len(watched.column("walker")) == SLOTS * 12


def test_what_is_appended_to_the_journal_is_seen(finished: RunDirectory) -> None:
    with serving(finished) as served:
        served.ask("/run/fold-0001/segments")
        before = served.ask("/run/fold-0001/state").values
        journal = Journal(finished.journal)
        journal.append(Session(host="here", pid=1), Note(text="<b>it goes on"))
        journal.close()
        while (now := served.ask("/run/fold-0001/state").values)["change"] == before["change"]:
            pass
        assert now["notes"][0]["text"] == "<b>it goes on"
        assert now["status"] == "not driven"


def test_the_first_look_after_a_pause_is_at_the_run_as_it_is_now(
    finished: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever asks first, a page or Prometheus; and a driver that ended meanwhile has not gone."""
    journal = Journal(finished.journal)
    journal.append(Session(host="here", pid=1))
    with serving(finished) as served:
        for new in ([Metrics(values={"coverage": 51.0})], [End(outcome="budget", reason="it is spent")]):
            before = served.ask("/run/fold-0001/state").values
            monkeypatch.setattr("steersman.dashboard.live.watched.UNWATCHED_S", 0.0)
            run = served.gallery.get("fold-0001")
            while run is None or run.wait():
                time.sleep(0.01)
            journal.append(*new)
            monkeypatch.undo()
            text = served.ask("/metrics", "", Authorization=f"Bearer {TOKENS.look}").body.decode()
            assert 'metric="coverage"} 51' in text
            now = served.ask("/run/fold-0001/state").values
            assert now["change"] > before["change"]
        assert now["status"] == "budget"
    journal.close()


def test_the_page_s_times_are_those_of_the_run_s_wall_time(finished: RunDirectory) -> None:
    """Of a run that went on a day later, too: the last segment began when its sessions had lasted so long."""
    state = History(finished).state
    moments = iter([state.now + 86_400.0 + after for after in (0, 0, 1, 7, 7)])
    journal, walker = Journal(finished.journal, clock=lambda: next(moments)), len(state.walkers)
    for record in (
        Session(host="here", pid=1, after=state.now), Hired(walker=walker, slot=0), Start(start=1000, seed=1),
        Began(walker=walker, segment=0, start=1000, first_row=0),
    ):  # fmt: skip
        journal.append(record)
    journal.close()
    with serving(finished) as served:
        _, segments = unpacked(served.ask("/run/fold-0001/segments").body)
        _, walkers = unpacked(served.ask("/run/fold-0001/walkers").body)
        now = 3600 * served.ask("/run/fold-0001/state").values["hours"]
    assert max(segments["began"]) == pytest.approx(3600 * state.hours(state.now) + 7, abs=0.01)
    assert max(walkers["hired"]) == pytest.approx(3600 * state.hours(state.now) + 1, abs=0.01)
    assert max(segments["began"]) <= now + 0.05


def test_where_frames_waited_for_scores_they_are_told_and_a_metric_has_a_gap(finished: RunDirectory) -> None:
    """A metric each second, none for ten minutes in which no frame was scored, and one each second again."""
    state = History(finished).state
    scored, now = Scored(model=state.models.newest, frames=state.frames), [state.now]
    journal, walker = Journal(finished.journal, clock=lambda: now[0]), len(state.walkers)
    journal.append(
        Session(host="here", pid=1, after=state.now), scored, Hired(walker=walker, slot=0), Start(start=1000, seed=1)
    )
    journal.append(Began(walker=walker, segment=0, start=1000, first_row=0))
    for second in [*range(5), *range(600, 605)]:
        now[0] = state.now + second
        journal.append(Metrics(values={"depth": float(second)}))
        if second == 4:
            journal.append(Published(walker=walker, frames=7, segments=0))
    journal.close()
    with serving(finished) as served:
        told = served.ask("/run/fold-0001/state").values
        curve = served.ask("/run/fold-0001/metrics").values["series"]["depth"]["value"]
    assert curve == [*range(5), None, *range(600, 605)]
    assert (told["waiting"], told["waits_s"]) == (7, pytest.approx(600, abs=1))


def test_another_journal_in_the_same_place_is_read_from_its_beginning(finished: RunDirectory, tmp_path: Path) -> None:
    other = MadeRun(tmp_path / "other", segments=4).write()
    with serving(finished) as served:
        served.ask("/run/fold-0001/segments")
        assert served.ask("/run/fold-0001/state").values["facts"]["frames"] == SLOTS * 12 * FRAMES
        shutil.copy(other.journal, finished.path / "new")
        (finished.path / "new").replace(finished.journal)
        while served.ask("/run/fold-0001/state").values.get("facts", {}).get("frames") != SLOTS * 4 * FRAMES:
            pass


def test_a_run_that_cannot_be_read_says_why(finished: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file, "VERSION", file.USUAL - 1)
    monkeypatch.setattr(file, "USUAL", file.USUAL - 1)
    with serving(finished) as served:
        assert served.ask("/run/fold-0001/segments").status == 503
        assert "journal" in served.ask("/run/fold-0001/state").values["trouble"]


def test_a_driver_that_ended_since_the_journal_was_read_has_not_gone(finished: RunDirectory) -> None:
    journal = Journal(finished.journal)
    journal.append(Session(host="here", pid=1))
    history = History(finished)
    assert history.overview().outcome == "not driven"
    journal.append(End(outcome="budget", reason="it is spent"))
    journal.close()
    assert history.overview().outcome == "budget"


def test_a_folder_s_runs_are_listed_with_their_parameters(tmp_path: Path) -> None:
    for number, latent in ((1, 3), (2, 5)):
        made = MadeRun(tmp_path / f"fold-000{number}", segments=4).write()
        made.settings_file.write_text(yaml.safe_dump(made.settings() | {"params": {"latent": latent}}))
    (tmp_path / "broken-0001").mkdir()
    (tmp_path / "broken-0001" / "journal.jsonl").write_text('{"v":9,"n":0,"prev":"00000000","kind":"run"}\n')
    with serving(folder=tmp_path) as served:
        runs: list[dict[str, Any]] = [{}]
        while not all("status" in run for run in runs):
            runs = served.ask("/runs").values["runs"]
        found = {run["key"]: run for run in runs}
        assert {key: run["params"].get("latent") for key, run in found.items()} == {
            "broken-0001": None, "fold-0001": "3", "fold-0002": "5",
        }  # fmt: skip
        assert found["fold-0001"]["status"] == "goal"
        assert served.ask("/").status == 200


def test_the_list_knows_that_a_driver_has_gone(finished: RunDirectory, tmp_path: Path) -> None:
    """Its journal says nothing more."""
    Journal(finished.journal).append(Session(host="here", pid=1))

    def until(status: str) -> None:
        while served.ask("/runs").values["runs"][0].get("status") != status:
            time.sleep(0.02)

    with serving(folder=tmp_path) as served:
        with Lock(finished.path).held():
            until("running")
        until("not driven")
