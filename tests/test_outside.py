"""A package outside of the tree adds one part of each kind; one that cannot be used is told in a line and left out."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.outside import GROUPS, TAKEN, installed


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


def test_a_comparison_has_an_arm_of_it(outside: Path) -> None:
    code = (
        "from steersman.analysis.comparison.arms import arms\nfrom steersman.stages import loading\n"
        "workflow = loading.load(loading.find('double_well'))\n"
        "print(*(arm.label for arm in arms(workflow, ['Newest(\"x\"), explore=0.1'], {})), sep='\\n')"
    )
    assert 'Newest("x"), explore=0.1' in called(outside, "-c", code).stdout.splitlines()


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


def test_a_scheduler_is_a_key_of_site_files_and_one_that_cannot_be_used_is_told_where_a_site_names_it(
    outside: Path,
) -> None:
    names = {**GROUPS["schedulers"], "raises": "outside.raises:Part", "exits": "outside.exits:Part"}
    del names["oar"]
    code = (
        "from steersman.executors.errors import BadSite\nfrom steersman.executors.site_files import changed, checked\n"
        "from steersman.executors.schedulers.registry import scheduler_here\n"
        "print(scheduler_here({'OAR_JOB_ID': '1'}).TITLE)\n"
        "print(checked('mine', {'name': 'mine', 'oar': {'project': 'mine'}}).scheduler.project)\n"
        "print(checked('mine', {'name': 'mine', 'slurm': {}}).scheduler.TITLE)\n"
        f"for name in {list(names)}:\n    for changes in {{}}, {{'queue': 'short'}}:\n        try:\n"
        "            changed('mine', {'name': 'mine', name: {}}, changes)\n"
        "        except BadSite as bad:\n            print(name, bad.problem)\n"
    )
    done = called(outside, "-c", code)
    *usable, first = done.stdout.splitlines()[:4]
    assert usable == ["OAR", "mine", "Slurm"], "no package takes the place of ours"
    told = [line.split()[:3] for line in done.stdout.splitlines()[3:]]
    assert told == [[name, f"{name}:", names[name]] for name in names for _ in range(2)]
    words = re.findall(r"\w+", first)
    assert {"LAUNCHER", "STATES", "header"} < set(words)
    assert "TITLE" not in words, "of what it lacks"
    assert len(done.stderr.splitlines()) == len(TAKEN["schedulers"])


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
    assert all("steersman.schedulers" in line for line in done.stderr.splitlines()), "keys of site files"
