"""Frames in Zarr: appended while simulating, read while training."""

from steersman.store.variables import Variable

__all__ = ["Variable"]
