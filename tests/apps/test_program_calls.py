"""What a program may ask of its walker by steersman.h, and what it is told where it asks wrongly."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from steersman import Out, Start
from steersman.apps.program import program
from steersman.bus import Server, TupleSpace
from steersman.client.__main__ import HERE
from steersman.system.errors import BadInput, EngineError
from tests.apps.programs import Plate, frames

TYPES = """
program types
  use, intrinsic :: iso_fortran_env
  use steersman
  implicit none
  real(real32) :: r4(3, 2)
  real(real64) :: r8(2, 3, 4), big(200, 100)
  integer(int8) :: i1
  integer(int16) :: i2(2)
  integer(int32) :: i4(0)
  integer(int64) :: i8(2, 2)
  logical :: flags(2, 3)
  character(len=8) :: name
  character(len=300) :: sentence
  real(real128) :: long
  integer :: codes(6)
  call steersman_must(steersman_open())
  call steersman_must(steersman_frame("r4", r4))
  call steersman_must(steersman_frame("r8", r8))
  call steersman_must(steersman_frame("big", big))
  call steersman_must(steersman_frame("i1", i1))
  call steersman_must(steersman_state_get("i2", i2))
  call steersman_must(steersman_frame("i4", i4))
  call steersman_must(steersman_frame("i8", i8))
  call steersman_must(steersman_frame("flags", flags))
  call steersman_must(steersman_parameter("name", name))
  codes(1) = steersman_frame("r8", r4)          ! another type
  codes(2) = steersman_frame("r4", r4(:2, :))   ! another shape
  codes(3) = steersman_frame("r5", r4)          ! another name
  codes(4) = steersman_append("long", long)     ! a type that does not travel
  codes(5) = steersman_parameter("many", i1)    ! a number that does not fit
  call steersman_said(sentence)
  codes(6) = merge(1, 0, index(sentence, "int8") > 0)
  r4(1, 2) = r4(1, 2) + 1
  big(200, 1) = -1
  call steersman_must(steersman_append("r4", r4))
  call steersman_must(steersman_append("part", r8(2, ::2, :)))
  call steersman_must(steersman_append("r8", r8))
  call steersman_must(steersman_append("big", big))
  call steersman_must(steersman_append("i1", i1))
  call steersman_must(steersman_append("i2", i2))
  call steersman_must(steersman_append("i4", i4))
  call steersman_must(steersman_append("i8", i8))
  call steersman_must(steersman_append("flags", flags))
  call steersman_must(steersman_append("plate", name == "plate"))
  call steersman_must(steersman_append("codes", codes))
  call steersman_must(steersman_commit(0.0_real64))
  call steersman_must(steersman_close())
end program
"""


def test_arrays_of_fortran_arrive_with_its_shapes_and_types(
    built: Callable[..., str], placed: Callable[[list[str]], list[str]], tmp_path: Path
) -> None:
    """Small ones and a large one, in both directions; a section with gaps, too."""
    (tmp_path / "types.f90").write_text(TYPES)
    built("gcc", "-c", HERE / "steersman.c", name="client.o")
    words = placed([built("gfortran", HERE / "steersman.f90", tmp_path / "types.f90", "client.o", name="types")])
    rng = np.random.default_rng(1)
    given: dict[str, Any] = {
        "r4": rng.random((3, 2), np.float32), "r8": rng.random((2, 3, 4)), "big": rng.random((200, 100)),
        "i1": np.int8(-3), "i4": np.zeros(0, np.int32), "i8": np.array([[2**60, 1], [2, 3]]),
        "flags": rng.random((2, 3)) < 0.5,
    }  # fmt: skip
    state = {"i2": np.array([300, -1], np.int16)}
    (frame,) = frames(words, Start(frame=given, state=state, params=Plate()))
    changed = given | state | {"part": given["r8"][1, ::2, :], "plate": True, "codes": [-1, -1, -1, -1, -1, 1]}
    changed["r4"], changed["big"] = given["r4"].copy(), given["big"].copy()
    changed["r4"][0, 1] += 1
    changed["big"][199, 0] = -1
    assert frame.pop("time") == 0.0
    assert frame.keys() == changed.keys()
    for name, value in frame.items():
        assert np.array_equal(value, changed[name]), name
        assert name == "codes" or value.dtype == np.asarray(changed[name]).dtype


def test_a_wrong_name_shape_or_type_is_refused_at_the_call(calling: Callable[..., list[str]], tmp_path: Path) -> None:
    """With what is expected; nothing of it is stored, and the program may go on."""
    refused = """
        u, long = np.zeros((2, 3)), np.zeros((2, 9000))
        commit(1, u=u, long=long)
        wrong = {"v": u, "u": u.T, "long": long.astype(np.float32), "time": np.zeros(())}
        for name, array in wrong.items():
            code = lib.steersman_append(of(name, np.ascontiguousarray(array)))
            print(code, said())
        print(lib.steersman_commit(ctypes.c_double(2)), said())
        lib.steersman_append(of("u", u + 1))
        print(lib.steersman_commit(ctypes.c_double(2)), said())
        print(lib.steersman_append(of("u", u)), said())
        eight = of("long", long)
        eight.rank = 8
        print(lib.steersman_append(eight), said())
        must(lib.steersman_append(of("long", long)))
        must(lib.steersman_commit(ctypes.c_double(2)))
        print(lib.steersman_parameter(of("frames_eech", np.zeros((), np.int32))), said())
        print(lib.steersman_parameter(of("spark", np.zeros((), np.int32))), said())
        print(lib.steersman_parameter(of("many", np.zeros(()))), said())
        print(ask("tendency", {}, {}), said())
        must(lib.steersman_close())
    """
    found = frames(calling(refused), Start(params=Plate(many=2**53 + 1)), cwd=tmp_path)
    assert [(frame["time"], frame["u"].tolist(), frame["long"].shape) for frame in found] == [
        (time, [[value] * 3] * 2, (2, 9000)) for time, value in ((1, 0), (2, 1))
    ]
    said = (tmp_path / "stdout.txt").read_text().splitlines()
    expected = [
        "long, u", "(2, 3)", "float64", "time", "lacks u, long", "long", "u", "7", "frames_each", "float64", "float64",
        "tendency",
    ]  # fmt: skip
    for line, word in zip(said, expected, strict=True):
        assert line.startswith("-1 ")
        assert word in line


def test_another_major_version_is_refused_with_both_numbers(
    built: Callable[..., str], calling: Callable[..., list[str]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    newer = (HERE / "steersman.h").read_text().replace("STEERSMAN_MAJOR 1", "STEERSMAN_MAJOR 7")
    (tmp_path / "steersman.h").write_text(newer)
    shutil.copy(HERE / "steersman.c", tmp_path)
    words = calling("print(lib.steersman_open(), said())", opened=False, closes=False)
    library = built("gcc", "-shared", "-fPIC", tmp_path / "steersman.c", name="newer.so")
    monkeypatch.setenv("STEERSMAN_LIBRARY", library)
    assert frames(words, cwd=tmp_path) == []
    said = (tmp_path / "stdout.txt").read_text()
    assert said.startswith("-3 ")
    assert "7.0" in said
    assert "1.0" in said


def test_it_hears_that_it_is_to_stop_and_one_that_does_not_is_ended(calling: Callable[..., list[str]]) -> None:
    out = Out(frames=3)
    ends = calling("""
        i = 0
        while not stopped():
            must(commit(i := i + 1, u=np.array(i)))
        must(lib.steersman_state_put(of("i", np.array(i))))
        must(lib.steersman_close())
    """)
    for frame in program(ends, Start(), out):
        out.append(**frame)
    assert (out.stored["u"].tolist(), dict[str, Any](out.restart)) == ([1, 2, 3], {"i": 3})
    deaf = calling("""
        for i in range(3): commit(i, u=np.array(i))
        time.sleep(1000)
    """)
    out = Out(frames=3)
    for frame in program(deaf, Start(), out, stop_s=0.1):
        out.append(**frame)
    assert out.frames == 3


def test_a_model_answers_with_what_fits_and_nothing_else(
    calling: Callable[..., list[str]], placed: Callable[[list[str]], list[str]]
) -> None:
    """Before the first one it says that there is none; a number is never rounded for a program."""

    def doubled(p: Plate, model: Any, inputs: Mapping[str, Any]) -> dict[str, Any]:
        return {"y": model * inputs["x"], "n": inputs["x"].size, "half": np.float64(0.1)}

    asks = calling("""
        small, large = np.arange(5.0), np.arange(50_000.0)
        for x in (small, large):
            y, n = np.zeros_like(x), np.zeros((), np.int32)
            code = ask("doubled", {"x": x}, {"y": y, "n": n})
            assert code == NONE or (y == 2 * x).all() and n == x.size
            wrong = [{"z": y}, {"y": y.astype(np.float32)}, {"y": y[1:]}, {"half": np.zeros((), np.float32)}]
            codes = [code, *(ask("doubled", {"x": x}, each) for each in wrong), ask("doubled", {"u": x}, {"y": y})]
            assert code == NONE or "input of doubled 'x'" in said() and "u" in said()
            commit(x.size, codes=np.array(codes))
    """)
    asks = placed(asks)
    known: dict[str, Any] = {"params": Plate(), "learns": True}
    answers = {"doubled": doubled}
    assert [frame["codes"].tolist() for frame in frames(asks, Start(**known), answers=answers)] == [[2] * 6] * 2
    with_model = frames(asks, Start(**known, load=lambda: 2.0), answers=answers)
    assert [frame["codes"].tolist() for frame in with_model] == [[0, -1, -1, -1, -1, -1]] * 2


@pytest.mark.parametrize(("size", "fails"), [(5, False), (50_000, True)])
def test_an_answer_that_keeps_what_the_next_call_overwrites_fails(
    calling: Callable[..., list[str]], size: int, fails: bool
) -> None:
    """A small array is its own; a large one lies in memory to which the program writes again."""
    memory: list[Any] = []

    def keeps(p: Any, model: Any, inputs: Mapping[str, Any]) -> dict[str, Any]:
        memory.append(inputs["x"][1:])
        return {"y": inputs["x"]}

    asks = calling(f"""
        for i in range(2):
            x, y = np.full({size}, float(i)), np.zeros({size})
            must(ask("keeps", {{"x": x}}, {{"y": y}}))
            commit(i, same=np.array((y == x).all()))
    """)
    with pytest.raises(EngineError) if fails else contextlib.nullcontext():
        assert [bool(frame["same"]) for frame in frames(asks, Start(), answers={"keeps": keeps})] == [True, True]
    assert [each.max() for each in memory] == [0.0, 1.0][: len(memory)]


def test_what_an_answer_raises_fails_the_segment(calling: Callable[..., list[str]]) -> None:
    """A program that looks at no code would go on with numbers of nobody."""

    def fails(p: Any, model: Any, inputs: Any) -> Any:
        raise BadInput("no such latent space")

    with pytest.raises(RuntimeError, match="latent space"):
        frames(calling('ask("fails", {}, {"y": np.zeros(1)})'), answers={"fails": fails})


def test_a_state_is_that_of_the_newest_frame(calling: Callable[..., list[str]]) -> None:
    """All that was put beside it, before its commit and after it, and nothing that was put beside another one."""
    put = 'must(lib.steersman_state_put(of("{0}", np.array({1}))));'
    for last, kept in ((put.format("w", 23), {"v": 3, "w": 23}), ("", {"v": 3})):
        both = "for i in (1, 2, 3): lib.steersman_append(of('u', np.zeros(3))); " + put.format("v", "i")
        out = Out(frames=9, seconds=99)
        for frame in program(calling(f"{both} must(commit(float(i)))\n{last}"), Start(), out):
            out.append(**frame)
        assert dict[str, Any](out.restart) == kept
    out = Out(frames=9, seconds=99)
    first = put.format("v", 1) + "[commit(float(i), u=np.zeros(3)) for i in (2, 3)]"
    for frame in program(calling("commit(1.0, u=np.zeros(3))\n" + first), Start(), out):
        out.append(**frame)
    assert not out.restart


def test_arrays_that_were_appended_and_not_committed_are_told(calling: Callable[..., list[str]]) -> None:
    with pytest.raises(EngineError):
        frames(calling('lib.steersman_append(of("u", np.zeros(3)))'))


def test_tuples_are_exchanged_by_the_walker(calling: Callable[..., list[str]], tmp_path: Path) -> None:
    """One under a lease that nobody acknowledges is offered again; one of another shape stays for others."""
    exchange = calling("""
        must(fields("put", "halo", [np.array(3), np.arange(4.0)]))
        n, u, wrong = np.zeros((), int), np.zeros(4), np.zeros(5)
        codes = [fields("take", "halo", [n, wrong], 10.0, 0.0)]
        codes += [fields("read", "halo", [n, u], 10.0), fields("take", "halo", [n, u], 10.0, 60.0)]
        codes += [fields("take", "halo", [n, u], 0.0, 0.0), lib.steersman_ack(b"halo")]
        codes += [fields("take", "from_python", [n], 10.0, 0.0)]
        commit(0, codes=np.array(codes), n=n, u=u)
    """)
    with Server.start(tmp_path / "bus") as server, TupleSpace.connect(server.url) as space:
        out = Out()
        out.space = space
        space.put("program.from_python", 8)
        (frame,) = frames(exchange, Start(), out)
        assert (frame["codes"].tolist(), int(frame["n"]), frame["u"].tolist()) == ([-1, 0, 0, 2, 0, 0], 8, [0, 1, 2, 3])
        assert space.names() == [] or space.count("program.halo", int, np.ndarray) == 0
