"""What a program pays to ask and to store: `steersman bench answers --json` prints one JSON object.

ask_us: microseconds from the call of steersman_ask in a C program to its return, p50 and p95, by the bytes of the
array; the function answers at once, with the array ("both_ways") or with one number ("in"); "copy" is memcpy of the
array in the same program. bus_us: the same array put and taken as tuples by another process and back, Python on both
sides. file_us: the same through a file each way, for which the other side looks all the time. frames_per_s: stored by
`out.append`, of frame_bytes each: by steersman_append and steersman_commit ("append"), and of a program that writes
them to a binary file ("command"). It needs a C compiler.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from steersman.apps.command import command, records
from steersman.apps.program import program
from steersman.bus import Server, TupleSpace
from steersman.client.__main__ import HERE
from steersman.stages.out import Out
from steersman.stages.start import Start
from steersman.system.errors import EngineError

ASKS = {1024: 5000, 65_536: 2000, 10_485_760: 100}  # bytes of the array -> how often
ELSEWHERE = 10  # times fewer through bus and file
FRAMES, FRAME_BYTES = 5000, 8000
PROGRAM = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "steersman.h"
static double *x, *y, *took, began;
static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return 1e6 * t.tv_sec + 1e-3 * t.tv_nsec;
}
static int order(const void *a, const void *b) {
  return *(double *)a < *(double *)b ? -1 : *(double *)a > *(double *)b;
}
static void print(const char *name, int64_t n) {
  qsort(took, n, sizeof *took, order);
  printf("%s %.2f %.2f\n", name, took[n / 2], took[n * 95 / 100]);
}
#define TIMED(name, act) \
  for (int64_t i = 0; i < n; i++) { x[0] = (double)i, began = now(); act; took[i] = now() - began; } \
  print(name, n)
int main(int argc, char **argv) { /* ask|append|write TIMES BYTES */
  int64_t n = atol(argv[2]), bytes = atol(argv[3]);
  x = malloc(bytes), y = calloc(bytes, 1), took = calloc(n, sizeof *took);
  for (int64_t i = 0; i < bytes / 8; i++) x[i] = (double)i;
  if (!strcmp(argv[1], "write")) {
    FILE *out = fopen("frames.bin", "wb");
    for (int64_t i = 0; i < n; i++) x[0] = (double)i, fwrite(x, bytes, 1, out), fflush(out);
    return argc != 4;
  }
  steersman_must(steersman_open());
  steersman_array in = {"x", STEERSMAN_REAL64, x, 1, {bytes / 8}}, out = {"y", STEERSMAN_REAL64, y, 1, {bytes / 8}};
  steersman_array sum = {"sum", STEERSMAN_REAL64, y, 0};
  if (!strcmp(argv[1], "append")) {
    for (int64_t i = 0; i < n; i++)
      x[0] = (double)i, steersman_must(steersman_append(in)), steersman_must(steersman_commit((double)i));
    return steersman_close();
  }
  TIMED("in", steersman_must(steersman_ask("sum", &in, 1, &sum, 1)));
  TIMED("both_ways", steersman_must(steersman_ask("echo", &in, 1, &out, 1)));
  if (memcmp(x, y, bytes)) return 3;
  TIMED("copy", memcpy(y, x, bytes));
  return steersman_close() || y[0] != x[0];
}
"""


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(
        prog="steersman bench answers", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true", help="the only format there is")
    parser.add_argument("--share", type=float, default=1.0, help="of the asks and frames")
    chosen = parser.parse_args(list(arguments))
    with tempfile.TemporaryDirectory(prefix="steersman-bench-") as folder:
        print(json.dumps(measure(Path(folder), chosen.share)))


def measure(folder: Path, share: float = 1.0) -> dict[str, Any]:
    """Raises: EngineError: there is no C compiler."""
    built, frames = _built(folder), max(10, int(share * FRAMES))
    result: dict[str, Any] = {"frame_bytes": FRAME_BYTES, "ask_us": {}, "bus_us": {}, "file_us": {}}
    for size, times in ASKS.items():
        n = max(10, int(share * times))
        result["ask_us"][size] = _asked(folder, built, size, n)
        for name, answer in (("bus_us", _by_bus), ("file_us", _by_file)):
            result[name][size] = _elsewhere(answer, folder / f"{name}-{size}", size, max(10, n // ELSEWHERE))
    sizes = str(frames), str(FRAME_BYTES)
    appended = _rate(lambda out: program([built, "append", *sizes], Start(), out), frames)
    words, dtype = [built, "write", *sizes], ("<f8", (FRAME_BYTES // 8,))
    read = _rate(lambda out: ({"x": x} for x in command(words, reader=records("frames.bin", dtype))), frames)
    return {**result, "frames_per_s": {"append": appended, "command": read}}


def _built(folder: Path) -> str:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise EngineError("there is no C compiler: install gcc, or put one on PATH")
    (folder / "answers.c").write_text(PROGRAM)
    words = [compiler, "-O2", f"-I{HERE}", "answers.c", str(HERE / "steersman.c"), "-o", "answers"]
    subprocess.run(words, cwd=folder, check=True)
    return str(folder / "answers")


def _asked(folder: Path, built: str, size: int, n: int) -> dict[str, Any]:
    def echo(p: Any, model: Any, inputs: Mapping[str, Any]) -> dict[str, Any]:
        return {"y": inputs["x"]}

    def first(p: Any, model: Any, inputs: Mapping[str, Any]) -> dict[str, Any]:
        return {"sum": inputs["x"][0]}

    out = _Endless()
    out.workflow = SimpleNamespace(answers={"echo": echo, "sum": first})
    for _ in program([built, "ask", str(n), str(size)], Start(), out, cwd=folder):
        pass
    printed = [line.split() for line in (folder / "stdout.txt").read_text().splitlines()]
    return {name: {"p50": float(p50), "p95": float(p95)} for name, p50, p95 in printed}


class _Endless(Out):
    @property
    def stopped(self) -> bool:
        return False


def _rate(frames: Callable[[Out], Any], expected: int) -> float:
    out = Out(frames=2 * expected, seconds=1e6)
    began = time.perf_counter()
    for frame in frames(out):
        out.append(**frame)
    took = time.perf_counter() - began
    if out.frames != expected:
        raise EngineError(f"{out.frames} frames of {expected} came")
    return round(expected / took, 1)


def _elsewhere(ask: Callable[..., None], place: Path, size: int, n: int) -> dict[str, float]:
    """p50 and p95 of asks of a process of its own, which this one answers."""
    place.mkdir()
    here, there = multiprocessing.Pipe()
    with Server.start(place / "bus") as server:
        asker = multiprocessing.get_context("spawn").Process(target=_ask, args=(ask, place, server.url, size, n, there))
        asker.start()
        with TupleSpace.connect(server.url) as space:
            for i in range(n):
                ask(space, place, i, None)
        took = here.recv()
        asker.join()
    return {name: round(1e6 * float(np.quantile(took, q)), 1) for name, q in (("p50", 0.5), ("p95", 0.95))}


def _ask(ask: Callable[..., None], place: Path, url: str, size: int, n: int, tell: Connection) -> None:
    x, took = np.arange(size // 8, dtype=np.float64), []
    with TupleSpace.connect(url) as space:
        for i in range(n):
            began = time.perf_counter()
            ask(space, place, i, x)
            took.append(time.perf_counter() - began)
    tell.send(took)


def _by_bus(space: TupleSpace, place: Path, i: int, x: np.ndarray | None) -> None:
    """Ask with x; or answer, without it."""
    if x is None:
        space.put("answer", i, space.take("ask", i, np.ndarray)[2])
    else:
        space.put("ask", i, x)
        space.take("answer", i, np.ndarray)


def _by_file(space: TupleSpace, place: Path, i: int, x: np.ndarray | None) -> None:
    if x is None:
        _write(place / "answer", _read(place / "ask"))
    else:
        _write(place / "ask", x)
        _read(place / "answer")


def _write(file: Path, x: np.ndarray) -> None:
    x.tofile(new := file.with_suffix(".new"))
    os.replace(new, file)


def _read(file: Path) -> np.ndarray:
    while not file.exists():
        time.sleep(0)
    x = np.fromfile(file)
    file.unlink()
    return x
