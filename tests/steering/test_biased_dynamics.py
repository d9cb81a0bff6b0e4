"""Walkers in two wells and in six, pushed by a bias of all their frames: weights give what equilibrium has."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

from steersman.apps import six_wells
from steersman.apps.six_wells import exact, landscape, simulation
from steersman.steering import Bias, Opes, Scores
from steersman.steering.opes import ENERGY
from steersman.steering.reweighting import Reweighted, settled, weights

pytestmark = pytest.mark.slow
BARRIER_KT, STEP, REPORT, STEPS = 12.0, 1e-3, 5, 1000  # a segment is one unit of time
GRID = np.linspace(-2.2, 2.2, 2201)


@dataclass
class Run:
    """Runs of several walkers in the double well, each run with its own bias.

    Args:
        difference: (runs,) free energy of the right well less that of the left one, kT.
        crossings: (runs,) from well to well.
        z, version: (runs, n), of each frame, in order of segments; walker: (n,).
        energies: of each run, (nodes,) of each version; the first one is no bias.
    """

    difference: np.ndarray
    crossings: np.ndarray
    z: np.ndarray
    version: np.ndarray
    walker: np.ndarray
    energies: list[list[np.ndarray]]


@functools.cache
def simulated(walkers: int, segments: int, *, delay: int = 0, runs: int = 20, held_back: int = 0) -> Run:
    """Overdamped Langevin dynamics in segments, each under the newest bias of `delay` segments ago.

    Args:
        held_back: so many frames of the left well are there before the model.
    """
    rng, opes = np.random.default_rng(1), Opes("z", barrier_kT=16)
    x, side = -np.ones((runs, walkers)), -np.ones((runs, walkers))
    slope, energy = np.zeros((runs, len(GRID))), np.zeros((runs, len(GRID)))
    frames, felt, biased = [-1 + 0.1 * rng.normal(size=(runs, 1, held_back))], [np.zeros((runs, 1, held_back))], [False]
    energies, version = [[energy[run].copy()] for run in range(runs)], [np.zeros((runs, held_back), int)]
    known, crossings, each = np.zeros(runs, int), np.zeros(runs), np.arange(runs)[:, None]

    def cell(x: np.ndarray) -> np.ndarray:
        return np.asarray(np.clip((x - GRID[0]) / (GRID[1] - GRID[0]) + 0.5, 0, len(GRID) - 1), int)

    for _ in range(segments):
        noise = rng.normal(size=(STEPS, runs, walkers)) * np.sqrt(2 * STEP)
        kept = np.empty((STEPS // REPORT, runs, walkers))
        for step in range(STEPS):
            x = x - STEP * (4 * BARRIER_KT * x * (x * x - 1) + slope[each, cell(x)]) + noise[step]
            if (step + 1) % REPORT == 0:
                kept[step // REPORT] = x
                crossed = x * side < -0.8
                crossings += crossed.sum(axis=1)
                side = np.where(crossed, -side, side)
        frames.append(np.moveaxis(kept, 0, 2))
        felt.append(energy[each[..., None], cell(frames[-1])])
        biased.append(bool(known.all()))
        version.append(np.repeat([[len(made) - 1] for made in energies], frames[-1][0].size, axis=1))
        seen = len(frames) - delay
        if seen < 2:
            continue
        for run in range(runs):
            z, v = (np.concatenate([part[run].ravel() for part in parts[:seen]]) for parts in (frames, felt))
            if len(z) <= 1.02 * known[run]:
                continue
            lengths = [part[run].shape for part in frames[:seen]]
            segment = np.repeat(
                np.arange(sum(a for a, _ in lengths)), np.concatenate([np.full(a, b) for a, b in lengths])
            )
            by = np.repeat([int(flag) for flag in biased[:seen]], [a * b for a, b in lengths])
            scores = Scores(
                np.zeros(len(z), int), np.arange(len(z)), segment, np.zeros(1), np.zeros(1),
                {"z": z, ENERGY: v}, 1, biased_by=by,
            )  # fmt: skip
            made = opes.made(scores)
            slope[run], energy[run], known[run] = made.gradient(GRID), made.energy(GRID), len(z)
            energies[run].append(energy[run].copy())
    z, v = (np.concatenate([part.reshape(runs, -1) for part in parts], axis=1) for parts in (frames, felt))
    now = np.repeat(biased, [part[0].size for part in frames])
    weight = np.where(now, np.exp(v), 0.0)
    left, right = ((weight * (z * sign > 0)).sum(axis=1) for sign in (-1, 1))
    walker = np.concatenate([np.repeat(np.arange(part.shape[1]), part.shape[2]) for part in frames])
    return Run(np.log(left / right), crossings, z, np.concatenate(version, axis=1), walker, energies)


def test_weights_give_the_free_energy_whatever_the_walkers_and_the_delay() -> None:
    """Plain dynamics crosses once in 15,400 units of time; these are runs of 400."""
    errors = {
        setting: np.sqrt((simulated(*setting[:2], delay=setting[2], runs=8).difference ** 2).mean())
        for setting in ((4, 100, 0), (8, 50, 2))
    }
    assert max(errors.values()) < 0.4, errors


def test_frames_of_before_the_model_do_not_hold_walkers_back() -> None:
    assert simulated(16, 25, runs=4, held_back=800).crossings.mean() > 100


def test_dynamics_under_a_sequence_of_biases_gives_the_free_energy_of_the_wells() -> None:
    """However many walkers share the time: plain dynamics crosses once in 15,400 units of it, these are runs of 400."""
    errors, held, number = {}, 0, 0
    for walkers, segments, delay in ((4, 100, 0), (8, 50, 2)):
        run = simulated(walkers, segments, delay=delay, runs=8)
        found = []
        for z, version, energies in zip(run.z, run.version, run.energies, strict=True):
            at = np.flatnonzero(version > 0)
            order = at[np.lexsort((at, run.walker[at]))]
            order = order[settled(run.walker[order])]
            node = np.clip((z - GRID[0]) / (GRID[1] - GRID[0]) + 0.5, 0, len(GRID) - 1).astype(int)
            weight = np.zeros(len(z))
            weight[order] = weights(version[order], _energies(energies, node[order]))
            found.append(Reweighted(weight, order, run.walker[order]).difference(z > 0, z < 0))
        errors[walkers] = float(np.sqrt(np.mean([mean.value**2 for mean in found])))
        held += sum(mean.low < 0 < mean.high for mean in found)
        number += len(found)
    assert max(errors.values()) < 0.4, errors
    assert held >= number - 2


def _energies(energies: list[np.ndarray], node: np.ndarray) -> Callable[[int, slice], np.ndarray]:
    return lambda k, some: energies[k][node[some]]


def test_averages_of_biased_six_wells_equal_the_exact_ones() -> None:
    """64 walkers from the bottom of one well, pushed along both angles; of 12 seeds, 68 of 72 intervals hold."""
    walkers, rng, dt = 64, np.random.default_rng(1), simulation.TIMESTEP
    opes, x = Opes("z", barrier_kT=9, periods=2 * np.pi), np.repeat(landscape.CENTRES[:1], 64, axis=0)
    biases: list[Bias] = []
    z, version = np.empty((0, 2)), np.empty(0, int)
    for segment in range(40):
        kept = []
        for step in range(500):
            push = biases[-1].gradient(x) if biases else 0.0
            x = x + dt * (six_wells.force(x) - push) + np.sqrt(2 * dt) * rng.standard_normal(x.shape)
            if step % 25 == 24:
                kept.append((x + np.pi) % (2 * np.pi) - np.pi)
        z = np.concatenate([z, np.stack(kept, axis=1).reshape(-1, 2)])
        version = np.append(version, np.full(walkers * len(kept), len(biases)))
        felt = np.concatenate([
            biases[k - 1].energy(z[version == k]) if k else np.zeros((version == k).sum()) for k in range(segment + 1)
        ])  # fmt: skip
        row = np.arange(len(z))
        scores = Scores(row * 0, row, row // 20, row, row, {"z": z, ENERGY: felt}, 1, biased_by=(version > 0) * 1)
        biases.append(opes.made(scores))
    walker = np.tile(np.repeat(np.arange(walkers), 20), 40)
    at = np.flatnonzero(version > 0)
    order = at[np.lexsort((at, walker[at]))]
    order = order[settled(walker[order])]
    weight = np.zeros(len(z))
    weight[order] = weights(version[order], lambda k, some: biases[k - 1].energy(z[order][some]))
    found, well = Reweighted(weight, order, walker[order]), six_wells.wells(z)
    shares = [found.population(well == each) for each in range(6)]
    held = [mean.low < truth < mean.high for mean, truth in zip(shares, exact.populations(), strict=True)]
    assert sum(held) >= 5, (shares, exact.populations())
