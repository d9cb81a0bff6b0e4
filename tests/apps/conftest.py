"""Programs that call steersman.h, built once."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from steersman.client.__main__ import HERE
from tests.apps.programs import EXACT, ROOT, tool


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., str]:
    """Compile the client, or a program with it, once."""
    folder = tmp_path_factory.mktemp("solvers")

    def build(compiler: str, *words: str | Path, name: str) -> str:
        if not (folder / name).exists():
            given = [tool(compiler), *EXACT, f"-I{HERE}", *map(str, words), "-o", name]
            subprocess.run(given, cwd=folder, check=True, capture_output=True)
        return str(folder / name)

    return build


@pytest.fixture(scope="session")
def library(built: Callable[..., str]) -> str:
    return built(
        "gcc", "-std=c99", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", HERE / "steersman.c", name="lib.so"
    )


@pytest.fixture
def calling(library: str, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """A program of these lines, which has opened its line, and closes it."""
    monkeypatch.setenv("STEERSMAN_LIBRARY", library)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))

    def words(lines: str, opened: bool = True, closes: bool = True) -> list[str]:
        head = (
            "import os, signal, sys, time\nfrom tests.apps.solver import *\n" + "must(lib.steersman_open())\n" * opened
        )
        tail = "\nmust(lib.steersman_close())" * (closes and "steersman_close" not in lines)
        return [sys.executable, "-c", head + textwrap.dedent(lines) + tail]

    return words


@pytest.fixture(params=["near", "far"])
def placed(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Callable[[list[str]], list[str]]:
    """A program on its walker's node, and as on another one, from which the socket is not to be seen."""
    if request.param == "near":
        return lambda words: words
    monkeypatch.setenv("PARSL_MPI_PREFIX", "mpiexec -n 1 -ppn 1 -hosts 127.0.0.1,127.0.0.2")
    return lambda words: ["env", "-u", "STEERSMAN_SOCKET", *words]
