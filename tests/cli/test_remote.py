"""Verbs for runs at other machines, as far as they need none: names of endpoints, what goes wrong, what is shown."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from steersman.cli import remote
from steersman.cli.__main__ import main
from steersman.cli.printing import Shown
from steersman.executors.errors import ServiceSilent
from steersman.remote import known
from steersman.remote.known import KnownEndpoint, Sent
from steersman.site_configs import endpoints

UUID = "00000000-0000-0000-0000-000000000001"
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("GLOBUS_COMPUTE_USER_DIR", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "200")

    def call(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["steersman", *words])
        with pytest.raises(SystemExit) as end:
            main()
        printed = capsys.readouterr()
        return int(end.value.code or 0), printed.out, printed.err

    return call


def test_endpoints_have_names(run: Run) -> None:
    assert run("endpoints", "add", "polaris", UUID, "--site", "polaris", "--option", "account=science")[0] == 0
    (found,) = json.loads(run("endpoints", "--json")[1]).values()
    assert (found["uuid"], found["site"], found["options"]) == (UUID, "polaris", {"account": "science"})
    assert "account=science" in run("endpoints")[1]
    assert run("endpoints", "add", "polaris", "--python", "/there/python")[0] == 0
    assert json.loads(run("endpoints", "--json")[1]) == {"polaris": found | {"python": "/there/python"}}
    assert run("endpoints", "remove", "polaris")[0] == 0
    assert json.loads(run("endpoints", "--json")[1]) == {}


def test_a_site_file_of_ones_own_is_found_from_any_folder(run: Run, tmp_path: Path) -> None:
    run("endpoints", "add", "ours", UUID, "--site", "ours.yaml")
    assert Path(known.endpoint("ours").site).is_absolute()


@pytest.mark.parametrize(
    "words",
    [
        ("endpoints", "add", "x", "no-uuid"),
        ("endpoints", "add", "x", "--site", "polaris"),
        ("endpoints", "add", UUID, UUID),
        ("endpoints", "remove", "x"),
        ("endpoints", "template", "polari"),
        ("submit", "fold"),
        ("submit", "fold", "--at", "nowhere"),
        ("submit", "fold", "--at", UUID, "--where", "elsewhere"),
        ("submit", "fold", "--at", UUID, "--where", "allocation", "--walltime", "1"),
        ("remote", "status", "nothing"),
        ("remote", "fetch", "nothing"),
    ],
)
def test_what_cannot_be_meant_is_one_line(words: tuple[str, ...], run: Run) -> None:
    code, _, err = run(*words)
    assert code == 2
    assert err.startswith("error: ")
    assert err.count("\n") == 1


def test_who_is_not_logged_in_is_told_how(run: Run) -> None:
    code, _, err = run("submit", "double_well", "--at", UUID)
    assert code == 2
    assert "steersman remote login" in err


def test_a_run_that_was_submitted_is_listed_though_nothing_can_be_asked(run: Run) -> None:
    known.keep_run(Sent("fold-1", "fold", KnownEndpoint("here", UUID), "login", 0.0))
    code, out, err = run("remote", "list")
    assert (code, "fold-1" in out, "not known" in out) == (0, True, True)
    assert "steersman remote login" in err
    assert run("remote", "list", "--at", UUID)[0] == 2, "of a place that cannot be asked nothing is known"


def test_templates_are_printed_as_they_are(run: Run) -> None:
    for name in endpoints.names():
        assert run("endpoints", "template", name)[1] == endpoints.template(name).read_text()
    assert json.loads(run("endpoints", "template", "--schema")[1]) == json.loads(endpoints.SCHEMA.read_text())


def test_a_watch_outlives_a_network_that_is_away(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    """It says so once, asks again, and goes on."""
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    answers: list[Any] = [
        {"state": "running"},
        ServiceSilent("no route"),
        ServiceSilent("no route"),
        {"state": "ended"},
    ]

    def ask() -> dict[str, Any]:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return dict(answer)

    polls = remote._Polls(ask, Shown(width=200))
    over = []
    while answers:
        now[0] += remote.LATE_S
        over.append(polls.over())
    assert over == [False, False, False, True]
    assert capsys.readouterr().out.count("no route") == 1


def test_a_watch_asks_soon_when_the_run_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its driver draws the report then; how long it was watched before does not matter."""
    now, asked = [0.0], list[float]()
    monkeypatch.setattr("time.monotonic", lambda: now[0])

    def ask() -> dict[str, Any]:
        asked.append(now[0])
        return {"state": "running"}

    polls = remote._Polls(ask, Shown(width=200))
    while len(asked) < 20:
        now[0] += 1
        polls.over()
    assert asked[-1] - asked[-2] == remote.LATE_S
    now[0] += remote.SOON_S
    polls.over(ends=True)
    assert asked[-1] - asked[-2] == remote.SOON_S


def test_what_is_too_large_is_named_with_its_place_and_the_way_to_it() -> None:
    sent = Sent("fold-1", "fold", KnownEndpoint("here", UUID, collection="C"), "login", 0.0)
    words = remote._too_large(sent, "/there/fold-1", "models", 5 * 10**9, 500, Path("/here/fold-1"))
    assert "globus transfer --recursive C:/there/fold-1/models HERE:/here/fold-1/models" in words
    assert "5,000 MB" in words
