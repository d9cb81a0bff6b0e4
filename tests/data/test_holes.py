"""A journal that lost any stretch of its lines: what is left is shown, under its own names, and nothing raises."""

from __future__ import annotations

import pytest

from steersman.data import why
from steersman.data.history import History
from steersman.journal.run_directory import RunDirectory
from tests.dashboard.conftest import MadeRun

ZEROS = b"\0" * 4096


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    return MadeRun(tmp_path_factory.mktemp("runs") / "fold-0001", segments=6).write()


def facts(history: History) -> dict[str, tuple[int, int]]:
    """Of each segment by name: its start and its first row."""
    table = history.segments
    return {table.name(i): (int(table.start[i]), int(table.first[i])) for i in range(len(table))}


@pytest.mark.parametrize("lost", [1, 5, 20])
@pytest.mark.parametrize("instead", [b"", ZEROS], ids=["nothing", "zeros"])
def test_what_is_left_of_a_journal_is_shown_under_its_own_names(made: RunDirectory, lost: int, instead: bytes) -> None:
    whole, lines = facts(History(made)), made.journal.read_bytes().splitlines(keepends=True)
    try:
        for at in range(len(lines) - lost):
            made.journal.write_bytes(b"".join([*lines[:at], instead, *lines[at + lost :]]))
            history = History(made)
            assert history.flaws or at + lost == len(lines) - 1, "what is torn at the end is being written"
            assert facts(history).items() <= whole.items()
            for name in list(facts(history))[-2:]:
                assert why.lines(why.why(history, name))
    finally:
        made.journal.write_bytes(b"".join(lines))
