"""Bad input ends with exit code 2, a damaged file with 6, others with 4 or a code of their own; each in one message."""

import errno
import os

import pytest

from steersman.cli import __main__ as command_line
from steersman.system.errors import BadInput, DamagedFile, EngineError
from tests.test_errors import error_classes, values


def test_every_error_ends_the_command_line_with_its_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for kind in error_classes():
        error = kind(**values(kind))

        def fail(error: EngineError = error, **_: object) -> None:
            raise error

        monkeypatch.setattr(command_line, "app", fail)
        with pytest.raises(SystemExit) as end:
            command_line.main()
        assert end.value.code == kind.exit_status
        assert {2: BadInput, 6: DamagedFile}.get(kind.exit_status, EngineError) in kind.__mro__
        assert str(error) in capsys.readouterr().err


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES])
def test_what_the_system_refuses_is_one_line(
    number: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(**_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(command_line, "app", fail)
    with pytest.raises(SystemExit) as end:
        command_line.main()
    said = capsys.readouterr().err
    assert end.value.code == 2
    assert os.strerror(number) in said
    assert "None" not in said
