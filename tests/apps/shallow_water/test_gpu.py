"""Shallow water on a GPU, as far as a machine without one allows; what needs one is skipped there."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from steersman.apps.shallow_water import ShallowWater, cuda_graph, run
from steersman.apps.shallow_water import cases as cases
from steersman.models.sphere import packed
from steersman.models.sphere.harmonics import SphericalHarmonics
from steersman.stages.start import Start

FROM_THE_HOST = {"aten.lift_fresh.default", "aten._to_copy.default", "aten._local_scalar_dense.default"}


def solver(make: Callable[..., cases.Case], device: str) -> tuple[ShallowWater, torch.Tensor]:
    """At T21, with its beginning."""
    torch.set_num_threads(1)
    sphere = SphericalHarmonics(21, dtype=torch.float32, device=device)
    lon, lat = np.meshgrid(sphere.longitudes, sphere.latitudes)
    case = make(lat, lon)
    model = ShallowWater(sphere, case, step_s=1200)
    return model, model.spectral(case)


class Recording(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """What a CUDA graph is, of a CPU's kernels: each with the memory that it read and wrote, and nothing else."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.calls: list[tuple[Any, Any, Any, Any]] = []

    def __torch_dispatch__(self, kernel: Any, types: Any, given: Any = (), named: Any = None) -> Any:
        found = kernel(*given, **(named or {}))
        self.calls.append((kernel, given, named or {}, found))
        return found

    def replay(self) -> None:
        """Run all of them again: results go to where they went."""
        for kernel, given, named, found in self.calls:
            again = kernel(*given, **named)
            if isinstance(found, torch.Tensor) and found.data_ptr() != again.data_ptr():
                found.copy_(again)


def graphed(function: cuda_graph.Function, samples: tuple[torch.Tensor]) -> cuda_graph.Function:
    """As torch.cuda.make_graphed_callables, which gives the same memory at every replay."""
    (given,) = samples
    function(given)
    with Recording() as recording:
        found = function(given)
    assert not FROM_THE_HOST & {str(kernel) for kernel, *_ in recording.calls}

    def replay(other: torch.Tensor) -> torch.Tensor:
        given.copy_(other)
        recording.replay()
        return found

    return replay


@pytest.mark.parametrize("make", [cases.galewsky, cases.mountain])
def test_all_that_a_step_needs_is_on_the_sphere_s_device(make: Callable[..., cases.Case]) -> None:
    """A device without memory refuses tensors of another one, and to tell a value."""
    model, state = solver(make, "meta")
    state = state + model.bump(np.random.default_rng(1), 5.0)
    later = model.step(state.repeat_interleave(3, dim=2))
    assert (later.shape[2], later.device.type) == (9, "meta")
    assert {each.device.type for each in model.fields(later)} == {"meta"}


def test_a_replay_of_the_kernels_of_a_step_is_the_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bit for bit from other states than the one it was captured with, before and after other numbers of members."""
    monkeypatch.setattr(packed, "by_numpy", packed.by_torch)
    monkeypatch.setattr(torch.cuda, "device", lambda _: nullcontext())
    monkeypatch.setattr(torch.cuda, "make_graphed_callables", graphed)
    monkeypatch.setattr(cuda_graph, "pays", lambda device, numbers: numbers < 10_000)
    model, state = solver(cases.mountain, "cpu")
    for members in (1, 2, 9, 1):
        many = torch.stack([state * (1 + 0.001 * each) for each in range(members)], 3).flatten(2)
        states, known = [many], many
        for _ in range(3):
            states.append(model.step(states[-1]))
            known = model.scheme.launched(known)
        torch.testing.assert_close(states[-1], known, rtol=0, atol=0)
        torch.testing.assert_close(states[0], many, rtol=0, atol=0)


def test_few_members_on_a_gpu_are_replayed() -> None:
    """Eight of T85 are, a thousand are not, and none elsewhere."""
    eight = 8 * 3 * 86 * 88
    assert cuda_graph.pays(torch.device("cuda"), eight)
    assert not cuda_graph.pays(torch.device("cuda"), 125 * eight)
    assert not cuda_graph.pays(torch.device("cpu"), eight)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device; never run")
@pytest.mark.parametrize("members", [1, 8])
def test_a_cuda_graph_steps_as_its_kernels_do(members: int) -> None:
    model, state = solver(cases.mountain, "cuda")
    one = two = state.repeat_interleave(members, dim=2)
    for _ in range(5):
        one, two = model.step(one), model.scheme.launched(two)
        torch.testing.assert_close(one, two, rtol=0, atol=0)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device; never run")
def test_a_run_on_a_gpu_goes_on_bit_for_bit_and_is_that_of_the_cpu() -> None:
    """To the rounding of six hours in float64."""
    settings: dict[str, Any] = {"case": "galewsky", "truncation": 21, "dtype": torch.float64}
    unbroken = list(run(Start(), seed=5, days=0.5, device="cuda", **settings))
    start = Start(frame={"state": unbroken[0].state})
    later = next(run(start, seed=6, days=0.25, device="cuda", **settings))
    np.testing.assert_array_equal(later.state, unbroken[1].state)
    here = next(run(Start(), seed=5, days=0.25, **settings))
    np.testing.assert_allclose(unbroken[0].height, here.height, rtol=1e-6)
