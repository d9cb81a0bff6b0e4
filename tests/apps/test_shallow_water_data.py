"""Frames on disk as machine learning reads them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import xarray

from steersman.apps.shallow_water import run
from steersman.apps.shallow_water_data import save
from steersman.apps.start import Start


def test_saved_frames_open_in_xarray_with_their_coordinates(tmp_path: Path) -> None:
    frames = list(run(Start(), seed=1, days=1, truncation=21, case="galewsky"))
    assert save(tmp_path / "run.zarr", frames) == 4
    opened = xarray.open_zarr(tmp_path / "run.zarr")
    fields = opened["fields"]
    assert fields.dims == ("time", "channel", "lat", "lon")
    assert fields.shape == (4, 4, 32, 64)
    assert opened.attrs["channels"] == ["height", "u", "v", "vorticity"]
    assert opened.attrs["channel_units"] == ["m", "m s-1", "m s-1", "s-1"]
    assert opened["lat"].attrs["units"] == "degrees_north"
    assert opened["lon"].attrs["units"] == "degrees_east"
    np.testing.assert_array_equal(np.diff(opened["time"].values), np.timedelta64(6, "h"))
    np.testing.assert_array_equal(fields[2, 1].values, frames[2].u)
    jet = fields.isel(channel=1, time=0).mean("lon")
    assert 40 < float(jet["lat"][int(jet.values.argmax())]) < 50, "the jet lies at 45 degrees north"


def test_a_run_goes_on_from_a_saved_state(tmp_path: Path) -> None:
    unbroken = list(run(Start(), seed=1, days=1, truncation=21))
    save(tmp_path / "run.zarr", unbroken[:2])
    state = xarray.open_zarr(tmp_path / "run.zarr")["state"][-1].values
    *_, last = run(Start(frame={"state": state}), seed=1, days=0.5, truncation=21)
    np.testing.assert_array_equal(last.state, unbroken[-1].state)
