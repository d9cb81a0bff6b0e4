"""What is exported is what was stored: other programs read it back, and half of a file is never there."""

import contextlib
import json
import shutil
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
import xarray

import steersman
from steersman import models
from steersman.apps.molecular_dynamics.molecule import Molecule
from steersman.cli.__main__ import main
from steersman.data import choice, export
from steersman.data.clusters import of_score
from steersman.data.errors import Unconverted
from steersman.data.export import _plain
from steersman.data.history import History
from steersman.journal import records
from steersman.journal.file import Journal
from steersman.journal.run_directory import RunDirectory
from steersman.store import FRAME, GroupWriter
from steersman.store.errors import MissingVariable
from steersman.system.errors import BadInput, BadValue, MissingExtra, UnknownName
from tests.data.conftest import FRAMES, REPORT_PS

ANGSTROM, TOLERANCE_A = 10.0, 1e-3
MDAnalysis = pytest.importorskip("MDAnalysis")


def read_back(topology: Path, file: Path) -> tuple[np.ndarray, np.ndarray, Any]:
    """Coordinates in Angstrom, times in ps and the first box, as MDAnalysis reads them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        universe = MDAnalysis.Universe(str(topology), str(file))
        steps = [(step.positions.copy(), step.time) for step in universe.trajectory]
        universe.trajectory[0]
        return np.array([x for x, _ in steps]), np.array([t for _, t in steps]), universe.dimensions


@pytest.mark.parametrize("suffix", ["xtc", "dcd", "pdb", "nc"])
def test_a_lineage_is_read_back_by_mdanalysis(suffix: str, run: RunDirectory, tmp_path: Path) -> None:
    opened, file = steersman.open_run(run.path), tmp_path / f"out.{suffix}"
    opened.export(file, "w1.1")
    stored = opened.lineage("w1.1")
    positions, times, _ = read_back(run.topology, file)
    assert np.abs(positions - ANGSTROM * stored.positions.values).max() <= TOLERANCE_A
    if suffix != "pdb":
        assert np.allclose(times, stored.time, atol=1e-5)
    assert not list(tmp_path.glob("*partial*"))


@pytest.mark.parametrize("suffix", ["xtc", "dcd", "pdb", "nc"])
def test_the_box_goes_with_the_frames(suffix: str, run: RunDirectory, tmp_path: Path) -> None:
    """Of the topology; or that of each frame, where frames have one."""
    boxed = "CRYST1   30.000   31.000   32.000  90.00  90.00  90.00 P 1           1\n"
    text = "".join(line for line in run.topology.read_text().splitlines(True) if not line.startswith("CRYST1"))
    run.topology.write_text(boxed + text)
    steersman.open_run(run.path).export(tmp_path / f"out.{suffix}", "w1.1")
    _, _, box = read_back(run.topology, tmp_path / f"out.{suffix}")
    if suffix == "pdb":  # MDAnalysis reads the box of a .pdb from where the topology is
        assert (tmp_path / "out.pdb").read_text().count("CRYST1   30.000   31.000   32.000") >= 1
    else:
        assert np.allclose(box, [30, 31, 32, 90, 90, 90], atol=1e-3)


def test_a_box_of_each_frame_is_written(tmp_path: Path, molecule: Molecule, run: RunDirectory) -> None:
    stored = steersman.open_run(run.path).frames["w1"].to_dataset().load()
    shutil.rmtree(run.frames.path / "w1")
    writer = GroupWriter(run.frames.path / "w1", variables=export_variables())
    names = ("time", "segment", "positions")
    boxes = np.array([[3.0 + i, 0, 0, 0, 4, 0, 0, 0, 5] for i in range(2 * FRAMES)], np.float32).reshape(-1, 3, 3)
    writer.extend(FRAME, {name: stored[name].values for name in names} | {"box": boxes})
    writer.close()
    steersman.open_run(run.path).export(tmp_path / "out.xtc", "w1.0")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        universe = MDAnalysis.Universe(str(run.topology), str(tmp_path / "out.xtc"))
        lengths = [step.dimensions[:3].tolist() for step in universe.trajectory]
    assert np.allclose(lengths, [[30 + 10 * i, 40, 50] for i in range(FRAMES)], atol=1e-3)


def test_times_that_are_not_known_are_told(tmp_path: Path, run: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    """As of what follows a segment that was lost; a run without `time` has none, and needs no word."""
    history, chosen = History(run), steersman.open_run(run.path).scores.copy()
    for unknown, told in ((slice(0, 3), True), (slice(None), False)):
        chosen.loc[chosen.index[unknown], "time"] = np.nan
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            export._Atoms(history, chosen, run.topology)
        assert any(issubclass(each.category, Unconverted) for each in caught) is told


def export_variables() -> Any:
    from steersman.apps import molecular_dynamics as md
    from steersman.store import Variable

    return md.VARIABLES | {"box": Variable(("xyz", "xyz2"), "nm", "box vectors")}


@pytest.fixture
def command(run: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """`steersman export RUN ...`: its exit code."""

    def call(*words: object) -> int:
        monkeypatch.setattr(sys, "argv", ["steersman", "export", str(run.path), *map(str, words)])
        with pytest.raises(SystemExit) as end:
            main()
        return int(end.value.code or 0)

    return call


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (["w1.1", "--lineage"], slice(None)),
        (["w1.1", "--range", "2:8", "--lineage"], slice(2, 8)),
        (["w1.1", "--range", "-3:", "--lineage"], slice(-3, None)),
        (["w1.1", "--stride", "4", "--lineage"], slice(None, None, 4)),
        (["w1.1", "--range", "1:", "--stride", "3", "--lineage"], slice(1, None, 3)),
    ],
)
def test_a_range_and_a_stride_are_those_of_the_lineage(
    words: Sequence[str],
    wanted: slice,
    command: Callable[..., int],
    run: RunDirectory,
    tmp_path: Path,
) -> None:
    assert command(*words, tmp_path / "out.xtc") == 0
    stored = steersman.open_run(run.path).lineage("w1.1").isel(frame=wanted)
    positions, times, _ = read_back(run.topology, tmp_path / "out.xtc")
    assert np.abs(positions - ANGSTROM * stored.positions.values).max() <= TOLERANCE_A
    assert np.allclose(times, stored.time, atol=1e-5)


@pytest.mark.parametrize(
    ("words", "query"),
    [
        (["--score", "error=2:5"], "2 <= error <= 5"),
        (["--score", "error=:1", "--score", "z_0=1"], "error <= 1 and z_0 == 1"),
        (["w0.1"], "segment == 'w0.1'"),
        (["w0.1", "--score", "error=6:"], "segment == 'w0.1' and error >= 6"),
        (["--cluster", "0/2"], "cluster == 0"),
        (["--cluster", "1/2", "--by", "error"], "by_error == 1"),
    ],
)
def test_frames_are_chosen_by_their_scores(
    words: Sequence[str],
    query: str,
    command: Callable[..., int],
    run: RunDirectory,
    tmp_path: Path,
) -> None:
    opened = steersman.open_run(run.path)
    scores = opened.scores.assign(cluster=opened.clusters(2), by_error=opened.clusters(2, by="error"))
    chosen = scores.query(query)
    assert 0 < len(chosen) < len(scores)
    assert command(*words, "--frames", tmp_path / "out.nc") == 0
    positions, times, _ = read_back(run.topology, tmp_path / "out.nc")
    stored = np.stack([opened.frame(int(i)).positions.values for i in chosen.index])
    assert np.abs(positions - ANGSTROM * stored).max() <= TOLERANCE_A
    assert np.allclose(times, chosen["time"], atol=1e-5)


def test_what_no_frame_fits_is_named(run: RunDirectory) -> None:
    history = History(run)
    with pytest.raises(BadInput) as told:
        choice.of_scores(history, segment="w1.1", scores=["error=1e9:", "z_0=1e9"], cluster="1/2")
    assert all(words in str(told.value) for words in ("w1.1", "error=1e9:", "z_0=1e9", "1/2"))
    with pytest.raises(BadInput) as told:
        choice.part(choice.of_scores(history), "999999:", 1)
    assert "999999:" in str(told.value)


def test_a_score_whose_name_begins_with_that_of_another_is_none_of_its_columns() -> None:
    columns = ["z_0", "z_1", "z_10", "z_error", "z_0_error", "z_", "zz_0", "other"]
    assert of_score("z", columns) == ["z_0", "z_1", "z_10"]
    assert of_score("z_error", columns) == ["z_error"]


def test_clusters_are_from_the_largest_to_the_smallest_and_always_the_same(run: RunDirectory) -> None:
    opened = steersman.open_run(run.path)
    found = opened.clusters(3)
    sizes = found[found >= 0].value_counts().sort_index()
    assert sizes.is_monotonic_decreasing
    assert (found == opened.clusters(3)).all()
    assert (found[opened.scores["error"].isna()] == -1).all()


def test_every_table_is_written_as_csv_and_parquet(
    run: RunDirectory,
    command: Callable[..., int],
    tmp_path: Path,
) -> None:
    folder = tmp_path / "tables"
    assert command("--tables", folder) == 0
    opened = steersman.open_run(run.path)
    for name in ("segments", "decisions", "models", "failures", "metrics", "scores"):
        table = getattr(opened, name)
        assert pandas.read_parquet(folder / f"{name}.parquet").equals(table)
        assert len(pandas.read_csv(folder / f"{name}.csv")) == len(table)
    assert json.loads((folder / "units.json").read_text())["scores"] == {"time": "ps"}
    assert json.loads((folder / "state.json").read_text())["outcome"] == "goal"
    assert command("--tables", folder) == 2
    assert command("--tables", folder, "--overwrite") == 0


def test_what_cannot_be_written_leaves_nothing(
    run: RunDirectory,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    opened, out = steersman.open_run(run.path), tmp_path / "out"
    out.mkdir()
    (tmp_path / "there.xtc").write_text("mine")
    with pytest.raises(BadInput) as told:
        opened.export(tmp_path / "there.xtc", "w1.1")
    assert not {"--overwrite", "overwrite=True"} & set(str(told.value).split()), "one word for the shell and Python"
    assert (tmp_path / "there.xtc").read_text() == "mine"
    for name in ("a.gro", "a", "nowhere/a.xtc"):
        with pytest.raises(BadInput):
            opened.export(out / name, "w1.1")
    with pytest.raises(UnknownName):
        opened.export(out / "a.xtc", "w9.9")
    with pytest.raises(BadInput):
        opened.export(out / "a.xtc", opened.scores[:0])
    with pytest.raises(BadInput, match="time"):
        opened.export(out / "a.xtc", opened.scores[["walker", "row"]])
    for name in ("a.xtc", "a.nc"):
        with pytest.raises(BadInput):
            opened.export(out / name, "w1.1", topology=tmp_path / "none.pdb")
    with pytest.raises(BadInput):
        opened.export(out / "a.xtc", "w1.1", topology=tmp_path / "there.xtc")
    lines = run.topology.read_text().splitlines(True)
    (tmp_path / "less.pdb").write_text("".join(line for line in lines if " CA " not in line))
    with pytest.raises(BadInput, match="shape"):
        opened.export(out / "a.xtc", "w1.1", topology=tmp_path / "less.pdb")
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "MDAnalysis", None)
        with pytest.raises(MissingExtra):
            opened.export(out / "a.xtc", "w1.1")
    assert not list(out.iterdir())


@pytest.mark.parametrize("name", ["a.xtc", "a.nc"])
def test_a_place_that_cannot_be_written_is_named_and_the_run_is_not_called_damaged(
    run: RunDirectory, command: Callable[..., int], capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str
) -> None:
    if name == "a.nc":
        run.topology.unlink()
    (tmp_path / name).mkdir()
    opened, advice = steersman.open_run(run.path), "choose another place"
    for path in (tmp_path / name, Path("/proc") / name):
        with pytest.raises(BadInput, match=f"^{path}: .*{advice}"):
            opened.export(path, "w1.1", overwrite=True)
    for folder in (run.journal, run.journal / "below", Path("/proc/tables")):
        assert command("--tables", folder) == 2
        said = capsys.readouterr().err
        assert said.startswith(f"error: {folder}: this cannot be written: ")
    assert [file.name for file in tmp_path.iterdir() if file.name.startswith(".")] == []


def test_an_export_that_is_stopped_leaves_nothing_and_can_be_repeated(
    run: RunDirectory,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(export, "BLOCK_BYTES", 1)  # a frame at a time
    history, path = History(run), tmp_path / "out.xtc"
    chosen = steersman.open_run(run.path).scores
    stopped = export.trajectory(history, chosen, path)
    assert [next(stopped), next(stopped)] == [1, 2]
    assert not path.exists()
    stopped.close()  # type: ignore[attr-defined]
    assert not [file for file in tmp_path.iterdir() if file.suffix == ".xtc"]
    assert list(export.trajectory(history, chosen, path)) == list(range(1, len(chosen) + 1))
    assert read_back(run.topology, path)[0].shape[0] == len(chosen)


def test_frames_without_atoms_are_written_as_netcdf_of_all_their_variables(
    run: RunDirectory,
    tmp_path: Path,
    command: Callable[..., int],
) -> None:
    run.topology.unlink()
    opened = steersman.open_run(run.path)
    with pytest.raises(BadInput):
        opened.export(tmp_path / "out.xtc", "w1.1")
    opened.export(tmp_path / "out.nc", "w1.1")
    with xarray.open_dataset(tmp_path / "out.nc") as found:
        assert found.attrs["Conventions"] == "CF-1.11"
        stored = opened.lineage("w1.1")
        assert np.array_equal(found.positions, stored.positions)
        assert np.array_equal(found.contacts, stored.contacts)
        assert np.allclose(found.time, stored.time)
        assert found.segment.values.astype(str).tolist() == stored.segment.values.tolist()
    opened.export(tmp_path / "some.nc", "w1.1", variables=["contacts"])
    with xarray.open_dataset(tmp_path / "some.nc") as found:
        assert list(found.data_vars) == ["contacts"]
    with pytest.raises(MissingVariable):
        opened.export(tmp_path / "none.nc", "w1.1", variables=["contact"])
    assert command("w1.1", "--lineage", tmp_path / "cli.nc", "--variables", "positions, contacts") == 0
    with xarray.open_dataset(tmp_path / "cli.nc") as found:
        assert set(found.data_vars) == {"positions", "contacts"}


@pytest.mark.parametrize(
    ("words", "error"),
    [
        ([], 2), (["--lineage", "a.xtc"], 2), (["w1.1", "--lineage", "a.xtc", "--score", "error=1"], 2),
        (["--frames", "a.xtc", "--tables", "b"], 2), (["--frames", "a.xtc", "--score", "errors=1:"], 2),
        (["--frames", "a.xtc", "--score", "error"], 2), (["--frames", "a.xtc", "--score", "error=x:"], 2),
        (["--frames", "a.xtc", "--score", "error=1000:"], 2), (["--frames", "a.xtc", "--cluster", "2/2"], 2),
        (["--frames", "a.xtc", "--cluster", "1"], 2), (["--frames", "a.xtc", "--cluster", "0/99"], 2),
        (["--frames", "a.xtc", "--cluster", "0/2", "--by", "y"], 2), (["--frames", "a.xtc", "--range", "3"], 2),
        (["--frames", "a.xtc", "--range", "9:3"], 2), (["w7.7", "--lineage", "a.xtc"], 2),
        (["--frames", "a.xtc", "--variables", "positions"], 2),
    ],
)  # fmt: skip
def test_words_that_say_nothing_are_refused_in_a_line(
    words: Sequence[str], error: int, command: Callable[..., int], capsys: pytest.CaptureFixture[str],
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    assert command(*words) == error
    assert "Traceback" not in (said := capsys.readouterr().err)
    assert said.startswith("error: ")
    assert not list(tmp_path.glob("*a.xtc"))


def test_errors_have_the_classes_that_scripts_match(run: RunDirectory) -> None:
    from steersman.data import choice, lineage

    history = History(run)
    for words in ("error", "=1", "error=a:b"):
        with pytest.raises(BadValue):
            choice.of_scores(history, scores=[words])
    with pytest.raises(UnknownName):
        choice.of_scores(history, scores=["errors=1"])
    assert choice.part(lineage.rows(history, "w1.0"), "", 1)["time"].iloc[-1] == pytest.approx(FRAMES * REPORT_PS)


@pytest.mark.parametrize(
    "values",
    [
        *(np.array([0, 1]).astype(dtype) for dtype in ("bool", "u1", "u2", "u4", "i1", "i2", "i4", "f2", "f4", "f8")),
        np.array([2**63 - 1, -1]), np.array([2**64 - 1], "u8"),
        np.array(["2020-01-01", "2020-02-29"], "M8[D]"), np.array([1, 2**40], "m8[us]"),
    ],
    ids=lambda values: str(values.dtype),
)  # fmt: skip
def test_any_dtype_is_in_a_netcdf_file_with_its_values(values: np.ndarray, tmp_path: Path) -> None:
    """Dates, whatever unit their variable has."""
    _plain(xarray.DataArray(values, name="x", attrs={"units": "1"})).to_netcdf(tmp_path / "a.nc", engine="netcdf4")
    with xarray.open_dataset(tmp_path / "a.nc", decode_timedelta=True) as found:
        assert (found.x.values == values).all()


def test_a_model_of_a_run_is_written_by_its_number(
    command: Callable[..., int], run: RunDirectory, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing that is there is replaced without a word, and it is said of one that the run never used."""
    models.PCA.fit(np.eye(4), latent=2).save(run.model(7))
    with contextlib.closing(Journal(run.journal)) as journal:
        for accepted in (None, False, True):
            journal.append(records.Training(model=7, frames=9))
            if accepted is not None:
                journal.append(records.Trained(model=7, accepted=accepted, reason="held-out error 9"))
            assert command("--model", f"7={tmp_path / 'model.pt'}", "--overwrite") == 0
            assert (tmp_path / "model.pt").stat().st_size > 0
            said = capsys.readouterr().err
            assert ("never used" in said, "held-out error 9" in said) == (not accepted, accepted is False)
    for wrong in (["7=model.pt", "--tables", tmp_path], ["model.pt"], [f"7={tmp_path / 'model.pt'}"]):
        assert command("--model", *wrong) == 2
    capsys.readouterr()
    assert command("--model", f"8={tmp_path / 'other.pt'}") == 2
    assert "Valid: 7" in capsys.readouterr().err
