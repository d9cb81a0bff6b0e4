"""Frames in Zarr: appended while simulating, read while training."""

from steersman.store.errors import (
    BadVariable,
    DamagedGroup,
    DamagedShard,
    MissingVariable,
    StoreError,
)
from steersman.store.frames import ENDED, FRAME, SEGMENT, SEGMENT_FIELDS, Frames, Span, Stored, number_of
from steersman.store.frames import FrameRow as Row
from steersman.store.group import GroupWriter, finish, make_root
from steersman.store.lineages import Fate
from steersman.store.scratch import MOVE_EVERY_S, ScratchWriter
from steersman.store.states import RESTART, RESTART_STATES
from steersman.store.variables import Variable
from steersman.store.window import Labelled, LabelledFrame, Window

__all__ = [
    "ENDED",
    "FRAME",
    "MOVE_EVERY_S",
    "RESTART",
    "RESTART_STATES",
    "SEGMENT",
    "SEGMENT_FIELDS",
    "BadVariable",
    "DamagedGroup",
    "DamagedShard",
    "Fate",
    "Frames",
    "GroupWriter",
    "Labelled",
    "LabelledFrame",
    "MissingVariable",
    "Row",
    "ScratchWriter",
    "Span",
    "StoreError",
    "Stored",
    "Variable",
    "Window",
    "finish",
    "make_root",
    "number_of",
]
