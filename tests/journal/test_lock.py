"""Who drives a run, on file systems as clusters have them."""

import errno
import fcntl
from pathlib import Path

import pytest

from steersman.journal import lock
from steersman.journal.lock import Lock, owner


def test_a_run_can_be_driven_where_the_file_system_knows_no_locks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(file: object, operation: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with Lock(tmp_path).held():
        assert owner(tmp_path) is not None
    assert owner(tmp_path) is None


def test_a_driver_goes_on_being_heard_of_after_its_file_system_was_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else another machine takes it for dead a minute later, and takes its run."""
    answers = iter([OSError(errno.ESTALE, "Stale file handle")])

    def asked(run: Path) -> lock.Owner | None:
        for trouble in answers:
            raise trouble
        return owner(run)

    held = Lock(tmp_path)
    held._write()
    before = owner(tmp_path)
    assert before is not None
    monkeypatch.setattr(lock, "owner", asked)
    beats = iter([False, False, True])
    monkeypatch.setattr(held._over, "wait", lambda _: next(beats))
    held._beat()
    after = owner(tmp_path)
    assert after is not None
    assert after.beat > before.beat
    assert not held.lost
