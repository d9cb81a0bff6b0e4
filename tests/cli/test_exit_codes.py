"""Bad input ends with exit code 2, a damaged file with 6, every other error of ours with 4; each in one message."""

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
        assert end.value.code == (2 if issubclass(kind, BadInput) else 6 if issubclass(kind, DamagedFile) else 4)
        assert str(error) in capsys.readouterr().err
