"""Chosen frames -> a trajectory that other programs open; tables -> CSV and Parquet. Written whole, or not at all."""

from __future__ import annotations

import contextlib
import io
import json
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import xarray

from steersman.data import frames, lineage, tables
from steersman.data.errors import Unconverted
from steersman.data.frames import units
from steersman.data.history import History
from steersman.data.stored import ANGSTROM, POSITIONS
from steersman.steering import SECONDS
from steersman.store.names import walker_name
from steersman.store.variables import CONVENTIONS
from steersman.system import reading
from steersman.system.errors import BadInput, MissingExtra
from steersman.system.files import replace_file

BOX = "box"  # variable of a frame
BOXES = {
    (3,): "lengths (3,)",
    (6,): "lengths and angles in degrees (6,)",
    (3, 3): "vectors (3, 3)",
}
FLAT = 1e-6  # share of its volume at right angles below which a box is none
INSTEAD = "choose others: --variables NAME,NAME (in Python variables=[...]), or read `run.dataset()`"
TIMELESS = "a .pdb has no times"
FORMATS = (".xtc", ".dcd", ".pdb", ".nc")
BLOCK_BYTES = 32 * 2**20  # of positions that are read at once
MOST_STEPS = 1000  # of a DCD file, between two frames
APART = 0.01  # share of the time between two frames by which a file's may be another
NOISE = 1e-12  # share of a time that it is wrong by, as a sum of the times of segments
FARTHEST_NM = {".xtc": 214_748.0}  # from the origin and from each other along an axis: steps of 1e-4 nm in 32 bits


def trajectory(
    history: History,
    chosen: pandas.DataFrame,
    path: Path,
    *,
    topology: Path | None = None,
    overwrite: bool = False,
    variables: Sequence[str] | None = None,
) -> Iterator[int]:
    """Write frames to a file by its suffix; gives how many are written, as it goes.

    Coordinates and box are written in Angstrom, times in ps, as each format has them. A .xtc holds coordinates to
    0.0005 A; a .pdb to 0.0005 A and no times; a .dcd no times but one distance between them, and warns where frames are
    not as far apart. Times of the others have single precision: where that changes a distance by more than 1 %, they
    are refused. Without a topology, a .nc holds all variables of the frames, by CF; with one it is an Amber trajectory.

    Args:
        chosen: walker, row and time of each frame, as in `Run.scores`.
        topology: file that MDAnalysis opens; None takes the run's own.
        overwrite: a file that is there is replaced.
        variables: what a .nc without a topology holds of each frame; None: all.
    Raises: BadInput: they cannot be written so or there, or there is a file, or none are chosen. MissingVariable.
        MissingExtra: MDAnalysis, or netCDF4 for a .nc.
    """
    if missing := [name for name in ("segment", "walker", "row", "time") if name not in chosen]:
        raise BadInput(f"these frames: the table has no {', '.join(missing)}; take rows of `run.scores`")
    lineage.expect_own(history, chosen)
    if not len(chosen):
        raise BadInput("no frames were chosen; `run.scores.describe()` says from where to where scores are")
    if path.suffix not in FORMATS:
        raise BadInput(f"{path}: the suffix says the format; take one of {', '.join(FORMATS)}")
    check_new(path, overwrite)
    if topology is None and history.directory.topology.exists():
        reading.opened(history.directory.topology, history.directory.path).close()
    if path.suffix == ".nc" and topology is None and not history.directory.topology.exists():
        return _fields(history, chosen, path, variables)
    if variables is not None:
        raise BadInput(f"{path}: variables are chosen for a .nc of a run without atoms; this format has its own")
    source = _Atoms(history, chosen, topology or history.directory.topology)
    if path.suffix != ".pdb" and source.times_ps.any() and (unit := history.state.time_unit) not in SECONDS:
        text = f"{path}: times are written as they are, for their unit is no known one: {unit!r}; the format has ps"
        warnings.warn(Unconverted(text), stacklevel=2)
    _check_times(path, source.times_ps)
    return _atoms(source, path)


def write_tables(history: History, folder: Path, *, overwrite: bool = False) -> Iterator[Path]:
    """Write every table as CSV and Parquet, their units and the state as JSON; gives each file that is written.

    Raises: BadInput: there is one of the files, or they cannot be written. MissingExtra: pyarrow.
    """
    try:
        import pyarrow  # noqa: F401  (pandas needs it for Parquet)
    except ModuleNotFoundError:
        raise MissingExtra("pyarrow", "data") from None
    with _writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    files = [folder / f"{name}.{suffix}" for name in tables.TABLES for suffix in ("csv", "parquet")]
    for file in [*files, folder / "units.json", folder / "state.json"]:
        check_new(file, overwrite)
    units: dict[str, Any] = {}
    for name, make in tables.TABLES.items():
        table = make(history)
        units[name] = table.attrs.get("units", {})
        with _replaced(folder / f"{name}.csv") as partial, _writing(folder):
            table.to_csv(partial)
        yield folder / f"{name}.csv"
        with _replaced(folder / f"{name}.parquet") as partial, _writing(folder):
            table.to_parquet(partial)
        yield folder / f"{name}.parquet"
    for name, content in (("units", units), ("state", tables.state(history).to_dict())):
        with _writing(folder):
            replace_file(folder / f"{name}.json", json.dumps(content, indent=1))
        yield folder / f"{name}.json"


def check_new(path: Path, overwrite: bool) -> None:
    """Raises: BadInput: the file is there, or its folder is not."""
    if path.exists() and not overwrite:
        raise BadInput(
            f"{path}: this file exists; choose another name, or replace it: `--overwrite` (in Python overwrite=True)"
        )
    if not path.absolute().parent.is_dir():
        raise BadInput(f"{path}: there is no folder {path.parent}; make it first")


@contextlib.contextmanager
def _writing(path: Path) -> Iterator[None]:
    """Raises: BadInput: in place of the system's error, which would look like one of the run's files."""
    try:
        yield
    except OSError as error:
        raise BadInput(f"{path}: this cannot be written: {error.strerror or error}; choose another place") from None


@contextlib.contextmanager
def _replaced(path: Path) -> Iterator[Path]:
    """A file to write beside, with the same suffix: it becomes the file when all of it is there."""
    partial = path.with_name(f".{path.stem}.partial{path.suffix}")
    try:
        with _writing(path):
            partial.touch()
        yield partial
        with _writing(path):
            partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def _fields(history: History, chosen: pandas.DataFrame, path: Path, names: Sequence[str] | None) -> Iterator[int]:
    _expect_netcdf()
    with _replaced(path) as partial:
        fields = lineage.dataset(history, chosen, names).assign_attrs(Conventions=CONVENTIONS)
        fields = fields.assign({name: _plain(fields[name]) for name in fields})
        try:
            with _writing(path):
                fields.to_netcdf(partial, engine="netcdf4")
        except (TypeError, ValueError) as unfit:  # complex numbers, say
            raise BadInput(f"{path}: {unfit}; {INSTEAD}") from None
        yield len(chosen)


def _plain(variable: xarray.DataArray) -> xarray.DataArray:
    """As NetCDF has it: no floats of 16 bits, and dates in a unit that xarray writes."""
    if variable.dtype.kind in "mM":
        return variable.drop_attrs().assign_attrs({k: v for k, v in variable.attrs.items() if k != "units"})
    return variable.astype("f4") if variable.dtype == "f2" else variable


def _expect_netcdf() -> None:
    try:
        import netCDF4  # noqa: F401  (without it MDAnalysis writes the whole file again for each frame)
    except ModuleNotFoundError:
        raise MissingExtra("netCDF4", "data") from None


class _Atoms:
    """Chosen frames as positions of atoms.

    Raises: BadInput: frames and topology do not fit. MissingExtra.
    """

    def __init__(self, history: History, chosen: pandas.DataFrame, topology: Path) -> None:
        self.stored, self.chosen, self.universe = history.directory.frames, chosen, _universe(topology)
        self.atoms = int(self.universe.atoms.n_atoms)
        like = frames.opened(self.stored, walker_name(chosen["walker"].iloc[0]))
        shape = like[POSITIONS].shape[1:] if POSITIONS in like else "none"
        if shape != (self.atoms, 3):
            wanted = f"`{POSITIONS}` of shape ({self.atoms}, 3), one for each atom of {topology}"
            raise BadInput(f"{history.directory.path}: its frames need {wanted}; they have {shape}")
        if (unit := units(like[POSITIONS].attrs)) not in ANGSTROM:
            raise BadInput(f"{POSITIONS}: their unit is {unit!r}; known are {', '.join(ANGSTROM)}")
        self.to_angstrom = ANGSTROM[unit]
        self.box_to_angstrom = self._box_unit(like[BOX], unit) if BOX in like else None
        picosecond = SECONDS.get(history.state.time_unit, 1e-12) / 1e-12
        times = chosen["time"]
        if 0 < (unknown := int(times.isna().sum())) < len(times):
            warnings.warn(Unconverted(f"the time of {unknown:,} frames is not known: they have 0"), stacklevel=2)
        self.times_ps = times.fillna(0.0).to_numpy() * picosecond  # a run without `time` has none

    def _box_unit(self, box: xarray.DataArray, of_positions: str) -> float:
        if box.shape[1:] not in BOXES:
            raise BadInput(f"{BOX}: a frame's has the shape {box.shape[1:]}; known are {', '.join(BOXES.values())}")
        unit = units(box.attrs)
        if unit not in ("1", *ANGSTROM):
            raise BadInput(f"{BOX}: its unit is {unit!r}; known are {', '.join(ANGSTROM)}")
        return ANGSTROM[of_positions if unit == "1" else unit]

    def set(self, first: int, rows: int) -> Iterator[int]:
        """Give the universe one frame after another, of a block that is read at once."""
        part = self.chosen.iloc[first : first + rows]
        where = part["walker"].to_numpy(), part["row"].to_numpy()
        positions = frames.rows(self.stored, POSITIONS, *where) * self.to_angstrom
        boxes = frames.rows(self.stored, BOX, *where) if self.box_to_angstrom else None
        for i in range(len(part)):
            box, at = (None, positions[i]) if boxes is None else _turned(np.asarray(boxes[i], np.float64), positions[i])
            self.universe.atoms.positions = at
            if box is not None:
                self.universe.dimensions = _box(box, self.box_to_angstrom or 1.0)
            self.universe.trajectory.ts.time = self.times_ps[first + i]
            yield first + i


def _atoms(source: _Atoms, path: Path) -> Iterator[int]:
    block, box = max(1, BLOCK_BYTES // (12 * source.atoms)), np.array(None)
    with _replaced(path) as partial, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what a PDB file has no words for, and of a slower way to write NetCDF
        with _writer(partial, source.atoms, source.times_ps) as writer:
            for first in range(0, len(source.chosen), block):
                for number in source.set(first, block):
                    box = np.array(source.universe.dimensions) if number == 0 else box
                    if path.suffix == ".pdb" and not np.array_equal(box, source.universe.dimensions):
                        raise BadInput(f"{path}: frame {number} has another box, and a .pdb has one; take .xtc")
                    _check_places(path, number, source.universe.atoms.positions)
                    try:
                        with _writing(path):
                            writer.write(source.universe.atoms)
                    except ValueError as unfit:  # coordinates too large for a PDB file, say
                        raise BadInput(f"{path}: frame {number}: {unfit}; try .xtc or .nc") from None
                yield min(first + block, len(source.chosen))


def _universe(topology: Path) -> Any:
    try:
        import MDAnalysis
    except ModuleNotFoundError:
        raise MissingExtra("MDAnalysis", "data") from None
    if not topology.is_file():
        raise BadInput(
            f"{topology}: there is no such file: what `prepare` returned had no `pdb`, or an older Steersman made the "
            "run; give `--topology FILE` (in Python topology=), or export to .nc, which needs none"
        )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if topology.suffix == ".pdb":
                return MDAnalysis.Universe(io.StringIO(_readable(topology.read_text())), format="PDB")
            return MDAnalysis.Universe(str(topology))
    except Exception as error:  # whatever a parser of MDAnalysis raises
        raise BadInput(f"{topology}: MDAnalysis cannot read it: {error!s:.200}") from None


def _readable(pdb: str) -> str:
    """A PDB file without bonds of atoms from 100,000 on: their numbers have letters, which MDAnalysis refuses."""
    lines = pdb.splitlines(keepends=True)
    return "".join(line for line in lines if line[:6] != "CONECT" or line[6:].replace(" ", "").strip().isdigit())


def _writer(path: Path, atoms: int, times_ps: np.ndarray) -> Any:
    import MDAnalysis

    if path.suffix == ".nc":
        _expect_netcdf()
    by_format: dict[str, dict[str, Any]] = {".xtc": {"precision": 4}, ".pdb": {"multiframe": True}}
    options = _dcd_times(path, times_ps) if path.suffix == ".dcd" else by_format.get(path.suffix, {})
    return MDAnalysis.Writer(str(path), atoms, **options)


def _dcd_times(path: Path, times_ps: np.ndarray) -> dict[str, Any]:
    """What a DCD file knows of times: steps before the first frame and between two, and how long a step is."""
    apart = _dcd_apart(times_ps)
    first = float(times_ps[0]) / apart
    most = min(MOST_STEPS, int((2**31 - 2) / max(1.0, abs(first))))
    parts = (each for each in range(1, most) if abs(first * each - round(first * each)) < 0.01)
    steps = next(parts, most)  # else the first time is right to such a part of a frame
    if not steps:
        raise BadInput(f"{path.name}: a .dcd cannot hold a first time of {times_ps[0]:g} ps; {TIMELESS}")
    return {"dt": apart, "nsavc": steps, "istart": round(first * steps)}


def _dcd_apart(times_ps: np.ndarray) -> float:
    apart = float(np.median(np.diff(times_ps))) if len(times_ps) > 1 else 1.0
    return apart if apart > 0 else 1.0


def _check_times(path: Path, times_ps: np.ndarray) -> None:
    """Raises: BadInput: times in single precision are as far apart as others. Warns where those of a .dcd are."""
    if path.suffix == ".pdb":
        return
    if evenly := path.suffix == ".dcd":
        written = times_ps[0] + _dcd_apart(times_ps) * np.arange(len(times_ps))
    else:
        written = times_ps.astype(np.float32).astype(np.float64)
    apart = np.diff(times_ps)
    right = np.abs(np.diff(written) - apart) <= APART * np.abs(apart) + NOISE * np.abs(times_ps[1:])
    if right.all():
        return
    if evenly:
        words = "a .dcd has one distance between frames, and these have several: its times are others; take .xtc"
        warnings.warn(Unconverted(f"{path}: {words}"), stacklevel=3)
        return
    at = int(np.argmin(right))
    words = f"{apart[at]:g} ps from {times_ps[at]:g} ps on is no time in single precision, which this format has"
    raise BadInput(f"{path}: {words}; take frames farther apart, or .dcd; {TIMELESS}")


def _check_places(path: Path, number: int, positions: np.ndarray) -> None:
    """Raises: BadInput: a file would hold other coordinates than these, (atoms, 3) in Angstrom."""
    most = FARTHEST_NM.get(path.suffix, np.inf) * ANGSTROM["nm"]
    reach = max(np.abs(positions).max(), np.ptp(positions, axis=0).max())
    if not (np.isfinite(reach) and reach <= most):
        farthest = f"coordinates up to {reach / ANGSTROM['nm']:g} nm, or so far apart"
        raise BadInput(f"{path}: frame {number} has {farthest}, which this format cannot hold; try .dcd or .nc")


def _turned(box: np.ndarray, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Both as they are, or turned until the vectors are (x, 0, 0), (., y, 0), (., ., z) with x, y, z > 0, which a file
    means by lengths and angles."""
    if box.shape != (3, 3) or not box.any() or (not np.triu(box, 1).any() and (np.diag(box) > 0).all()):
        return box, positions
    volume = np.linalg.det(box)
    if abs(volume) < FLAT * np.linalg.norm(box, axis=1).prod():
        raise BadInput(f"{BOX}: vectors {box.tolist()}, which enclose nothing")
    box = box * np.sign(volume)  # of a left-handed box the opposite vectors, which repeat the same places
    turn, upper = np.linalg.qr(box.T)
    turn = turn * np.sign(np.diag(upper))
    return box @ turn, positions @ turn


def _box(box: np.ndarray, to_angstrom: float) -> np.ndarray:
    """(6,): lengths in Angstrom and angles of a box of one of the shapes in BOXES."""
    from MDAnalysis.lib.mdamath import triclinic_box

    if box.shape != (3, 3):
        angles = box[3:] if len(box) == 6 else (90, 90, 90)
        return np.array([*(box[:3] * to_angstrom), *angles], np.float32)
    vectors = np.asarray(triclinic_box(*(box * to_angstrom)))
    if box.any() and not vectors.any():
        raise BadInput(f"{BOX}: vectors {box.tolist()}, which enclose nothing")
    return vectors
