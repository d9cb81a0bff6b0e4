"""Times, boxes and bonds as each format has them; what a format cannot hold is refused or said."""

import itertools
import shutil
import time
import warnings
from pathlib import Path

import numpy as np
import pytest
import xarray
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

import steersman
from steersman.apps import molecular_dynamics as md
from steersman.data import export
from steersman.data.errors import Unconverted
from steersman.data.export import _turned
from steersman.journal import file
from steersman.journal.run_directory import RunDirectory
from steersman.store import FRAME, BadVariable, DamagedGroup, GroupWriter, Variable
from steersman.system.errors import BadInput
from tests.data.conftest import FRAMES, REPORT_PS
from tests.export.test_export import read_back

MDAnalysis = pytest.importorskip("MDAnalysis")
PS = {"ps": 1.0, "picosecond": 1.0, "picoseconds": 1.0, "nanosecond": 1e3, "µs": 1e6, "ms": 1e9, "s": 1e12, "min": 6e13}


def in_unit(run: RunDirectory, unit: str) -> steersman.Run:
    """The same run, whose times are in another unit."""
    story = list(file.read(run.journal))
    file.rewrite(run.journal, [replace(story[0], time_unit=unit), *story[1:]])
    return steersman.open_run(run.path)


def with_box(run: RunDirectory, boxes: np.ndarray, unit: str = "nm") -> steersman.Run:
    """The same run, where w1 has a box in each frame: (2 * FRAMES, ...)."""
    dims = ("a", "b", "c")[: boxes.ndim - 1]
    return with_frames(run, {"box": boxes}, {"box": Variable(dims, unit, "box")})


def with_frames(
    run: RunDirectory, values: dict[str, np.ndarray], meaning: dict[str, Variable] | None = None
) -> steersman.Run:
    """The same run, where the frames of w1 have other values: (2 * FRAMES, ...) each."""
    stored = steersman.open_run(run.path).frames["w1"].to_dataset().load()
    shutil.rmtree(run.frames.path / "w1")
    writer = GroupWriter(run.frames.path / "w1", variables=md.VARIABLES | (meaning or {}))
    writer.extend(FRAME, {name: stored[name].values for name in ("time", "segment", "positions")} | values)
    writer.close()
    return steersman.open_run(run.path)


@pytest.mark.parametrize("unit", PS)
def test_times_are_converted_from_every_name_of_their_unit(unit: str, run: RunDirectory, tmp_path: Path) -> None:
    in_unit(run, unit).export(tmp_path / "a.nc", "w1.0")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        times = xarray.open_dataset(tmp_path / "a.nc", decode_times=False).time.values
    assert np.allclose(times, PS[unit] * REPORT_PS * np.arange(1, FRAMES + 1), rtol=1e-6)


@pytest.mark.parametrize("unit", ["1", "parsec", "tau"])
def test_an_unknown_unit_of_time_is_said(unit: str, run: RunDirectory, tmp_path: Path) -> None:
    with pytest.warns(Unconverted, match=unit):
        in_unit(run, unit).export(tmp_path / "a.xtc", "w1.0")
    with warnings.catch_warnings():
        warnings.simplefilter("error", Unconverted)
        steersman.open_run(run.path).export(tmp_path / "a.pdb", "w1.0")  # holds no times


@pytest.mark.parametrize(
    ("box", "unit", "angstrom"),
    [
        ([3.0, 4, 5], "nm", [30, 40, 50, 90, 90, 90]),
        ([30.0, 40, 50], "angstrom", [30, 40, 50, 90, 90, 90]),
        ([3.0, 4, 5, 60, 70, 80], "nm", [30, 40, 50, 60, 70, 80]),
        ([[3.0, 0, 0], [0, 4, 0], [0, 0, 5]], "1", [30, 40, 50, 90, 90, 90]),
    ],
)
def test_a_box_has_lengths_or_angles_too_or_vectors(
    box: list[float], unit: str, angstrom: list[float], run: RunDirectory, tmp_path: Path
) -> None:
    with_box(run, np.array([box] * 2 * FRAMES, np.float32), unit).export(tmp_path / "a.xtc", "w1.0")
    assert np.allclose(read_back(run.topology, tmp_path / "a.xtc")[2], angstrom, atol=1e-3)


@pytest.mark.parametrize(
    "box",
    [
        np.ones((1, 3)), np.ones((1, 3, 3)), np.float64(1.0), np.ones(9),
        np.array([[3.0, 0, 0], [0, 4, 0], [3, 4, 0]]),
    ],
)  # fmt: skip
def test_a_box_that_no_format_knows_is_refused_by_its_name(box: np.ndarray, run: RunDirectory, tmp_path: Path) -> None:
    opened = with_box(run, np.stack([box] * 2 * FRAMES))
    with pytest.raises(BadInput, match=r"box: .*(\(3,\)|enclose nothing)"):
        opened.export(tmp_path / "a.xtc", "w1.0")
    assert not list(tmp_path.glob("*a.xtc"))


def nearest(positions: np.ndarray, box: np.ndarray) -> np.ndarray:
    """Pairwise distances to the nearest images, by trying all of them."""
    apart = positions[:, None] - positions
    images = np.array(list(itertools.product(range(-3, 4), repeat=3))) @ box
    return np.asarray(np.linalg.norm(apart[:, :, None] + images, axis=-1).min(axis=-1))


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([1, -1]))
def test_a_turned_box_keeps_distances_to_images_and_the_hand_of_molecules(seed: int, hand: int) -> None:
    rng = np.random.default_rng(seed)
    box = np.diag(rng.uniform(2, 4, 3)) + np.tril(rng.uniform(-1, 1, (3, 3)), -1)
    turn = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    box, positions = (box @ turn)[rng.permutation(3)], rng.uniform(-3, 3, (6, 3))
    box *= hand * np.sign(np.linalg.det(box))
    found, turned = _turned(box, positions)
    assert np.allclose(np.triu(found, 1), 0, rtol=0, atol=1e-12)
    assert (np.diag(found) > 0).all()
    assert np.allclose(nearest(turned, found), nearest(positions, box), rtol=0, atol=1e-6)
    one, other = (float(np.linalg.det(each[1:4] - each[0])) for each in (turned, positions))
    assert one == pytest.approx(other, abs=1e-6), "no mirror image"
    again, same = _turned(found, turned)
    assert np.allclose(again, found, rtol=0, atol=1e-12)
    assert np.allclose(same, turned, rtol=0, atol=1e-12)


@pytest.mark.parametrize("box", [
    [[0.0, 3, 0], [4, 0, 0], [0, 0, 5]], [[3.0, 0, 1], [0, 4, 0], [0, 0, 5]], [[-3.0, 0, 0], [1, 4, 0], [0, 0, 5]],
])  # fmt: skip
def test_a_box_of_another_orientation_is_turned_with_the_positions(
    box: list[list[float]], run: RunDirectory, tmp_path: Path
) -> None:
    """Distances to the nearest images, as a program reads them in the file, are those of the frames."""
    opened = with_box(run, np.array([box] * 2 * FRAMES))
    stored = opened.frames["w1"].to_dataset()["positions"].values[0][:9].astype(float)
    opened.export(tmp_path / "a.dcd", "w1.0")
    positions, _, angles = read_back(run.topology, tmp_path / "a.dcd")
    written = MDAnalysis.lib.mdamath.triclinic_vectors(angles).astype(float)
    assert np.allclose(nearest(positions[0][:9], written), 10 * nearest(stored, np.array(box)), rtol=0, atol=1e-4)


def test_a_pdb_has_one_box(run: RunDirectory, tmp_path: Path) -> None:
    boxes = np.array([[3.0, 4, 5]] * 2 * FRAMES)
    boxes[2] *= 1.01
    opened = with_box(run, boxes)
    opened.export(tmp_path / "same.pdb", opened.scores.query("walker == 1 and row < 2"))
    with pytest.raises(BadInput, match="frame 2"):
        opened.export(tmp_path / "other.pdb", "w1.0")


@pytest.mark.parametrize(
    ("first", "apart"), [(0.1, 0.2), (0.2, 0.2), (7.5, 2.5), (0.02, 1.0), (1e6, 0.2), (2e6, 0.02), (0.0, 1.0)]
)
def test_a_dcd_begins_when_the_frames_do(first: float, apart: float, run: RunDirectory, tmp_path: Path) -> None:
    opened = steersman.open_run(run.path)
    chosen = opened.scores.query("segment == 'w1.0'").copy()
    chosen["time"] = first + apart * np.arange(len(chosen))
    opened.export(tmp_path / "a.dcd", chosen)
    assert np.allclose(read_back(run.topology, tmp_path / "a.dcd")[1], chosen["time"], rtol=1e-6, atol=1e-6)


def test_a_time_that_a_dcd_cannot_hold_is_refused(run: RunDirectory, tmp_path: Path) -> None:
    opened = steersman.open_run(run.path)
    chosen = opened.scores.query("segment == 'w1.0'").copy()
    chosen["time"] = 1e9 + 0.2 * np.arange(len(chosen))  # more steps than 31 bits count
    with pytest.raises(BadInput):
        opened.export(tmp_path / "a.dcd", chosen)


@pytest.mark.parametrize("suffix", ["xtc", "nc", "dcd"])
@pytest.mark.parametrize("apart", [[1, 1, 1], [0.2, 0.2, 0.2], [1, -1, 1], [3, 0, 50]])
@pytest.mark.parametrize("first", [0.2, 1e5, 1.7e7, 2e7, 1e9])
def test_times_are_as_far_apart_as_in_the_run_or_it_is_told(
    suffix: str, apart: list[float], first: float, run: RunDirectory, tmp_path: Path
) -> None:
    """Within 1 %; in single precision 20 microseconds are 2 ps apart from the next time."""
    opened = steersman.open_run(run.path)
    chosen = opened.scores.query("segment == 'w1.0'").copy()
    chosen["time"] = first + np.cumsum([0, *apart])
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", Unconverted)
        try:
            opened.export(tmp_path / f"a.{suffix}", chosen)
        except BadInput:
            said.append(None)  # type: ignore[arg-type]
    right = not said and np.allclose(np.diff(read_back(run.topology, tmp_path / f"a.{suffix}")[1]), apart, rtol=0.01)
    assert right or said
    assert not (said and first < 1e3 and (suffix != "dcd" or len({*apart}) == 1)), "what can be held is"


@pytest.mark.parametrize("suffix", ["xtc", "dcd", "nc", "pdb"])
@pytest.mark.parametrize("both", [False, True])
@pytest.mark.parametrize("far_nm", [99.0, 1.05e5, 1.5e5, 2.14e5, 2.15e5, 3e5, 1e20, 1e38])
def test_positions_are_where_they_were_or_refused(
    suffix: str, both: bool, far_nm: float, run: RunDirectory, tmp_path: Path
) -> None:
    """One atom is far out, or one more in the opposite direction: a run that blew up."""
    positions = steersman.open_run(run.path).frames["w1"].to_dataset()["positions"].values.copy()
    positions[1, 0] = far_nm
    positions[1, 1] = -far_nm if both else positions[1, 1]
    opened = with_frames(run, {"positions": positions})
    try:
        opened.export(tmp_path / f"a.{suffix}", "w1.0")
    except BadInput:
        assert (far_nm > 99 and suffix in ("xtc", "pdb")) or far_nm > 1e37
    else:
        written = read_back(run.topology, tmp_path / f"a.{suffix}")[0]
        assert np.allclose(written, 10 * positions[:FRAMES], rtol=1e-6, atol=2e-3)


def test_bonds_of_atoms_from_100_000_on_do_not_hinder_an_export(run: RunDirectory, tmp_path: Path) -> None:
    """OpenMM writes their numbers with letters; those that are numbers stay."""
    text = run.topology.read_text()
    run.topology.write_text(text.replace("END\n", "CONECT    1    2\nCONECTA00CAA00CB\nCONECT   1AA00CB\nEND\n"))
    opened = steersman.open_run(run.path)
    for suffix in ("xtc", "pdb"):
        opened.export(tmp_path / f"a.{suffix}", "w1.0")
    assert "CONECT" in (tmp_path / "a.pdb").read_text()


def test_netcdf_costs_a_frame_what_it_costs(run: RunDirectory, tmp_path: Path) -> None:
    """Four times the frames take less than eight times as long; rewriting the file for each frame takes sixteen."""
    opened = steersman.open_run(run.path)
    row = opened.scores[:1]
    took = []
    for number in (250, 1000):
        began = time.process_time()
        opened.export(tmp_path / f"{number}.nc", row.iloc[[0] * number])
        took.append(time.process_time() - began)
    assert took[1] < 8 * took[0]


def test_frames_of_different_molecules_are_not_put_into_one_file(run: RunDirectory, tmp_path: Path) -> None:
    shutil.rmtree(run.frames.path / "w1")
    writer = GroupWriter(run.frames.path / "w1", variables=md.VARIABLES)
    positions = np.zeros((2 * FRAMES, 2, 3), np.float32)
    frames = {"time": np.arange(2.0 * FRAMES), "segment": np.zeros(2 * FRAMES, np.int32), "positions": positions}
    writer.extend(FRAME, frames)
    writer.close()
    opened = steersman.open_run(run.path)
    with pytest.raises(BadVariable):
        opened.export(tmp_path / "a.xtc", opened.scores)


def test_a_group_that_was_damaged_is_called_so(run: RunDirectory, tmp_path: Path) -> None:
    opened = steersman.open_run(run.path)
    for text in ("{", "{}", "[]", '{"attributes": {}, "consolidated_metadata": {"metadata": {"x": 1}}}'):
        (run.frames.path / "w1" / "zarr.json").write_text(text)
        with pytest.raises(DamagedGroup):
            opened.export(tmp_path / "a.xtc", "w1.0")


def test_a_mistake_is_not_called_damage(run: RunDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only what cannot be read or decoded is."""
    opened = steersman.open_run(run.path)
    for mistake in (TypeError, ValueError, KeyError):

        def wrong(*_: object, kind: type[Exception] = mistake) -> None:
            raise kind

        monkeypatch.setattr(export, "_universe", wrong)
        with pytest.raises(mistake):
            opened.export(tmp_path / "a.xtc", "w1.0")
