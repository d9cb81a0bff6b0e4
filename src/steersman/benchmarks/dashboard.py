"""The dashboard on a large run, in a real browser: `steersman bench dashboard --json` prints one JSON object.

A run of so many events and scored frames is written, and `steersman dashboard` serves it. command_s: until the command
prints its link; open_s: from opening the link until the map is drawn; open_cpu_s: processor time of the server until
then; whole_s: until all frames are on the map; page_s: until the map of a second page is drawn. update_s: from an event
that is appended to the journal until the page shows it, the median; ten_viewers_update_s: the same with ten pages open.
longest_task_ms: of the browser while the map and the slots are dragged and zoomed; 0: none was longer than 50 ms.
server_mb: most memory of the server. Needs playwright and Chromium (`apt install chromium`).
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from steersman.journal.file import Journal, rewrite
from steersman.journal.records import (
    Began,
    Ended,
    FrameId,
    Hired,
    Joined,
    Metrics,
    Note,
    Published,
    Record,
    Run,
    Scored,
    Session,
    Start,
    Trained,
    Training,
)  # fmt: skip
from steersman.store import FRAME, Frames, GroupWriter
from steersman.system.errors import BadInput

EVENTS = 4  # of a segment: start, began, ended, frames
BLOCK = 500_000  # frames that are written at a time
WELLS = 30  # places that the frames crowd around
POLICIES = ("LocalOutlierFactor", "Novelty", "explore")
UPDATES, DRAGS = 7, 24
LONG_TASKS = """() => {
  window.longTasks = [];
  const seen = new PerformanceObserver(list => list.getEntries().forEach(each => window.longTasks.push(each.duration)));
  seen.observe({ type: "longtask" });
}"""


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(prog="steersman bench dashboard", description=__doc__)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--frames", type=int, default=10_000_000)
    parser.add_argument("--walkers", type=int, default=1000)
    parser.add_argument("--json", action="store_true", help="the only format there is")
    chosen = parser.parse_args(list(arguments))
    with tempfile.TemporaryDirectory(prefix="steersman-bench-") as folder:
        run = Path(folder) / "large-0001"
        write_run(run, chosen.events, chosen.frames, chosen.walkers)
        print(json.dumps({"events": chosen.events, "frames": chosen.frames, **measure(run)}))


def chromium() -> str:
    """Where Chromium is. Raises: BadInput: it is not installed."""
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if found is None:
        raise BadInput("there is no Chromium on this machine: apt install chromium")
    return found


def write_run(run: Path, events: int, frames: int, walkers: int) -> None:
    """Write a run that goes on, as its journal and its scores have it."""
    run.mkdir()
    segments = events // EVENTS
    each = max(1, frames // segments)
    rewrite(run / "journal.jsonl", _story(segments, walkers, each))
    scores, rng = run / "scores.zarr", np.random.default_rng(0)
    scores.mkdir()
    writer = GroupWriter(scores / "0001", attributes={"model": 1})
    wells = rng.normal(0, 2, (WELLS, 3))
    for first in range(0, segments * each, BLOCK):
        number = np.arange(first, min(first + BLOCK, segments * each))
        segment = number // each
        where = wells[(segment * 7) % WELLS] + rng.normal(0, 0.35, (len(number), 3))
        writer.extend(FRAME, {
            "walker": (segment % walkers).astype(np.int32), "row": segment // walkers * each + number % each,
            "z": where.astype(np.float32), "error": rng.random(len(number), dtype=np.float32),
        })  # fmt: skip
        writer.publish()
    writer.close()


def _story(segments: int, walkers: int, frames: int) -> Iterator[Record]:
    t, rng = time.time() - segments * 0.01 - 60, np.random.default_rng(0)
    yield Run(workflow="large", seed=1, slots=walkers, time_unit="ps", t=t)
    yield Session(host="here", pid=1, t=t)
    for walker in range(walkers):
        yield Hired(walker=walker, slot=walker, t=t)
        yield Joined(walker=walker, node=f"node{walker // 50:03d}", t=t)
    yield Training(model=1, frames=0, t=t)
    yield Trained(
        model=1, accepted=True, reason="the first model", frames=100, loss=1.0, held_out=0.1, seconds=1.0, t=t
    )
    for i in range(segments):
        walker, number = i % walkers, i // walkers
        t += 0.01
        parent = None
        if number:
            from_walker, from_number = int(rng.integers(walkers)), int(rng.integers(max(0, number - 3), number))
            parent = FrameId(from_walker, from_number * frames + int(rng.integers(frames)), from_number)
        policy = POLICIES[i % len(POLICIES)]
        yield Start(start=i, seed=i, slot=walker, parent=parent, policy=policy, reason="few are near", model=1, t=t)
        yield Began(walker=walker, segment=number, start=i, first_row=number * frames, waited_s=0.01, t=t)
        last = (number + 1) * frames
        yield Ended(
            walker=walker, segment=number, start=i, first_row=number * frames, end_row=last, how="finished", ran_s=9.0,
            simulated=2.0, t=t + 9,
        )  # fmt: skip
        yield Published(walker=walker, frames=last, segments=number + 1, t=t + 9.5)
        if i % 1000 == 0:
            yield Metrics(values={"coverage": float(i) ** 0.5}, t=t + 9.5)
    yield Scored(model=1, frames=segments * frames, t=t + 10)


def measure(run: Path) -> dict[str, Any]:
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        raise BadInput("playwright is not installed: pip install playwright") from None
    found: dict[str, Any] = {}
    environment = os.environ | {"XDG_STATE_HOME": str(run.parent / "state")}
    began = time.monotonic()
    command = [sys.executable, "-m", "steersman.cli", "dashboard", str(run)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as server:
        try:
            assert server.stdout is not None
            link = server.stdout.readline().split()[-1]
            found["command_s"] = round(time.monotonic() - began, 2)
            with sync_playwright() as playwright:
                arguments = ["--no-sandbox", "--disable-background-networking"]
                browser = playwright.chromium.launch(executable_path=chromium(), args=arguments)
                context = browser.new_context(viewport={"width": 1400, "height": 900})
                began = time.monotonic()
                page = _opened(context, link)
                found["open_s"] = round(time.monotonic() - began, 2)
                times = psutil.Process(server.pid).cpu_times()
                found["open_cpu_s"] = round(times.user + times.system, 2)
                frames = Frames(run / "scores.zarr").count("0001")
                page.wait_for_selector(f"#map-canvas[data-total='{frames}']", timeout=120_000)
                found["whole_s"] = round(time.monotonic() - began, 2)
                again = time.monotonic()
                _opened(context, link).close()
                found["page_s"] = round(time.monotonic() - again, 2)
                found["points_drawn"] = int(page.locator("#map-canvas").get_attribute("data-points") or 0)
                found["longest_task_ms"] = _longest_task_ms(page)
                journal = Journal(run / "journal.jsonl")
                found["update_s"] = _update_s(page, journal)
                others = [_opened(context, link) for _ in range(9)]
                found["ten_viewers_update_s"] = _update_s(page, journal)
                journal.close()
                found["browser_heap_mb"] = round(page.evaluate("performance.memory.usedJSHeapSize") / 1e6)
                del others
                browser.close()
            found["server_mb"] = round(_most_mb(server.pid))
        finally:
            server.terminate()
    return found


def _opened(context: Any, link: str) -> Any:
    page = context.new_page()
    page.goto(link)
    page.wait_for_selector("#map-canvas[data-points]", timeout=120_000)
    return page


def _longest_task_ms(page: Any) -> int:
    """Of dragging and zooming the map, then the slots."""
    page.wait_for_timeout(1500)
    page.evaluate(LONG_TASKS)
    for name in ("#map-canvas", "#slots-canvas"):
        canvas = page.locator(name)
        canvas.scroll_into_view_if_needed()
        box = canvas.bounding_box()
        x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        page.mouse.move(x, y)
        page.mouse.down()
        for i in range(DRAGS):
            page.mouse.move(x + 8 * (i % 12), y + 3 * (i % 7))
            page.wait_for_timeout(30)
        page.mouse.up()
        for i in range(DRAGS):
            page.mouse.wheel(0, -120 if i < DRAGS // 2 else 120)
            page.wait_for_timeout(30)
        page.wait_for_timeout(1500)
    return round(max(page.evaluate("window.longTasks"), default=0))


def _update_s(page: Any, journal: Journal) -> float:
    """From an appended event to the change on the page."""
    waited = []
    for i in range(UPDATES):
        page.wait_for_timeout(700)
        before = int(page.evaluate("document.body.dataset.change"))
        began = time.monotonic()
        journal.append(Note(text=f"looked at for the {i}th time"))
        page.wait_for_function("before => +document.body.dataset.change > before", arg=before, timeout=60_000)
        waited.append(time.monotonic() - began)
    return round(statistics.median(waited), 2)


def _most_mb(pid: int) -> float:
    """Most memory that a process ever held."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    return psutil.Process(pid).memory_info().rss / 2**20


if __name__ == "__main__":
    main(sys.argv[1:])
