"""What the processes of a campaign on the cluster are, have, and are made to endure."""

from __future__ import annotations

import contextlib
import json
import threading

import psutil

from steersman.journal.records import Joined, Published
from tests.sites.campaigns import Campaign


def gpus_of_nodes(campaign: Campaign) -> dict[str, set[int]]:
    """Which GPUs the walkers of each node told in their frames, as far as these are published."""
    published = {record.walker for record in campaign.records(Published) if record.frames}
    found: dict[str, set[int]] = {}
    for walker in campaign.records(Joined):
        if walker.walker in published:
            frame = campaign.directory.frames.row(f"w{walker.walker}", 0)
            found.setdefault(walker.node, set()).add(int(frame["gpu"]))
    return found


def stop_interchange(campaign: Campaign, for_s: float) -> None:
    """Do to Parsl's interchange what a busy login node does; the tests go on meanwhile."""
    driver = psutil.Process(json.loads((campaign.directory.path / "driver.json").read_text())["pid"])
    (interchange,) = (process for process in driver.children() if "interchange" in " ".join(process.cmdline()))
    interchange.suspend()
    threading.Timer(for_s, interchange.resume).start()


def of_run(campaign: Campaign) -> list[psutil.Process]:
    """Processes of the job that a campaign was submitted in."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.environ().get("OF_RUN") == str(campaign.directory.path):
                found.append(process)
    return found
