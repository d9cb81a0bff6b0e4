"""The tutorials are true: their files are written, their commands run, in order, as they stand."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from steersman.steering.decide import CHOSE_NONE
from tests.apps import debian

PAGES = sorted((Path(__file__).parents[2] / "docs" / "tutorials").glob("*.md"))
NEEDS = {"gromacs": "gmx"}  # programs of Debian, by their package; a page has its name
BLOCK = re.compile(r'```(\w+)(?: title="([\w.]+)")?\n(.*?)```', re.DOTALL)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_tutorial_runs(page: Path, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    if needed := NEEDS.get(page.stem):
        path = f"{Path(debian.program(needed, page.stem, tmp_path_factory.mktemp(needed))).parent}:{path}"
    environment = os.environ | {"PATH": path, "NO_COLOR": "1", "COLUMNS": "160"}
    ran = 0
    blocks = BLOCK.findall(page.read_text())
    for _, title, text in blocks:
        if title:
            (tmp_path / title).write_text(text)
    for language, title, text in blocks:
        words = {"sh": ["bash", "-e", "-c", text], "python": [sys.executable, "-c", text]}.get(language)
        if words and not title:  # a reader takes it for a step
            done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True)
            assert done.returncode == 0, f"{text}\n{done.stdout[-1000:]}\n{done.stderr[-3000:]}"
            assert CHOSE_NONE not in done.stdout, "a tutorial of steering steers"
            ran += 1
    assert ran >= 2
