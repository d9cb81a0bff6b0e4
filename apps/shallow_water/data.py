"""Frames -> one Zarr group as machine learning reads it: (time, channel, lat, lon), with coordinates after CF.

save(path, run(Start(), seed=1, case="galewsky", days=6))
xarray.open_zarr(path)["fields"].sel(lat=45, method="nearest")
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import zarr
from scipy.fft import dctn, idctn

from steersman.apps.shallow_water import VARIABLES, Frame
from steersman.apps.shallow_water.solver import latitudes, longitudes
from steersman.store import GroupWriter, Variable
from steersman.system.errors import BadValue

CHANNELS = ("height", "u", "v", "vorticity")
COORDINATES = {
    "fields": Variable(("channel", "lat", "lon"), "see channel_units", "fields on the sphere"),
    "coefficients": Variable(("channel", "coefficient"), "see channel_units", "slowest waves of the cosine transform"),
    "state": Variable(("order", "degree", "field", "part"), "1", "coefficients to go on from exactly"),
    "time": Variable((), "days since 2000-01-01 00:00:00", "simulated time"),
    "lat": Variable((), "degrees_north", "latitude"),
    "lon": Variable((), "degrees_east", "longitude"),
    "channel": Variable((), "1", "position in the attribute channels"),
}


def save(path: Path, frames: Iterable[Frame], *, channels: Sequence[str] = CHANNELS, kept: int | None = None) -> int:
    """Write frames as float32 fields, and the spectral state of each; returns how many.

    Args:
        path: a new folder.
        channels: names of fields of a Frame; their names and units are attributes of the group.
        kept: so many numbers of each field are stored, as `coefficients` of a CosineCodec; None: the fields themselves.
    Raises: BadValue: more than the numbers of a field, or none.
    """
    units = [VARIABLES[name].units for name in channels]
    attributes = {"Conventions": "CF-1.11", "channels": list(channels), "channel_units": units}
    writer = GroupWriter(path, variables=COORDINATES, attributes=attributes)
    written = 0
    for frame in frames:
        fields = np.stack([getattr(frame, name) for name in channels])
        if not written:
            _coordinates(writer, fields)
        codec = None if kept is None else CosineCodec(fields.shape[1], fields.shape[2], kept)
        stored = {"fields": fields} if codec is None else {"coefficients": codec.encode(fields)}
        writer.append("time", {"time": np.float64(frame.time_days), "state": frame.state, **stored})
        written += 1
    writer.close()
    return written


def load(path: Path) -> np.ndarray:
    """The fields of saved frames, (time, channel, lat, lon) float32, decoded where they were stored so."""
    group = zarr.open_group(path, mode="r")
    if "fields" in group:
        return np.asarray(group["fields"][:])  # type: ignore[index]
    numbers = np.asarray(group["coefficients"][:])  # type: ignore[index]
    return CosineCodec(group["lat"].shape[0], group["lon"].shape[0], numbers.shape[-1]).decode(numbers)  # type: ignore[union-attr]


def _coordinates(writer: GroupWriter, fields: np.ndarray) -> None:
    channels, rows, columns = fields.shape
    writer.extend("lat", {"lat": latitudes(rows)})
    writer.extend("lon", {"lon": longitudes(columns)})
    writer.extend("channel", {"channel": np.arange(channels)})


class CosineCodec:
    """Keeps the same `kept` of the rows x columns coefficients of every field, those of the slowest waves.

    Raises: BadValue: fewer than one, or more than there are.
    Source: Ahmed, Natarajan and Rao (1974), Discrete cosine transform.
    """

    def __init__(self, rows: int, columns: int, kept: int) -> None:
        if not 1 <= kept <= rows * columns:
            raise BadValue("kept", kept, f"give 1 to {rows * columns}, the numbers of a field of {rows} x {columns}")
        self.shape, self.kept = (rows, columns), kept
        down, along = np.meshgrid(np.arange(rows) / rows, np.arange(columns) / columns, indexing="ij")
        slowest = np.argsort((down**2 + along**2).ravel(), kind="stable")[:kept]
        self._where = np.unravel_index(slowest, self.shape)

    def encode(self, fields: np.ndarray) -> np.ndarray:
        """(..., rows, columns) -> (..., kept), float32."""
        waves = dctn(np.asarray(fields, np.float64), axes=(-2, -1), norm="ortho")
        return np.asarray(waves[..., self._where[0], self._where[1]], np.float32)

    def decode(self, numbers: np.ndarray) -> np.ndarray:
        """(..., kept) -> (..., rows, columns), float32."""
        waves = np.zeros((*numbers.shape[:-1], *self.shape))
        waves[..., self._where[0], self._where[1]] = numbers
        return np.asarray(idctn(waves, axes=(-2, -1), norm="ortho"), np.float32)
