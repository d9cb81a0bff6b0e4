"""Frames in Zarr: appended while simulating, read while training."""

from steersman.store.errors import EmptyWindow, MissingFrame, ShapeMismatch, StoreError
from steersman.store.frames import ENDED, FRAME, SEGMENT, SEGMENT_FIELDS, Frames, Row, Span, Window
from steersman.store.group import GroupWriter, replace_file
from steersman.store.variables import Variable

__all__ = [
    "ENDED",
    "FRAME",
    "SEGMENT",
    "SEGMENT_FIELDS",
    "EmptyWindow",
    "Frames",
    "GroupWriter",
    "MissingFrame",
    "Row",
    "ShapeMismatch",
    "Span",
    "StoreError",
    "Variable",
    "Window",
    "replace_file",
]
