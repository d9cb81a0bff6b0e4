"""A package outside of the tree adds one part of each kind; one that cannot be used is told in a line and left out."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.outside import installed


@pytest.fixture(scope="module")
def outside(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return installed(tmp_path_factory.mktemp("outside"))


def called(outside: Path, *words: object) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(outside), *sys.path]),
        "COLUMNS": "200",
        "NO_COLOR": "1",
    }
    command = [sys.executable, *map(str, words)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ("Newest('z') | Novelty('z'), prune=Never()", ""),
        ("raises('z')", "RuntimeError: two lines"),
        ("exits('z')", "SystemExit"),
        ("Constant()", "there is no policy 'Constant'"),
    ],
)
def test_a_policy_and_a_rule_are_named_where_a_person_writes_one(outside: Path, words: str, problem: str) -> None:
    code = "import sys; from steersman.steering.expression import parse\n"
    code += "try:\n    policy = parse(sys.argv[1]).policy\n    print(policy.name, *policy.needs)\n"
    code += "except Exception as error:\n    print(error)"
    done = called(outside, "-c", code, words)
    (said,) = done.stdout.splitlines()
    assert problem in said if problem else said == "Newest | Novelty z"
    (told,) = done.stderr.splitlines()
    assert "steersman.policies: Novelty" in told, "its name is taken"


def test_a_model_of_an_installed_package_is_read_without_trust(outside: Path, tmp_path: Path) -> None:
    save = f"from steersman.models import Constant; Constant().save({str(tmp_path)!r})"
    load = f"from steersman.models import Model; print(type(Model.load({str(tmp_path)!r})).__name__)"
    assert called(outside, "-c", save).returncode == 0
    assert called(outside, "-c", load).stdout == "Constant\n"
    card = tmp_path / "model.json"
    for part in "outside.raises:Part", "outside.exits:Part", "outside.loud:Unregistered":
        card.write_text(json.dumps(json.loads(card.read_text()) | {"class": part}))
        done = called(outside, "-c", load)
        assert re.search("DamagedFile|BadInput", done.stderr.splitlines()[-1])
        assert done.stdout == "", "a module that nobody registered is not imported"


def test_a_scheduler_whose_name_is_taken_is_told_and_left_out(outside: Path) -> None:
    done = called(outside, "-c", "from steersman.executors.schedulers.registry import SCHEDULERS as a; print(*a)")
    assert {"slurm", "pbs"} < set(done.stdout.split())
    (told,) = done.stderr.splitlines()
    assert "steersman.schedulers: slurm" in told


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["greet", "you", "--times", "2"], 0, "Hello you 2"),
        (["greet", "--help"], 0, "Greet somebody."),
        (["--help"], 0, " greet "),
        (["raises"], 2, "RuntimeError: two lines"),
        (["exits"], 2, "SystemExit"),
        (["gret"], 2, "greet"),
    ],
)
def test_a_command_is_one_of_steersman(outside: Path, words: list[str], code: int, said: str) -> None:
    done = called(outside, "-m", "steersman.cli", *words)
    assert done.returncode == code, done.stderr
    assert said in done.stdout + done.stderr
    assert "(steersman.commands: run) cannot be used" in done.stderr.splitlines()[0]


def test_a_command_of_ours_looks_for_no_other_and_for_no_policy(outside: Path) -> None:
    done = called(outside, "-m", "steersman.cli", "workflows")
    (told,) = done.stderr.splitlines()
    assert "steersman.schedulers" in told, "keys of site files"
