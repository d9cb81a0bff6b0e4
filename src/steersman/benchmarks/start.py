"""What the start of a run costs: `steersman bench start --json` prints one JSON object.

phases: of a whole small campaign, from the command to the prompt: wall and processor seconds of each.

files: what the start of a walker asks of the shared file system; null where there is no strace (`apt install strace`).
A process imports what a worker of Parsl imports, loads a workflow and simulates its first frames, under strace: once
with the installed environment, once with the same environment unpacked on a node's own disk, as `environment: packed`
does. shared_file_calls: system calls that name a file of the installed environment, its Python or Steersman's
checkout. shared_files, shared_mb: files opened there, and their size. packed_*: the same with the unpacked environment.
node_*: what it asks of the node's own disk. unpack_mb: what each node reads of the shared file system once. pack_s,
unpack_s: how long packing and unpacking took here.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import steersman
from steersman.benchmarks import phases
from steersman.executors import packed
from steersman.stages import loading
from steersman.system.errors import BadInput

START = """
import sys
import parsl.executors.high_throughput.process_worker_pool
from steersman.stages import loading
from steersman.checks import trying
source = loading.find(sys.argv[1])
workflow = loading.load(source)
for step in trying.tried(workflow, loading.parameters(workflow, None, []), source):
    print(step.what, file=sys.stderr)
    if not step.ok: sys.exit(step.found)
    if step.what == "simulate": break
"""
NAMED = re.compile(r'[<"](/[^">]+)[">]')
OPENED = re.compile(r"open(?:at)?\(.*= \d+<(/[^>]+)>")


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(prog="steersman bench start", description=__doc__)
    parser.add_argument("--workflow", default="double_well")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="parameters of the campaign")
    parser.add_argument("--json", action="store_true", help="the only format there is")
    chosen = parser.parse_args(list(arguments))
    ours, path = chosen.workflow in loading.shipped(), loading.find(chosen.workflow)
    named = chosen.workflow if ours else str(path.resolve())  # walkers start in another folder
    with tempfile.TemporaryDirectory(prefix="steersman-bench-") as folder:
        found = phases.measure(Path(folder), named, chosen.set)
        files = measure(Path(folder), named) if shutil.which("strace") else None
        print(json.dumps({"workflow": chosen.workflow, "phases": found, "files": files}))


def measure(folder: Path, workflow: str) -> dict[str, float]:
    """Both ways of the environment, one after the other."""
    shared = [sys.prefix, sys.base_prefix, *_checkout()]
    before = _traced(folder / "shared", workflow, shared, {})
    began = time.monotonic()
    file = packed.pack(folder)
    packed_s, began = time.monotonic() - began, time.monotonic()
    there = {packed.FILE: str(file), "TMPDIR": str(folder)}
    report = subprocess.run(
        ["bash", "-ec", f"{packed.UNPACK}\nenv -0"], env=os.environ | there, stdout=subprocess.PIPE, check=True
    ).stdout
    unpacked_s = time.monotonic() - began
    environment = dict(line.split("=", 1) for line in report.decode().split("\0") if line)
    node = str(folder / f"steersman-{os.getuid()}-{file.stem}")
    after = _traced(folder / "packed", workflow, shared, environment)
    within = _counted(folder / "packed", [node])
    return (
        {f"shared_{name}": value for name, value in before.items()}
        | {f"packed_{name}": value for name, value in after.items()}
        | {f"node_{name}": value for name, value in within.items()}
        | {"unpack_files": 1, "unpack_mb": round(file.stat().st_size / 1e6)}
        | {"pack_s": round(packed_s, 1), "unpack_s": round(unpacked_s, 1)}
    )


def _checkout() -> Iterator[str]:
    package = Path(steersman.__file__).parent
    if not package.is_relative_to(sys.prefix):
        yield str(package.parents[1])


def _traced(trace: Path, workflow: str, below: Sequence[str], environment: dict[str, str]) -> dict[str, float]:
    python = shutil.which("python3", path=environment["PATH"]) if environment else sys.executable
    command = [
        "strace",
        "-f",
        "-y",
        "-s",
        "4096",
        "-e",
        "trace=%file",
        "-o",
        str(trace),
        str(python),
        "-c",
        START,
        workflow,
    ]
    done = subprocess.run(command, env=environment or None, capture_output=True, text=True, cwd="/", check=False)
    if done.returncode:
        raise BadInput(f"a walker of {workflow} cannot start: {done.stderr.strip()[-500:]}")
    return _counted(trace, below)


def _counted(trace: Path, below: Sequence[str]) -> dict[str, float]:
    roots, calls, opened = tuple(f"{each}/" for each in below), 0, set()
    with trace.open(errors="replace") as lines:
        for line in lines:
            calls += any(path.startswith(roots) for path in NAMED.findall(line))
            if (file := OPENED.search(line)) and file[1].startswith(roots):
                opened.add(file[1])
    size = sum(Path(path).stat().st_size for path in opened if Path(path).is_file())
    return {"file_calls": calls, "files": len(opened), "mb": round(size / 1e6, 1)}


if __name__ == "__main__":
    main(sys.argv[1:])
