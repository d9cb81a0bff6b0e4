"""GROMACS as a walker: segments that continue are one long run, and a segment may begin at any frame."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.random import Generator

from steersman.apps import gromacs
from steersman.apps.errors import CommandFailed
from steersman.apps.gromacs import Frame, System
from steersman.apps.periodic import nearest_image
from steersman.apps.trr import HEADER, Snapshot, frame_bytes, trajectory
from steersman.stages.start import Start
from steersman.system.errors import BadInput, BadValue, EngineError
from tests.apps import debian

DODECAHEDRON = np.array([[2, 0, 0], [0, 2, 0], [1, 1, 2**0.5]], np.float32)
TOPOLOGY = """
#include "oplsaa.ff/forcefield.itp"
#include "oplsaa.ff/spc.itp"
[ system ]
water
[ molecules ]
SOL 216
"""
EDGE = 1.86206  # nm, of spc216.gro
NVE = """
integrator = md  ; nothing at random
nsteps = {steps}
dt = 0.002
nstxout = {every}
cutoff-scheme = Verlet
rcoulomb = 0.8
rvdw = 0.8
coulombtype = PME
gen_temp = 300
"""
SD = NVE.replace("integrator = md", "integrator = sd") + "tc-grps = System\ntau_t = 0.5\nref-t = 300\n"


@pytest.fixture
def rng() -> Generator:
    return np.random.default_rng(1)


def arrays(rng: Generator, atoms: int = 3) -> dict[str, np.ndarray]:
    return {name: rng.normal(size=(atoms, 3)).astype(np.float32) for name in ("positions", "velocities")}


def test_a_trr_is_read_while_it_is_written(tmp_path: Path, rng: Generator) -> None:
    """Each frame once, whole, in order, wherever the writing was when it was read; bit for bit."""
    read, frames = trajectory("run*.trr"), [arrays(rng) for _ in range(3)]
    assert list(read(tmp_path)) == [], "not there yet"
    data, seen = b"".join(frame_bytes(DODECAHEDRON, **each) for each in frames), list[Snapshot]()
    with (tmp_path / "run.part0002.trr").open("wb", buffering=0) as file:
        for at in range(0, len(data), 17):
            file.write(data[at : at + 17])
            seen += list(read(tmp_path))
    for found, each in zip(seen, frames, strict=True):
        np.testing.assert_array_equal(found.box, DODECAHEDRON)
        np.testing.assert_array_equal(found.positions, each["positions"])
        np.testing.assert_array_equal(found.velocities, each["velocities"])
        assert found.data == frame_bytes(DODECAHEDRON, **each)


def test_another_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "run.trr").write_bytes(b"\0\0\x07\xcb" + bytes(200))  # as a .xtc begins
    with pytest.raises(EngineError, match=r"run\.trr"):
        list(trajectory("run.trr")(tmp_path))


@given(st.integers(2, 12), st.integers(0, 2**32 - 1))
def test_molecules_are_made_whole(atoms: int, seed: int) -> None:
    """A tree of bonds with a ring and a single atom, its atoms wrapped into the box one by one."""
    rng = np.random.default_rng(seed)
    bonds = np.array([(rng.integers(i), i) for i in range(1, atoms)])
    whole = np.zeros((atoms, 3))
    for i, j in bonds:
        whole[j] = whole[i] + 0.1 * rng.normal(size=3).clip(-1, 1)
    bonds = np.concatenate([bonds[:, ::-1], [(0, atoms - 1)]])[rng.permutation(atoms)]
    wrapped = np.concatenate([whole + rng.integers(-2, 3, (atoms, 3)) @ DODECAHEDRON, [[0.3, 0.2, 0.1]]])
    found = gromacs._whole(wrapped, DODECAHEDRON, gromacs._layers(atoms + 1, bonds))
    np.testing.assert_allclose(found[:-1] - found[0], whole - whole[0], atol=2e-6)
    np.testing.assert_allclose(found[[0, -1]], wrapped[[0, -1]], atol=1e-6)
    np.testing.assert_array_equal(gromacs._whole(wrapped, np.zeros((3, 3)), []), wrapped.astype(np.float32))


def test_what_a_segment_sets_stands_once_however_the_settings_spell_it() -> None:
    text = "GEN_VEL = no\nNsteps=100 ; of 2 fs\nnstxout = 50\nref_t = 310 320\ncontinuation = yes\n; nsteps = 7"
    made = gromacs._Plan.of(text, 5).settings(first=300, drawn=True)
    found = [option for option in map(gromacs._option, made.splitlines()) if option]
    assert len(dict(found)) == len(found)
    values = dict(found)
    assert (values["nsteps"], values["nstvout"], values["genseed"]) == ("400", "50", "5")
    assert (values["genvel"], values["continuation"], values["gentemp"]) == ("yes", "no", "310")


@pytest.mark.parametrize(
    ("text", "setting"),
    [
        ("nstxout = 5", "nsteps"),
        ("nsteps = 12\nnstxout = 5", "nsteps"),
        ("nsteps = -1\nnstxout = 5", "nsteps"),
        ("nsteps = 10\nnstxout-compressed = 5", "nstxout"),
        ("nsteps = 10\nnstxout = 0", "nstxout"),
        ("nsteps = 10\nnstxout = 5\nintegrator = steep", "integrator"),
    ],
)
def test_settings_without_whole_frames_are_refused(text: str, setting: str) -> None:
    with pytest.raises(BadValue) as told:
        gromacs.run(Start(System({}, 3, [], "")), text, seed=1)
    assert told.value.name == setting


def test_a_start_that_would_be_simulated_wrongly_is_refused(rng: Generator, tmp_path: Path) -> None:
    """Before any program begins: there is none of that name."""
    system, settings = System({}, 3, [], ""), SD.format(steps=10, every=5)
    frame = {"box": DODECAHEDRON, **arrays(rng)}

    def begin(settings: str = settings, frame: dict[str, Any] = frame, seed: int = 1, bias: Any = None) -> None:
        start = Start(system, frame=frame, bias=bias)
        list(gromacs.run(start, settings, seed=seed, grompp=["no-such-program"]))

    for name in ("box", "positions"):
        for odd in ({name: frame[name][:2]}, {name: None}):
            given = {key: value for key, value in {**frame, **odd}.items() if value is not None}
            with pytest.raises(BadInput) as told:
                begin(frame=given)
            assert told.value.values["variable"] == name
    with pytest.raises(BadValue, match="seed31"):
        begin(seed=2**31)
    with pytest.raises(BadValue, match="bias"):
        begin(bias=object())
    with pytest.raises(TypeError, match="dict"):
        gromacs.run(Start({}), settings, seed=1)
    with pytest.raises(BadValue, match="gen-temp"):
        begin("nsteps = 10\nnstxout = 5", {"box": DODECAHEDRON, "positions": frame["positions"]})


def test_the_state_is_that_of_the_last_frame_whenever_the_segment_is_stopped(tmp_path: Path, rng: Generator) -> None:
    """Also if mdrun has made its last step, left an older checkpoint, and counts beyond the 32 bits of a .trr."""
    first, steps, data = 2**31 - 4, (0, 4, 8), []
    for step in steps:
        frame = np.frombuffer(bytearray(frame_bytes(DODECAHEDRON, **arrays(rng))), np.uint8)
        frame[: HEADER.itemsize].view(HEADER)["step"] = np.int64(first + step).astype(np.int32)
        data.append(frame.tobytes())
    (tmp_path / "frames").write_bytes(b"".join(data))
    for then, asks, state in (
        ("exec sleep 100", True, {"frame": data[-1]}),
        ("", False, {"checkpoint": b"old\n", "step": first + 8}),
    ):
        found: list[Frame] = []
        script = f"echo old > after.cpt; cat {tmp_path}/frames > run.part0002.trr; {then}"
        start = Start(System({}, 3, [], ""), state={"checkpoint": b"before", "step": first})
        given: dict[str, Any] = {
            "grompp": ["true"],
            "mdrun": ["sh", "-c", script],
            "stop": lambda seen=found, asks=asks: asks and bool(seen),
        }
        for each in gromacs.run(start, SD.format(steps=8, every=4), seed=1, **given):
            found.append(each)
        assert [each.time for each in found] == pytest.approx([0.008, 0.016])
        assert [each.state for each in found] == [{"frame": data[1]}, state]


@pytest.fixture(scope="module")
def gmx(tmp_path_factory: pytest.TempPathFactory) -> str:
    return debian.program("gmx", "gromacs", tmp_path_factory.mktemp("gromacs"))


@pytest.fixture(scope="module")
def water(gmx: str, tmp_path_factory: pytest.TempPathFactory) -> System:
    folder = tmp_path_factory.mktemp("water")
    gromacs.tool(folder, gmx, "solvate", "-cs", "spc216.gro", "-box", *[str(EDGE)] * 3, "-o", "conf.gro")
    (folder / "topol.top").write_text(TOPOLOGY)
    return gromacs.system(folder, SD.format(steps=10, every=5), grompp=[gmx, "grompp"])


def segment(
    gmx: str, start: Start, settings: str, steps: int, every: int, seed: int = 1, most: int = 10**9
) -> list[Frame]:
    """Frames of a segment, which is stopped after so many."""
    frames: list[Frame] = []
    given: dict[str, Any] = {"grompp": [gmx, "grompp"], "mdrun": [gmx, *gromacs.MDRUN[1:], "-reprod"]}
    text = settings.format(steps=steps, every=every)
    for frame in gromacs.run(start, text, seed=seed, **given, stop=lambda: len(frames) >= most):
        frames.append(frame)
    return frames


def of(frame: Frame, *names: str) -> dict[str, np.ndarray]:
    return {name: getattr(frame, name) for name in names}


def apart(one: Frame, two: Frame) -> float:
    """The largest distance between an atom of one frame and the same of the other, nm."""
    return float(np.linalg.norm(nearest_image(one.positions - two.positions, one.box), axis=1).max())


@pytest.mark.slow
def test_segments_that_continue_are_one_long_run(gmx: str, water: System) -> None:
    """Bit for bit with a thermostat of equal seeds; without one, as float32 goes: grompp chooses other buffers."""
    for settings, tolerance in ((SD, 0.0), (NVE, 2e-4)):
        long, frames = segment(gmx, Start(water), settings, 300, 50), list[Frame]()
        for _ in range(3):
            start = Start(water, frame={"odd": np.zeros(1)}, state=frames[-1].state) if frames else Start(water)
            frames += segment(gmx, start, settings, 100, 50)
        assert [frame.time for frame in frames] == pytest.approx([0.1, 0.2] * 3)
        assert [frame.time for frame in long] == pytest.approx(np.arange(1, 7) / 10)
        assert max(map(apart, long[:4], frames)) <= tolerance
        if not tolerance:
            assert max(map(apart, long, frames)) == 0
            for one, two in zip(long, frames, strict=True):
                np.testing.assert_array_equal(one.velocities, two.velocities)
            other = segment(gmx, Start(water, state=frames[1].state), settings, 50, 50, seed=2)
            assert apart(other[0], long[2]) > 0.01, "another seed, another noise"


@pytest.mark.slow
def test_a_segment_begins_at_any_frame_with_its_positions_box_and_velocities(gmx: str, water: System) -> None:
    long = segment(gmx, Start(water), NVE, 200, 20)
    frame, after = long[3], long[4]
    kept = segment(gmx, Start(water, frame=of(frame, "positions", "box", "velocities")), NVE, 20, 20)[0]
    assert apart(kept, after) < 1e-4
    drawn = [segment(gmx, Start(water, frame=of(frame, "positions", "box")), NVE, 1, 1, seed)[0] for seed in (1, 1, 2)]
    assert apart(*drawn[:2]) == 0
    for each in drawn:
        moved = nearest_image(each.positions - frame.positions, frame.box)
        np.testing.assert_allclose(moved, each.velocities * 0.002, atol=1e-5)  # leap-frog: of the half step before
    assert np.abs(drawn[0].velocities - drawn[2].velocities).max() > 1
    masses = np.tile([16.0, 1.0, 1.0], 216)
    kelvin = (masses[:, None] * drawn[0].velocities.astype(float) ** 2).sum() / (6 * 216 - 3) / 0.0083144626
    assert kelvin == pytest.approx(300, rel=0.15)

    wider = {"positions": frame.positions * np.float32(1.01), "box": frame.box * np.float32(1.01)}
    expanded = segment(gmx, Start(water, frame=wider), NVE, 1, 1)[0]
    np.testing.assert_allclose(expanded.box, wider["box"], rtol=1e-6)


@pytest.mark.slow
def test_a_segment_that_was_stopped_continues_from_its_last_frame(gmx: str, water: System) -> None:
    """mdrun's checkpoint is of a later step."""
    stopped = segment(gmx, Start(water), NVE, 100_000, 20, most=3)
    assert 3 <= len(stopped) < 5_000
    end = stopped[-1]
    assert set(end.state) == {"frame"}
    again = segment(gmx, Start(water, state=stopped[1].state), NVE, 20, 20)
    assert apart(again[0], stopped[2]) < 1e-4
    whole = segment(gmx, Start(water, state=end.state), NVE, 20, 20)
    assert set(whole[-1].state) == {"checkpoint", "step"}


@pytest.mark.slow
def test_molecules_of_a_frame_are_whole(gmx: str, water: System) -> None:
    frame = segment(gmx, Start(water), SD, 50, 50)[0]
    waters = frame.positions.reshape(216, 3, 3)
    np.testing.assert_allclose(np.linalg.norm(waters[:, 1:] - waters[:, :1], axis=2), 0.1, atol=1e-5)
    assert water.pdb.count("\nATOM") == water.atoms == 648


@pytest.mark.slow
def test_what_gromacs_says_of_an_error_is_quoted(gmx: str, water: System) -> None:
    with pytest.raises(CommandFailed) as told:
        segment(gmx, Start(water), SD + "nstlist = many\n", 10, 5)
    assert "nstlist" in told.value.tail
    with pytest.raises(CommandFailed) as told:
        list(
            gromacs.run(
                Start(water), SD.format(steps=10, every=5), seed=1, grompp=[gmx, "grompp"], mdrun=[gmx, "mdrun", "-odd"]
            )
        )
    assert "-odd" in told.value.tail
