"""What was prepared -> what others look at of it, kept beside the run: its atoms, and labels that exist already."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from typing import Any

import numpy as np

from steersman.journal.run_directory import KNOWN, RunDirectory
from steersman.stages.start import topology
from steersman.store import FRAME, GroupWriter, make_root
from steersman.system.errors import BadValue
from steersman.system.files import replace_file


def keep(directory: RunDirectory, prepared: Any) -> None:
    """Keep a topology as text, so that nobody needs to unpickle anything to look at frames; and labels, once.

    Raises: BadValue: `labelled` of what was prepared are no labels.
    """
    if text := topology(prepared):
        replace_file(directory.topology, text, sync=True)
    of = prepared if isinstance(prepared, Mapping) else vars(prepared) if hasattr(prepared, "__dict__") else {}
    group = directory.labels / KNOWN
    if "labelled" not in of or group.exists():
        return
    values = checked(of["labelled"], "labelled")
    if len({value.shape[:1] for value in values.values()} | {()}) != 2:
        shapes = {name: value.shape for name, value in values.items()}
        raise BadValue("labelled", str(shapes), "all arrays have one row for each label")
    make_root(directory.labels)
    half = group.with_name(f"{KNOWN}.part")  # a worker may die here
    shutil.rmtree(half, ignore_errors=True)
    writer = GroupWriter(half, attributes={"source": getattr(of["labelled"], "source", "prepare")})
    writer.extend(FRAME, values)
    writer.close()
    half.rename(group)


def checked(values: Any, what: str = "@wf.label") -> dict[str, np.ndarray]:
    """An answer as arrays by name. Raises: BadValue: it is none, or some of it is no finite number."""
    allowed = "an answer is {name: array of finite numbers}"
    if not isinstance(values, Mapping) or not values:
        raise BadValue(what, f"it returned {type(values).__name__}", allowed)
    arrays = {str(name): np.asarray(value) for name, value in values.items()}
    for name, array in arrays.items():
        if np.ma.is_masked(values[name]) or array.dtype.kind not in "biuf" or not np.isfinite(array).all():
            raise BadValue(name, f"{array!r:.60}", allowed)
    return arrays
