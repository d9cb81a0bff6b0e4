"""The client that is shipped: its files are where it says, and CMake builds programs with them."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from steersman.apps import line
from steersman.client.__main__ import HERE

EXAMPLES = Path(__file__).parents[2] / "examples" / "solvers"
LISTS = """
cmake_minimum_required(VERSION 3.16)
project(heat {languages})
find_package(steersman REQUIRED)
add_executable(heat {source})
target_link_libraries(heat steersman::steersman)
"""


def said(*options: str) -> list[str]:
    told = [sys.executable, "-m", "steersman.client", *options]
    return shlex.split(subprocess.run(told, check=True, capture_output=True, text=True).stdout)


def test_it_says_where_its_files_are() -> None:
    include, module, source = said("--cflags", "--fflags", "--sources")
    assert Path(include.removeprefix("-I"), "steersman.h").is_file()
    assert [Path(each).name for each in (module, source) if Path(each).is_file()] == ["steersman.f90", "steersman.c"]


def test_the_walkers_side_counts_as_the_c_file_does() -> None:
    """Calls, codes, types and the version: what differs would be taken for something else."""
    header, source = ((HERE / name).read_text() for name in ("steersman.h", "steersman.c"))
    names = re.search(r"enum \{ OPEN = 1, ([A-Z_, ]+) \};", source)
    assert names
    calls = [{"KEEP": "STATE_PUT"}.get(name, name) for name in ["OPEN", *names[1].split(", ")]]
    assert [each.name for each in line.Do] == calls
    numbers = {name: int(value) for name, value in re.findall(r"STEERSMAN_(\w+) *=? (-?\d+)", header)}
    assert (numbers["MAJOR"], numbers["MINOR"]) == (line.MAJOR, line.MINOR)
    codes = [numbers[name] for name in ("OK", "NONE", "REFUSED", "VERSION")]
    assert codes == [line.OK, line.NONE, line.REFUSED, line.VERSION]
    kinds = re.findall(r"STEERSMAN_(REAL\d+|INT\d+|LOGICAL|TEXT)\b", header.partition("REAL32 = 1")[2])
    lengthened = {"bool": "LOGICAL", "text": "TEXT", "float32": "REAL32", "float64": "REAL64"}
    assert ["REAL32", *kinds[: len(line.TYPES) - 1]] == [
        lengthened.get(each, each.upper()) for each in line.TYPES.values()
    ]


@pytest.mark.slow
@pytest.mark.parametrize(("languages", "source"), [("C Fortran", "heat.f90"), ("C CXX", "heat.cpp")])
def test_cmake_builds_a_program_with_it(languages: str, source: str, tmp_path: Path) -> None:
    for each in ("cmake", "gfortran" if "Fortran" in languages else "g++"):
        if shutil.which(each) is None:
            pytest.skip(f"there is no {each}")
    lists = LISTS.format(languages=languages, source=EXAMPLES / source)
    (tmp_path / "CMakeLists.txt").write_text(lists)
    for words in (["-S", ".", "-B", "build", f"-Dsteersman_DIR={said('--cmake')[0]}"], ["--build", "build"]):
        subprocess.run(["cmake", *words], cwd=tmp_path, check=True, capture_output=True)
    subprocess.run([tmp_path / "build" / "heat"], check=True)
