"""Members of a group speak to each other directly: two domains that exchange halos are the single domain."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from lab.bus_ranks import BusRanks, MpiRanks, ranks
from steersman.bus import BusTimeout, Server, TupleSpace
from tests.bus.conftest import later
from tests.lab import halo

ROOT = Path(__file__).parents[2]


@pytest.fixture
def space(tmp_path: Path) -> Iterator[TupleSpace]:
    with Server.start(tmp_path / "bus") as server:
        yield TupleSpace.connect(server.url)


def test_two_domains_over_the_bus_equal_the_single_domain(space: TupleSpace) -> None:
    west, east = (later(lambda me=me: halo.half(ranks(space, "ring", me), me)) for me in halo.NAMES)  # type: ignore[misc]
    np.testing.assert_array_equal(np.concatenate([west.result(30), east.result(30)]), halo.whole())
    assert sum(s.ready for s in space.statistics().values()) == 0, "nothing is left over"


def test_two_domains_over_mpi_equal_the_single_domain() -> None:
    mpiexec = Path(sys.executable).parent / "mpiexec"
    if not mpiexec.exists():
        pytest.skip("no mpiexec: pip install mpich")
    words = [str(mpiexec), "-n", "2", sys.executable, "-m", "tests.lab.halo"]
    ran = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False, cwd=ROOT)
    assert (ran.returncode, ran.stdout) == (0, "equal\n"), ran.stderr


def test_messages_between_two_members_keep_their_order(space: TupleSpace) -> None:
    a, b = BusRanks(space, "g", "a"), BusRanks(space, "g", "b")
    for n in range(20):
        a.send("b", {"n": n, "x": np.full(3, n)})
    assert [b.recv("a", timeout_s=5)["n"] for _ in range(20)] == list(range(20))
    with pytest.raises(BusTimeout):
        b.recv("a", timeout_s=0.05)


def test_groups_do_not_hear_each_other(space: TupleSpace) -> None:
    BusRanks(space, "one", "a").send("b", 1)
    with pytest.raises(BusTimeout):
        BusRanks(space, "two", "b").recv("a", timeout_s=0.05)


def test_a_ring_of_many_cannot_deadlock(space: TupleSpace) -> None:
    names = [f"r{n}" for n in range(6)]

    def turn(n: int) -> int:
        left, right = names[n - 1], names[(n + 1) % 6]
        got = BusRanks(space, "ring", names[n]).exchange({left: n, right: n}, timeout_s=20)
        return int(got[left]) * 10 + int(got[right])

    turns = [later(lambda n=n: turn(n)) for n in range(6)]  # type: ignore[misc]
    assert [t.result(30) for t in turns] == [(n - 1) % 6 * 10 + (n + 1) % 6 for n in range(6)]


def test_a_communicator_needs_one_name_a_rank() -> None:
    class Three:
        def Get_size(self) -> int:
            return 3

    with pytest.raises(ValueError, match="2 names"):
        MpiRanks(Three(), ["a", "b"])
