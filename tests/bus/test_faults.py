"""Producers, takers and the server are killed at random; at the end every tuple is accounted for.

The quick form is in the suite. `make soak` sets STEERSMAN_SOAK and runs the long one: 10^5 tuples, 200 kills and more.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from steersman.bus import Server, TupleSpace

from . import fault_client

SOAK = "STEERSMAN_SOAK" in os.environ
TUPLES, KILLS, SECONDS = (100_000, 220, 120.0) if SOAK else (3_000, 12, 6.0)
PRODUCERS = TAKERS = 8 if SOAK else 4
LEASE_S = 1.5
BOUND = 400  # producers wait for takers, so that both are there to be killed until the end


@dataclass
class Cast:
    """The processes that play, and how often each kind was killed."""

    home: Path
    program: str
    each: int
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    killed: Counter[str] = field(default_factory=Counter)

    def enter(self, who: str) -> None:
        """Start a producer or a taker, again under the same name after its death."""
        kind, number = who.split()
        amount = self.each if kind == "produce" else LEASE_S
        record = self.home / f"{kind}-{number}.txt"
        words = [kind, str(self.home / "bus"), str(record), number, str(amount)]
        with (self.home / "clients.log").open("ab") as log:
            self.running[who] = subprocess.Popen([sys.executable, fault_client.__file__ or "", *words], stderr=log)

    def server(self) -> Server:
        return Server.start(self.home / "bus", program=self.program, fsync="always")

    def kill(self, who: str) -> None:
        """SIGKILL, wait for the dead, and bring it back at once."""
        if who == "server":
            pid = self.server().pid
            assert pid is not None
            os.kill(pid, 9)
            self.server()
        else:
            self.running[who].kill()
            self.running[who].wait()
            self.enter(who)
        self.killed[who.split()[0]] += 1

    def alive(self) -> list[str]:
        return [who for who, process in self.running.items() if process.poll() is None]


def play(cast: Cast, kills: int, seconds: float, seed: int) -> None:
    """Kill somebody alive every now and then, then let those who are left come to their end."""
    chance, ends = random.Random(seed), time.monotonic() + 20 * seconds
    for kind, number in (("produce", PRODUCERS), ("take", TAKERS)):
        for n in range(number):
            cast.enter(f"{kind} {n}")
    while sum(cast.killed.values()) < kills and time.monotonic() < ends:
        time.sleep(chance.uniform(0.5, 1.5) * seconds / kills)  # the schedule of the faults
        victims = [who for who in cast.alive() if who.startswith("produce")] or cast.alive()
        victims = chance.choice([victims, [who for who in cast.alive() if who.startswith("take")], ["server"]])
        if victims:
            cast.kill(chance.choice(victims))
    for process in cast.running.values():
        assert process.wait(600) == 0


def accounts(home: Path) -> dict[str, int]:
    """What the records of the takers say of each tuple."""
    handed: dict[tuple[str, str], list[str]] = defaultdict(list)
    acked: Counter[tuple[str, str]] = Counter()
    table: Counter[str] = Counter()
    for record in sorted(home.glob("take-*.txt")):
        for line in record.read_text().splitlines():
            event, who, n, deliveries, proof, _ = line.split()
            table["unexplained"] += proof != "1"
            if event == "handed":
                handed[who, n].append(deliveries)
            elif event == "acked":
                acked[who, n] += 1
            else:
                table["late"] += 1
    table["handed out"] = sum(map(len, handed.values()))
    table["different"] = len(handed)
    table["handed out again after a lease ended"] = table["handed out"] - table["different"]
    table["one delivery to two takers"] = sum(len(set(numbers)) != len(numbers) for numbers in handed.values())
    table["acknowledged twice"] = sum(n > 1 for n in acked.values())
    return dict(table)


def accounted(tmp_path: Path, program: str, *, tuples: int, kills: int, seconds: float, seed: int) -> dict[str, int]:
    """The whole play. Returns: the table, every number in it."""
    began = time.monotonic()
    cast = Cast(tmp_path, program, tuples // PRODUCERS)
    cast.server()
    try:
        with TupleSpace.connect(tmp_path / "bus", space=fault_client.SPACE) as space:
            space.configure("work", bound=BOUND)
            play(cast, kills, seconds, seed)
            looked = space.statistics("work")["work"]
    finally:
        for process in cast.running.values():
            process.kill()
            process.wait()
        cast.server().stop()
    left = {"put": looked.put, "done": looked.done, "left": looked.ready + looked.leases, "dead": looked.dead}
    kinds = {f"{kind} killed": n for kind, n in sorted(cast.killed.items())}
    return kinds | left | accounts(tmp_path) | {"seconds": round(time.monotonic() - began)}


def check(table: dict[str, int], tuples: int) -> None:
    """Every tuple was put once, handed out to one taker at a time, again only after a lease ended, and is done."""
    for law, value in table.items():
        print(f"{law:40}{value:>10}")
    assert (table["put"], table["done"], table["different"]) == (tuples, tuples, tuples), "nothing lost or doubled"
    assert (table["left"], table["dead"]) == (0, 0)
    assert table["one delivery to two takers"] == table["acknowledged twice"] == table["unexplained"] == 0


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_kills_lose_nothing_and_double_nothing(program: str, tmp_path: Path) -> None:
    table = accounted(tmp_path, program, tuples=TUPLES, kills=KILLS, seconds=SECONDS, seed=7)
    check(table, TUPLES)
    assert sum(n for law, n in table.items() if law.endswith(" killed")) == KILLS
