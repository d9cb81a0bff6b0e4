"""Frames on disk as machine learning reads them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import xarray

from steersman.apps.shallow_water import run
from steersman.apps.shallow_water.data import CosineCodec, load, save
from steersman.stages.start import Start
from steersman.system.errors import BadValue


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


def test_kept_waves_give_the_fields_back_as_far_as_they_go(tmp_path: Path) -> None:
    """All of them: to rounding. An eighth: what is lost is what lies in the others, for the transform keeps squares."""
    frames = list(run(Start(), seed=1, days=0.5, truncation=21, case="galewsky"))
    save(tmp_path / "all.zarr", frames, kept=32 * 64)
    save(tmp_path / "some.zarr", frames, kept=32 * 8)
    heights = np.stack([frame.height for frame in frames]).astype(float)
    np.testing.assert_allclose(load(tmp_path / "all.zarr")[:, 0], heights, rtol=1e-6)
    everything = CosineCodec(32, 64, 32 * 64).encode(heights).astype(float)
    lost = np.sqrt((everything[:, 32 * 8 :] ** 2).sum(1))
    np.testing.assert_allclose(
        np.sqrt(((load(tmp_path / "some.zarr")[:, 0] - heights) ** 2).sum((1, 2))), lost, rtol=1e-3
    )
    assert xarray.open_zarr(tmp_path / "some.zarr")["coefficients"].dims == ("time", "channel", "coefficient")


@pytest.mark.parametrize("kept", [0, 2049])
def test_more_waves_than_there_are_or_none_are_refused(kept: int) -> None:
    with pytest.raises(BadValue, match="1 to 2048"):
        CosineCodec(32, 64, kept)


def test_a_run_goes_on_from_a_saved_state(tmp_path: Path) -> None:
    unbroken = list(run(Start(), seed=1, days=1, truncation=21))
    save(tmp_path / "run.zarr", unbroken[:2])
    state = xarray.open_zarr(tmp_path / "run.zarr")["state"][-1].values
    *_, last = run(Start(frame={"state": state}), seed=1, days=0.5, truncation=21)
    np.testing.assert_array_equal(last.state, unbroken[-1].state)
