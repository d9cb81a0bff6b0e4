"""Schedulers of other packages are keys of site files; one that cannot be used hinders nobody else."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from steersman.executors.schedulers.registry import SCHEDULERS
from steersman.executors.schedulers.scheduler import Scheduler


def test_a_package_adds_a_scheduler_which_is_a_key_of_site_files(tmp_path: Path) -> None:
    (tmp_path / "oar.py").write_text(
        "from steersman.executors.schedulers.slurm import Slurm\n"
        "from steersman.executors.schedulers.sge import Sge\n"
        "class Oar(Slurm):\n    TITLE, WITHIN, IN_JOB = 'OAR', True, 'OAR_JOB_ID'\n    project: str = ''\n"
        "class Ocs(Sge):\n    pass\n"
    )
    (tmp_path / "oar-1.dist-info").mkdir()
    (tmp_path / "oar-1.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: oar\nVersion: 1\n")
    (tmp_path / "oar-1.dist-info" / "entry_points.txt").write_text(
        "[steersman.schedulers]\noar = oar:Oar\nocs = oar:Ocs\n"
    )
    site = "{'name': 'mine', 'oar': {'project': 'mine'}}"
    code = (
        "from steersman.executors.schedulers.registry import scheduler_here\n"
        "from steersman.executors.site import Site\n"
        f"print(Site.model_validate({site}).scheduler.project, scheduler_here({{'OAR_JOB_ID': '1'}}).TITLE)"
    )
    assert _printed(code, tmp_path).split() == ["mine", "OAR"]


def test_a_scheduler_of_a_package_that_cannot_be_used_is_told_where_a_site_names_it_and_nowhere_else(
    tmp_path: Path,
) -> None:
    (tmp_path / "own.py").write_text(
        "from steersman.executors.schedulers.scheduler import Scheduler\nclass Half(Scheduler):\n    TITLE = 'Half'\n"
    )
    (tmp_path / "broken.py").write_text("raise RuntimeError")
    (tmp_path / "exits.py").write_text("raise SystemExit(0)")
    (tmp_path / "own-1.dist-info").mkdir()
    (tmp_path / "own-1.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: own\nVersion: 1\n")
    names = {"half": "own:Half", "other": "own:Path", "number": "math:pi", "gone": "own:Gone", "broken": "broken:Own"}
    names["exits"] = "exits:Own"
    odd = {"flux": "steersman.executors.schedulers.sge:Sge", "__base__": "own:Half", "model_config": "own:Half"}
    lines = [f"{name} = {value}\n" for name, value in (names | odd).items()]
    (tmp_path / "own-1.dist-info" / "entry_points.txt").write_text("".join(["[steersman.schedulers]\n", *lines]))
    code = (
        "from steersman.executors.errors import BadSite\nfrom steersman.executors.site_files import changed, checked\n"
        "print(*(checked('mine', {'name': 'mine', key: {}}).scheduler.TITLE for key in ('slurm', 'flux')))\n"
        f"for name in {list(names)}:\n    for changes in {{}}, {{'queue': 'short'}}:\n        try:\n"
        "            changed('mine', {'name': 'mine', name: {}}, changes)\n"
        "        except BadSite as bad:\n            print(name, bad.problem)\n"
    )
    slurm, *told = _printed(code, tmp_path).splitlines()
    assert slurm == "Slurm Flux", "no package takes the place of ours"
    assert [line.split()[:3] for line in told] == [[name, f"{name}:", names[name]] for name in names for _ in range(2)]
    assert {"LAUNCHER", "STATES", "header", "TITLE"} & set(re.findall(r"\w+", told[0])) == {
        "LAUNCHER",
        "STATES",
        "header",
    }


def _printed(code: str, folder: Path) -> str:
    command, environment = [sys.executable, "-c", code], os.environ | {"PYTHONPATH": str(folder)}
    return subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True).stdout


@pytest.mark.parametrize("kind", SCHEDULERS.values())
def test_a_scheduler_gives_all_that_a_run_asks_of_it(kind: type[Scheduler]) -> None:
    assert kind.lacks() == []
