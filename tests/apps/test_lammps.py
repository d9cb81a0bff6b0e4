"""LAMMPS as a walker: its frames come while it runs, it is stopped over the bus, and goes on from a frame."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from steersman.apps import lammps
from steersman.engine import people
from steersman.journal import file as journal
from steersman.journal.records import Start
from steersman.journal.run_directory import RunDirectory
from steersman.journal.state import State
from steersman.system.errors import EngineError
from tests.apps import debian
from tests.engine.conftest import await_record, opened, started

ARGON = Path(__file__).parents[2] / "examples" / "argon.py"
FRAME = """ITEM: TIMESTEP
{step}
ITEM: NUMBER OF ATOMS
2
ITEM: BOX BOUNDS pp pp pp
0 1
0 1
0 1
ITEM: ATOMS id xu vx
1 0.25 {step}
2 0.5 -{step}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> str:
    return debian.program("lmp", "lammps", tmp_path_factory.mktemp("lammps"))


def test_a_dump_is_read_while_it_is_written(tmp_path: Path) -> None:
    """Each frame once, whole, in order, wherever the writing was when it was read."""
    read, text = lammps.dump("frames.dump"), "".join(FRAME.format(step=step) for step in (0, 50, 100))
    assert list(read(tmp_path)) == [], "not there yet"
    seen = []
    with (tmp_path / "frames.dump").open("w") as file:
        for at in range(0, len(text), 7):
            file.write(text[at : at + 7])
            file.flush()
            seen += list(read(tmp_path))
    assert [frame.step for frame in seen] == [0, 50, 100]
    np.testing.assert_array_equal(seen[2].vectors("xu", "vx"), [[0.25, 100], [0.5, -100]])


def test_atoms_of_a_dump_are_in_the_order_of_their_ids(tmp_path: Path) -> None:
    """LAMMPS writes them as they lie in its memory, another way in each frame, unless `dump_modify` says `sort id`."""
    (tmp_path / "frames.dump").write_text("".join(FRAME.format(step=step) for step in (0, 50)))
    kept = [frame.vectors("id", "xu", "vx") for frame in lammps.dump("frames.dump")(tmp_path)]
    swapped = re.sub(r"(1 0.25.*\n)(2 0.5.*\n)", r"\2\1", (tmp_path / "frames.dump").read_text(), count=1)
    (tmp_path / "frames.dump").write_text(swapped)
    np.testing.assert_array_equal([f.vectors("id", "xu", "vx") for f in lammps.dump("frames.dump")(tmp_path)], kept)


def test_a_dump_may_state_its_units_and_times_and_have_no_atom(tmp_path: Path) -> None:
    """The units once, the time of each frame, as `dump_modify units yes time yes` writes them."""
    frames = "".join(f"ITEM: TIME\n{step / 10}\n{FRAME.format(step=step)}" for step in (0, 50))
    none = FRAME[: FRAME.index("1 0.25")].format(step=100).replace("ATOMS\n2", "ATOMS\n0")
    (tmp_path / "frames.dump").write_text(f"ITEM: UNITS\nlj\n{frames}{none}")
    *whole, empty = lammps.dump("frames.dump")(tmp_path)
    assert [(frame.step, frame.columns["xu"].tolist()) for frame in whole] == [(0, [0.25, 0.5]), (50, [0.25, 0.5])]
    assert empty.vectors("xu", "vx").shape == (0, 2)


@pytest.mark.parametrize(
    ("old", "new"),
    [("1 0.25", "1 Ar"), ("id xu vx", "id xu"), ("2 0.5 -", "2 0.5"), ("ATOMS\n2", "ATOMS\nmany"),
     ("STEP\n", "STEP\nx"), ("ITEM: TIMESTEP", "ITEM: SOMETHING"), ("ITEM: TIMESTEP", "# time")],
)  # fmt: skip
def test_a_dump_of_another_kind_is_refused_by_its_name(old: str, new: str, tmp_path: Path) -> None:
    (tmp_path / "frames.dump").write_text(FRAME.replace(old, new).format(step=1))
    with pytest.raises(EngineError) as refused:
        list(lammps.dump("frames.dump")(tmp_path))
    assert str(refused.value).startswith("frames.dump: ")


@pytest.mark.slow
def test_argon_is_stopped_over_the_bus_and_goes_on_from_a_frame(program: str, tmp_path: Path) -> None:
    """Without a kick, and with the equations of motion alone, a restarted segment repeats what followed its start."""
    run = tmp_path / "run"
    words = ("program=" + program, "kick=0", "melted=0", "steps=10000000", "frames=1000000", "every=20")
    settings = [word for setting in words for word in ("--set", setting)]
    driver = started("run", ARGON, *settings, "--workers", "1", "--run-dir", run, cwd=tmp_path)
    try:
        state = await_record(run, lambda state: state.frames > 20)
        assert state.walkers[0].segments[0].end is None, "its frames are there while it runs"
        processes = _running(program)
        assert len(processes) == 1

        people.tell(RunDirectory(run), ["pin", "w0.0:3"])
        again = state.walkers[0].segments[0]
        while again.start not in _pinned(run):  # starts that were chosen before come first
            people.tell(RunDirectory(run), ["stop", again.name])
            state = await_record(run, partial(_has_segment, again.number + 1))
            assert state.walkers[0].segments[again.number].how == "stopped"
            again = state.walkers[0].segments[again.number + 1]
        assert not processes & _running(program)
        await_record(run, lambda state: state.walkers[0].frames > again.first + 3)
        people.tell(RunDirectory(run), ["finish"])
        assert driver.wait(timeout=200) == 0
        assert not _running(program)
    finally:
        driver.terminate()
        driver.wait()

    directory, state = opened(run)
    first = state.walkers[0].segments[0]
    for after in range(3):
        then, now = (directory.frames.row("w0", row) for row in (first.first + 4 + after, again.first + after))
        box = (4 / 0.8442) ** (1 / 3) * 4
        apart = then["position"] - now["position"]
        np.testing.assert_allclose(apart - box * np.round(apart / box), 0, atol=1e-6)
        np.testing.assert_allclose(then["velocity"], now["velocity"], atol=1e-6)


def _has_segment(number: int, state: State) -> bool:
    return len(state.walkers[0].segments) > number


def _pinned(run: Path) -> set[int]:
    return {record.start for record in journal.read(run / "journal.jsonl", Start) if record.policy == "pin"}


def _running(program: str) -> set[int]:
    """Processes that run LAMMPS on the input of the workflow."""
    found = set()
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                command, state = (folder / "cmdline").read_bytes(), (folder / "stat").read_text().split()[2]
            except OSError:
                continue
            if b"in.argon" in command and b"lmp" in command and state != "Z":
                found.add(int(folder.name))
    return found
