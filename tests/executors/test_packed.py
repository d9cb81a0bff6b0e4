"""A packed environment runs where neither the environment nor its Python can be seen any more."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from steersman.executors.packed import FILE, UNPACK, named
from steersman.executors.parsl_config import submit_scripts
from steersman.executors.site_files import checked

PROBE = "import ours, ssl, sys; print(sys.prefix, ours.__file__, ssl.__file__)"
SITE = {
    "name": "ours",
    "simulation": {"nodes": 2, "workers": 1, "walltime_s": 600},
    "training": {"nodes": 1, "workers": 1, "walltime_s": 600},
    "environment": "packed",
}


def bash(script: str, **variables: str) -> str:
    environment = {"PATH": "/usr/bin:/bin", **variables}
    return subprocess.run(["bash", "-ec", script], env=environment, capture_output=True, text=True, check=True).stdout


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small one, with a module and a program of its own, in which this checkout can be imported."""
    made = tmp_path_factory.mktemp("environments") / "small"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", made], check=True)
    (site,) = made.glob("lib/python*/site-packages")
    (site / "ours.py").write_text("")
    program = made / "bin" / "ours"
    program.write_text(f"#!{made}/bin/python3\n{PROBE}\n")
    program.chmod(0o755)
    return made


@pytest.fixture(scope="module")
def file(environment: Path) -> Path:
    """What the environment packs itself to."""
    source = Path(__file__).parents[2] / "src"
    code = "import pathlib, sys; from steersman.executors.packed import pack; print(pack(pathlib.Path(sys.argv[1])))"
    done = subprocess.run(
        [environment / "bin" / "python3", "-c", code, environment.parent], env={"PYTHONPATH": str(source)},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return Path(done.stdout.strip())


@pytest.mark.slow
def test_it_runs_where_its_files_were_unpacked_and_nowhere_else(file: Path, environment: Path, tmp_path: Path) -> None:
    """Also by a script, which named its interpreter; and what is unpacked once is not unpacked again."""
    hidden = environment.with_name("hidden")
    environment.rename(hidden)
    try:
        there = {FILE: str(file), "TMPDIR": str(tmp_path)}
        by_script = bash(f"{UNPACK}\nours", **there).split()
        file_before = next(tmp_path.glob("*/lib/python*/os.py")).stat()
        by_python = bash(f"{UNPACK}\npython3 -c '{PROBE}'", **there).split()
        assert next(tmp_path.glob("*/lib/python*/os.py")).stat() == file_before
    finally:
        hidden.rename(environment)
    assert by_script == by_python
    assert len(by_script) == 3
    assert all(Path(each).is_relative_to(tmp_path) for each in by_script)


def test_a_checkout_is_in_the_file(file: Path, tmp_path: Path) -> None:
    """Its rooms are links into the checkout, which a node's disk does not have."""
    bash(UNPACK, **{FILE: str(file), "TMPDIR": str(tmp_path)})
    packages = next(tmp_path.glob("*/lib/python*/site-packages/steersman"))
    assert (packages / "worker" / "__init__.py").is_file()
    assert not any(each.is_symlink() for each in packages.iterdir())


def test_a_node_that_cannot_unpack_it_uses_the_shared_one_and_says_so(tmp_path: Path) -> None:
    script = f"{UNPACK}\necho $PATH"
    done = subprocess.run(
        ["bash", "-c", script], env={FILE: "/nowhere.tar", "TMPDIR": str(tmp_path), "PATH": "/usr/bin:/bin"},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.strip() == "/usr/bin:/bin"
    assert "the shared environment" in done.stderr


@pytest.mark.parametrize("scheduler", ["slurm", "pbs"])
def test_nodes_unpack_it_before_their_workers_start(scheduler: str) -> None:
    """And those of a scheduler that can send a file to all nodes have it by then on their own disks."""
    scripts = submit_scripts(checked("packed", {**SITE, scheduler: {}}))
    before, _, on_each_node = scripts["simulation"].partition("cat >")
    assert named(Path("environment.tar"), "") in before
    assert ("sbcast" in before) == (scheduler == "slurm")
    assert UNPACK in on_each_node.partition("process_worker_pool.py")[0]
    assert UNPACK.splitlines()[0] not in scripts["training"], "ranks on all nodes start with the first one's Python"
