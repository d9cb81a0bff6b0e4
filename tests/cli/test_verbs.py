"""Help comes at once: a verb is imported when it is called, and what help says of it is what it says itself."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from steersman.cli.__main__ import UsageError, app
from steersman.cli.verbs import VERBS, _imported
from steersman.system.errors import BadInput

SLOW = ("numpy", "zarr", "torch", "parsl", "pydantic", "steersman.engine")


def test_help_imports_nothing_that_takes_long() -> None:
    look = "import json, sys; from steersman.cli.__main__ import app; app(['--help'], standalone_mode=False)"
    look += f"; print(json.dumps([name for name in {SLOW} if name in sys.modules]), file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)
    assert json.loads(done.stderr) == []
    assert all(f" {name} " in done.stdout for name in VERBS)


@pytest.mark.slow
@pytest.mark.parametrize("module", ["cli.runs", "remote.there", "worker.tasks"])
def test_who_looks_at_a_run_or_works_for_it_does_not_wait_for_parsl_or_scipy(module: str) -> None:
    look = f"import sys, steersman.{module}; print(*{{'parsl', 'scipy', 'torch'}} & sys.modules.keys())"
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


@pytest.mark.parametrize("name", VERBS)
def test_each_verb_has_help_of_its_own(name: str) -> None:
    done = CliRunner().invoke(app, [name, "--help"])
    assert done.exit_code == 0, done.output
    assert f"steersman {name}" in done.output or f"{name} [OPTIONS]" in done.output
    listed = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "300"}).output
    line = next(line for line in listed.splitlines() if f" {name} " in line)
    assert len(line.strip(" │").split()) > 2, "with its summary"


def test_an_unknown_verb_is_refused_with_the_nearest() -> None:
    done = CliRunner().invoke(app, ["runn"])
    assert done.exit_code == 2
    assert "run" in done.output.replace("runn", "")


def commands(command: Any) -> Iterator[Any]:
    yield command
    for each in getattr(command, "commands", {}).values():
        yield from commands(each)


@pytest.mark.parametrize("name", VERBS)
def test_an_option_of_one_value_is_not_given_twice(name: str) -> None:
    for command in commands(_imported(name)):
        for option in command.params:
            if option.param_type_name == "option" and not (option.is_flag or option.multiple):
                with pytest.raises(UsageError) as told:
                    command.make_context(name, [option.opts[0], "1", option.opts[0], "1"])
                assert option.opts[0] in told.value.message


@pytest.mark.parametrize(
    "words",
    [
        ["run", "double_well", "--set", "frames=1", "--set", "frames = 1"],
        ["compare", "double_well", "--vary", "frames=1,2", "--vary", "frames=3"],
        ["compare", "wells", "--vary", "frames=100,200", "--set", "frames=300"],
        ["tune", "wells", "--over", "steps=50,100", "--over", "steps=100:200"],
        ["endpoints", "add", "here", "1" * 32, "--option", "a=1", "--option", "a=2"],
    ],
)
def test_a_key_is_not_given_twice(words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, words)
    assert isinstance(done.exception, BadInput), done.output
    assert "more than once" in str(done.exception)
