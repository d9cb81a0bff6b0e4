"""A result is read without pickle's means to run code, or to take bytes for addresses."""

import hashlib
import pickle
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy._core import multiarray
from numpy._core.numeric import _frombuffer  # type: ignore[attr-defined]

import steersman
from steersman.data import task_results
from steersman.journal import records
from steersman.journal.file import Journal
from steersman.journal.run_directory import RunDirectory
from steersman.system.errors import BadInput

ADDRESS = b"A" * 8
HOSTILE: list[tuple[Any, ...]] = [  # what a pickle calls, with what, and what state it gives to what that made
    (np.ndarray, ((1,), np.dtype("O"), ADDRESS)),
    (np.ndarray, ((1,), "O", ADDRESS)),
    (np.ndarray, ((1,), "f8", ADDRESS)),
    (multiarray._reconstruct, (np.ndarray, (0,), b"b"), (1, (1,), np.dtype("O"), False, ADDRESS)),
    (multiarray._reconstruct, (np.ndarray, (0,), b"b"), (1, (-2, -4), np.dtype("i1"), False, ADDRESS)),
    (multiarray._reconstruct, (np.ndarray, (4,), "O")),
    (multiarray.scalar, (np.dtype("O"), ADDRESS)),
    (multiarray.scalar, (np.dtype("f8"), b"A")),
    (_frombuffer, (ADDRESS, np.dtype("O"), (1,), "C")),
    (_frombuffer, (ADDRESS, "O", (1,), "C")),
    (np.dtype, ("V8", False, True), (3, "|", None, ("a",), {"a": (np.dtype("O"), 0)}, 8, 1, 63)),
    (np.dtype, ("f8", False, True), (3, "<", None, None, None, 10**6, 8, 63)),
    (np.dtype, ("U1", False, True), (3, "<", None, None, None, 10**6, 4, 8)),
    (np.dtype, ("O", False, True)),
    (np.dtype, ("f8", False)),
    (set, (range(10**12),)),
    (bytearray, (10**12,)),
    (dict, ([], 1)),
]


class Hostile:
    def __init__(self, *calls: Any) -> None:
        self.calls = calls

    def __reduce__(self) -> Any:
        return self.calls


@pytest.mark.parametrize("calls", HOSTILE, ids=range(len(HOSTILE)))
def test_bytes_of_a_result_are_no_addresses_of_objects(calls: Any, tmp_path: Path) -> None:
    """numpy believes what a pickle says of them, and the process would end."""
    pickled = pickle.dumps([Hostile(*calls)])
    directory, sha256 = RunDirectory(tmp_path), hashlib.sha256(pickled).hexdigest()
    directory.task("a").mkdir(parents=True)
    (directory.task("a") / "result.pkl").write_bytes(pickled)
    Journal(directory.journal).append(
        records.Run(workflow="mine"), records.Called(call="a", task="odd"), records.Task(call="a", sha256=sha256)
    )
    with pytest.raises(BadInput):
        steersman.open_run(tmp_path).result("odd")


VALUES = [
    np.arange(6.0).reshape(2, 3), np.arange(6).reshape(2, 3).T, np.array(["a", "bcd"]), np.array([b"a"]), np.float64(1),
    np.array([1, 2], ">f8"), np.str_("abc"), np.bool_(True), np.array([1 + 2j], np.complex64), np.zeros((0, 3)),
    np.array(3), OrderedDict(a=1), {1, 2}, frozenset({1}), bytearray(b"abc"), slice(1, 2), range(3), 1 + 2j, 10**40,
]  # fmt: skip


@pytest.mark.parametrize("protocol", [4, 5])
def test_plain_values_and_arrays_are_what_pickle_gives(protocol: int) -> None:
    for value in VALUES:
        pickled = pickle.dumps([value, value], protocol)
        found, known = task_results._Unpickler(pickled, "").load(), pickle.loads(pickled)
        assert (repr(found), type(found[0])) == (repr(known), type(known[0]))
        assert (found[0] is found[1]) == (known[0] is known[1])
        if isinstance(value, np.ndarray):
            assert (found[0].dtype, found[0].flags.c_contiguous) == (known[0].dtype, known[0].flags.c_contiguous)
