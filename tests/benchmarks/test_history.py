"""Which figures got slower: a slowdown of 1.5 is told, runs of the same thing are not, whatever the machine does."""

import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from steersman.benchmarks.history import Measurement, append, direction, figures_of, read, slower

FIGURES = 40


def run(figures: dict[str, float], reference_s: float | None = 1.0, **other: str) -> Measurement:
    facts = {"date": "2026-01-01T00:00:00+00:00", "benchmark": "kernels", "machine": "2 x CPU", "host": "here"} | other
    return Measurement(options=(), git_commit=None, versions={}, reference_s=reference_s, figures=figures, **facts)


def noisy(seed: int, runs: int, noise: float = 0.05, speeds: np.ndarray | float = 1.0) -> list[Measurement]:
    """Runs of seconds and rates with noise, on a machine that is as fast as `speeds` in each run."""
    random = np.random.default_rng(seed)
    seconds = 10.0 ** random.uniform(-5, 1, FIGURES) / np.broadcast_to(speeds, runs)[:, None]
    seconds = seconds * np.exp(noise * random.standard_normal(seconds.shape))
    names = [f"kernel{number}.{'flops_per_s' if number % 2 else 'took_s'}" for number in range(FIGURES)]
    return [
        run(dict(zip(names, np.where(np.arange(FIGURES) % 2, 1 / row, row).tolist(), strict=True)), 1 / speed)
        for row, speed in zip(seconds, np.broadcast_to(speeds, runs), strict=True)
    ]


def planted(taken: Measurement, times: float = 1.5, name: str = "") -> Measurement:
    """The same run, with one figure, or all of them, slower."""
    return replace(taken, figures={
        each: value * times ** direction(each) if name in each else value for each, value in taken.figures.items()
    })  # fmt: skip


@settings(max_examples=20)
@given(st.integers(0, 10**6), st.floats(0, 0.04))
def test_a_slowdown_of_a_half_is_told_and_five_runs_of_the_same_are_not(seed: int, noise: float) -> None:
    """40 figures with up to 4 % of noise, 3 runs or more before: 25 % are at least 5 of the difference's deviations."""
    runs = noisy(seed, 9, noise)
    for number in range(4, 9):
        assert not slower(runs[number], runs[:number])
    found = slower(planted(runs[8]), runs[:8])
    assert len(found) >= 0.9 * FIGURES
    assert all(1.25 < each.times < 1.9 for each in found.values())


@settings(max_examples=20)
@given(st.integers(0, 10**6))
def test_one_figure_that_got_slower_is_the_one_that_is_told(seed: int) -> None:
    runs = noisy(seed, 6, noise=0.02)
    assert set(slower(planted(runs[5], name="kernel7."), runs[:5])) == {"kernel7.flops_per_s"}


@settings(max_examples=20)
@given(st.integers(0, 10**6), st.floats(0.3, 3))
def test_a_machine_that_is_slower_as_a_whole_slows_no_figure(seed: int, speed: float) -> None:
    """Neither does one that is faster, though what does not follow it, such as a setting, is then slower over it."""
    runs = noisy(seed, 8, noise=0.02, speeds=np.array([1.0] * 7 + [speed]))
    runs = [replace(each, figures=each.figures | {"segment_s": 30.0}) for each in runs]
    assert not slower(runs[7], runs[:7])


def test_a_disturbed_product_alone_makes_no_figure_slower() -> None:
    runs = noisy(0, 6)
    assert not slower(replace(runs[5], reference_s=0.3), runs[:5])


def test_the_limit_follows_the_noise() -> None:
    """What varies by a third from run to run is not slower when it takes half as long again."""
    seconds = [1.0, 1.4, 0.8, 1.3, 0.7, 1.0]
    assert not slower(run({"took_s": 1.5}), [run({"took_s": each}) for each in seconds])
    assert slower(run({"took_s": 1.5}), [run({"took_s": 1 + each / 50}) for each in seconds])["took_s"].limit == 1.25


def test_only_runs_of_the_same_on_the_same_machine_are_compared() -> None:
    before, now = [run({"took_s": 1.0})] * 3, run({"took_s": 2.0})
    assert slower(now, before)
    assert not slower(now, before[:2])  # too few to know their noise
    assert not slower(replace(now, machine="1 x CPU"), before)
    assert not slower(replace(now, benchmark="bus"), before)
    assert not slower(replace(now, options=("--only", "deeplab")), before)
    assert not slower(replace(now, reference_s=None), before)
    assert slower(replace(now, host="elsewhere", git_commit="b" * 40), before)
    assert slower(replace(now, reference_s=None), [replace(each, reference_s=None) for each in before])


@pytest.mark.parametrize(
    ("name", "sign"),
    [
        ("fp32.forward_flops_per_s", -1), ("samples_per_s_bf16", -1), ("allreduce.bytes.1024.gb_per_s", -1),
        ("took_s", 1), ("take_by_field_us", 1), ("refill_p95_s", 1), ("cpu_us_per_event", 1), ("beta_s_per_byte", 1),
        ("flops_per_sample", 0), ("share_of_peak", 0), ("parameters", 0), ("walkers", 0), ("grown_mb", 0),
    ],
)  # fmt: skip
def test_a_name_says_what_is_better(name: str, sign: int) -> None:
    assert direction(name) == sign


def test_a_damaged_line_is_named_and_left_out(tmp_path: Path) -> None:
    """Also one that was cut off, to which nothing is added; what is read is what was written."""
    path, runs = tmp_path / "history.jsonl", noisy(1, 4)
    for each in runs[:2]:
        append(path, each)
    path.write_bytes(path.read_bytes() + b'{"date": 3}\n' + b'\xff\xfe{"date": "2026')
    for each in runs[2:]:
        append(path, each)
    found, damaged = read(path)
    assert found == runs
    assert [line.split(": ")[0] for line in damaged] == [f"{path}:3", f"{path}:4"]
    assert read(tmp_path / "none.jsonl") == ([], [])


def test_numbers_of_nested_objects_are_figures() -> None:
    found = figures_of({"a": {"b": 1, "c": [1, 2]}, "d_s": 0.5, "e": "text", "f": None, "g": True, "h": float("nan")})
    assert found == {"a.b": 1.0, "d_s": 0.5}


@pytest.mark.slow
def test_real_work_that_is_done_three_times_is_told() -> None:
    """Work and product take turns, so that both see the same machine; smaller slowdowns are in the histories above."""
    matrix, product = torch.randn(192, 192), torch.randn(256, 256)

    def took(amount: int, what: torch.Tensor) -> float:
        began = time.process_time()
        for _ in range(amount):
            what @ what
        return time.process_time() - began

    def taken(amount: int) -> Measurement:
        pairs = np.array([(took(amount, matrix), took(10, product)) for _ in range(20)])
        work_s, reference_s = np.median(pairs[2:], axis=0).tolist()
        return run({"work_s": work_s}, reference_s)

    assert set(slower(taken(60), [taken(20) for _ in range(5)])) == {"work_s"}
