"""The film of a lineage: each frame as it was stored, molecules turned onto each other, crystals in their box."""

from __future__ import annotations

import shutil
from typing import Any

import numpy as np
import pytest

from steersman.dashboard.live import frame
from steersman.dashboard.live.packing import packed
from steersman.dashboard.live.watched import Watched
from steersman.data.errors import NothingToDraw
from steersman.data.history import History
from steersman.data.stored import StoredVariable
from steersman.journal.run_directory import RunDirectory
from steersman.store import FRAME, Frames, GroupWriter, Span, Variable
from tests.dashboard.serving import unpacked


def crystal(cell: list[float], residue: str = "NA") -> str:
    """Two atoms of a PDB file, each a residue, in a box: lengths in angstrom, and angles."""
    atom = "HETATM{0:5d} NA   {1:3} A{0:4d}       0.000   0.000   0.000  1.00  0.00          NA\n"
    box = "CRYST1{:9.3f}{:9.3f}{:9.3f}{:7.2f}{:7.2f}{:7.2f} P 1           1\n".format(*cell)
    return box + atom.format(1, residue) + atom.format(2, residue)


def test_a_film_shows_the_frames_of_the_lineage_in_order(watched: Watched) -> None:
    table = watched.table
    walker, row = int(table.walker[-1]), int(table.end[-1]) - 1
    meta, film = unpacked(frame.film(watched, walker, row, "energy", most=500))
    chain = frame.lineage(watched, walker, row)
    wanted = np.concatenate([
        watched.directory.frames.read("energy", Span(f"w{w}", int(table.first[s]), r + 1))
        for s, w, r in chain
    ])  # fmt: skip
    np.testing.assert_allclose(film["values"], wanted, rtol=1e-6)
    assert meta["names"][-1] == f"{table.name(len(table) - 1)}:{row - int(table.first[-1])}"
    _, some = unpacked(frame.film(watched, walker, row, "energy", most=4))
    assert some["values"][-1] == film["values"][-1]
    assert len(some["values"]) == 4


def test_a_molecule_is_turned_onto_the_last_frame_and_keeps_its_shape() -> None:
    """Any rotation and shift of one structure gives the same structure again."""
    rng = np.random.default_rng(3)
    one = rng.normal(size=(9, 3))
    turn, _ = np.linalg.qr(rng.normal(size=(3, 3)))
    turn *= np.sign(np.linalg.det(turn))
    both = frame.superposed(np.stack([one @ turn + 4.0, one]))
    np.testing.assert_allclose(both[0], both[1], atol=1e-12)


@pytest.mark.parametrize(
    ("pdb", "wanted"),
    [
        (crystal([5.64, 5.64, 5.64, 90, 90, 90]), np.diag([5.64] * 3)),
        (crystal([3, 3, 5, 90, 90, 120]), [[3, 0, 0], [-1.5, 1.5 * np.sqrt(3), 0], [0, 0, 5]]),
        (crystal([1, 1, 1, 90, 90, 90]), None),
        (crystal([5, 5, 5, 30, 30, 90]), None),
        (crystal([5, 5, 5, 90, 90, 90], "ALA"), None),
        ("ATOM      1 NA   NA  A   1       0.000   0.000   0.000  1.00  0.00          NA\n", None),
    ],
)  # fmt: skip
def test_the_box_of_a_crystal_is_that_of_its_file_and_a_protein_has_none(pdb: str, wanted: Any) -> None:
    found = frame.cell(pdb)
    assert bool(found) == (wanted is not None)
    if wanted is not None:
        np.testing.assert_allclose(found["box"], wanted, atol=1e-9)
        assert found["single"]


def test_atoms_of_a_crystal_lie_where_they_are_in_their_box(watched: Watched) -> None:
    """A protein's frames are turned onto each other; a box could not be drawn around these."""
    table = watched.table
    walker, row = int(table.walker[-1]), int(table.end[-1]) - 1
    stored = watched.directory.frames.row(f"w{walker}", row)["positions"]
    watched.directory.topology.write_text(crystal([30, 30, 30, 90, 90, 90]))
    meta, film = unpacked(frame.film(watched, walker, row, "positions"))
    assert meta["box"]
    np.testing.assert_allclose(film["values"][-1], 10 * stored, rtol=1e-6)
    watched.directory.topology.write_text(crystal([30, 30, 30, 90, 90, 90], "ALA"))
    meta, film = unpacked(frame.film(watched, walker, row, "positions"))
    assert "box" not in meta
    np.testing.assert_allclose(film["values"][-1].mean(axis=0), 0, atol=1e-5)


def test_atoms_whose_species_frames_hold_need_no_topology(finished: RunDirectory) -> None:
    """They lie in the cell that their frame has, however that is turned."""
    cell, frames = 2.0 - 2.0 * np.eye(3), finished.frames
    for name in frames.walkers():
        rows = Span(name, 0, frames.count(name))
        kept = {each: frames.read(each, rows) for each in ("time", "segment", "positions")}
        numbers = np.tile(np.array([29, 79, *[1] * 10], np.int16), (rows.rows, 1))
        shutil.rmtree(frames.path / name)
        units = {"positions": Variable(("atom", "xyz"), "nm"), "cell": Variable(("vector", "xyz"), "nm")}
        writer = GroupWriter(frames.path / name, variables=units)
        writer.extend(FRAME, {**kept, "numbers": numbers, "cell": np.tile(cell, (rows.rows, 1, 1))})
        writer.close()
    watched = Watched.of(History(finished))
    walker, row = int(watched.table.walker[-1]), int(watched.table.end[-1]) - 1
    assert frame.frame(watched, walker, row)["topology"]
    lines = frame.topology(watched).decode().splitlines()
    assert [line[76:78].strip() for line in lines] == ["Cu", "Au", *["H"] * 10]
    assert {len(line) for line in lines} == {78}
    meta, film = unpacked(frame.film(watched, walker, row, "positions"))
    np.testing.assert_allclose(meta["box"], 10 * cell)
    stored = Frames(frames.path).row(f"w{walker}", row)["positions"]
    np.testing.assert_allclose(film["values"][-1], 10 * stored, rtol=1e-6)


def test_packed_columns_keep_shape_and_values() -> None:
    given = {
        "a": np.arange(6, dtype=np.int32).reshape(2, 3),
        "b": np.array([1.5, np.nan]),
        "c": np.arange(3, dtype=np.uint8),
    }
    meta, found = unpacked(packed({"x": 1}, **given))
    assert meta == {"x": 1}
    for name, column in given.items():
        np.testing.assert_array_equal(found[name], column)
        assert found[name].shape == column.shape


@pytest.mark.parametrize(
    ("shape", "planes"),
    [
        ((2, 6, 7), [np.s_[0, :, :], np.s_[1, :, :]]),  # channels first
        ((6, 7, 2), [np.s_[:, :, 0], np.s_[:, :, 1]]),  # or last
        ((9, 6, 7), [np.s_[4, :, :]]),  # of a volume the middle
        ((2, 9, 6, 7), [np.s_[0, 4, :, :], np.s_[1, 4, :, :]]),
        ((6, 7), [np.s_[:, :]]),
        ((3, 3, 3), [np.s_[0, :, :], np.s_[1, :, :], np.s_[2, :, :]]),
    ],
    ids=str,
)
def test_what_has_more_axes_is_shown_in_planes(
    shape: tuple[int, ...], planes: list[Any], watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = np.random.default_rng(1).normal(size=shape).astype(np.float32)
    stored = StoredVariable("field", shape, "f", "K", "heat", tuple("dcba"[-len(shape) :]))
    monkeypatch.setattr(frame, "variables", lambda history: {"field": stored})
    monkeypatch.setattr(Frames, "row", lambda self, walker, row: {"field": values})
    shown = frame.frame(watched, 0, 5)["variables"]
    films = [unpacked(frame.film(watched, 0, 5, each["name"], most=1)) for each in shown]
    assert {each["view"] for each in shown} == {"image"}
    assert len({meta["label"] for meta, _ in films}) == len(planes) == len(films)
    for (_, found), plane in zip(films, planes, strict=True):
        np.testing.assert_array_equal(found["values"][0], values[plane])


@pytest.mark.parametrize("dtype", ["?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", ">i2", ">u4"])
def test_a_film_shows_numbers_of_every_type_as_they_were_stored(
    dtype: str, watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    """300 photons are not 44."""
    kind = np.dtype(dtype)
    most = 1 if kind.kind == "b" else np.finfo(kind).max if kind.kind == "f" else min(np.iinfo(kind).max, 2**53)
    stored = np.array([0, 1, most]).astype(kind)
    monkeypatch.setattr(Frames, "row", lambda self, walker, row: {"energy": stored})
    _, film = unpacked(frame.film(watched, 0, 5, "energy", most=1))
    np.testing.assert_array_equal(film["values"][0], stored)


def test_of_complex_numbers_a_film_shows_the_absolute_value_and_of_dates_none(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: dict[str, Any] = {"energy": np.array([3 + 4j])}
    monkeypatch.setattr(Frames, "row", lambda self, walker, row: given)
    meta, film = unpacked(frame.film(watched, 0, 5, "energy"))
    assert film["values"][0] == [5.0]
    assert "absolute value" in meta["label"]
    given["energy"] = np.array(["2020-01-01"], "M8[D]")
    with pytest.raises(NothingToDraw):
        frame.film(watched, 0, 5, "energy")
    for odd in (np.ones(2, complex), given["energy"], np.array(["a"])):
        with pytest.raises(TypeError):
            packed({}, odd=odd)
