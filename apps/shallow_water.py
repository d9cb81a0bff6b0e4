"""Shallow water on the rotating sphere: vorticity, divergence and geopotential in spherical harmonics.

    for frame in run(Start(), seed=1, case="galewsky", days=6): frame.vorticity, frame.height, ...

The step is one function state -> state: an exponential Runge-Kutta scheme of fourth order that treats gravity waves of
the mean depth exactly, so a run goes on bit for bit from one stored state.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch

from steersman.apps.errors import FlowUnstable, OutOfRange
from steersman.apps.shallow_water_cases import GRAVITY, RADIUS, Case, named
from steersman.apps.spherical_harmonics import SphericalHarmonics, coupling
from steersman.apps.start import Start
from steersman.store import Variable

STEPS = (3600, 2400, 1800, 1200, 900, 600, 450, 300, 240, 150, 120)  # seconds, parts of a day
SAFE, LARGEST = 102_000, 150_000  # step x truncation: what is taken by default, and what was stable in every case
TERMS = 20  # of the series of the phi functions near 0

VARIABLES = {
    "time": Variable((), "d", "time"),
    "height": Variable(("lon", "lat"), "m", "height of the free surface"),
    "vorticity": Variable(("lon", "lat"), "s-1", "relative vorticity"),
    "u": Variable(("lon", "lat"), "m s-1", "eastward wind"),
    "v": Variable(("lon", "lat"), "m s-1", "northward wind"),
    "state": Variable(("order", "degree", "field", "part"), "1", "coefficients of vorticity, divergence, geopotential"),
}


@dataclass(frozen=True)
class Frame:
    """One moment: fields (longitude, latitude) float32 in SI units, and the coefficients to go on from exactly.

    Args:
        state: (order, degree - order, 3, 2) of vorticity, divergence, geopotential; real and imaginary part.
    """

    time_days: float
    height: np.ndarray
    vorticity: np.ndarray
    u: np.ndarray
    v: np.ndarray
    state: np.ndarray

    @property
    def stored(self) -> dict[str, np.ndarray]:
        """All but the time, by the names of VARIABLES."""
        return {name: getattr(self, name) for name in VARIABLES if name != "time"}


def run(
    start: Start,
    *,
    seed: int,
    days: float,
    case: str = "jet",
    truncation: int = 42,
    report_hours: float = 6.0,
    step_s: float | None = None,
    diffusion_hours: float | None = 12.0,
    perturbation_m: float = 0.0,
    dtype: torch.dtype = torch.float32,
) -> Iterator[Frame]:
    """Simulate from a stored frame, or from a case: its `jet` gets parameters drawn from the seed.

    Args:
        step_s: rounded down to a part of report_hours; None takes a safe one for the truncation.
        diffusion_hours: time in which the smallest waves decay to 1/e (fourth-order diffusion); None: not at all.
        perturbation_m: spread of smooth random heights added to a stored frame, so that a restart becomes another.
    Raises:
        UnknownCase, OutOfRange: told before the first step.
        FlowUnstable: NaN or no water left; the frames before that have been given.
    """
    solver, beginning = _solver(case, truncation, report_hours, step_s, diffusion_hours, dtype)
    rng = np.random.default_rng(seed)
    if "state" in start.frame:
        stored = torch.as_tensor(np.array(start.frame["state"]), dtype=dtype)
        state = torch.view_as_complex(stored) + solver.bump(rng, perturbation_m)
    elif case == "jet":
        state = solver.spectral(named(case)(*solver.grid, rng.standard_normal(8)))
    else:
        state = solver.spectral(beginning)
    steps = round(report_hours * 3600 / solver.step_s)
    for report in range(1, round(days * 24 / report_hours) + 1):
        for _ in range(steps):
            state = solver.step(state)
        frame = solver.frame(state, report * report_hours / 24)
        if not np.isfinite(frame.height).all():
            raise FlowUnstable(frame.time_days, seed, "NaN")
        yield frame


@functools.lru_cache(maxsize=2)
def _solver(
    case: str,
    truncation: int,
    report_hours: float,
    step_s: float | None,
    diffusion_hours: float | None,
    dtype: torch.dtype,
) -> tuple[ShallowWater, Case]:
    """Kept warm between the segments of a process."""
    if not 5 <= truncation <= 341:
        raise OutOfRange("truncation", truncation, "5 to 341")
    wanted = default_step(truncation) if step_s is None else step_s
    if wanted * truncation > LARGEST:
        raise OutOfRange(
            "step_s", wanted, f"at most {LARGEST // truncation} s at T{truncation}: longer ones are unstable"
        )
    step = report_hours * 3600 / math.ceil(report_hours * 3600 / wanted)
    torch.set_num_threads(1)
    sphere = SphericalHarmonics(truncation, dtype=dtype)
    lon, lat = np.meshgrid(sphere.longitudes, sphere.latitudes, indexing="ij")
    beginning = named(case)(lat, lon, *([np.zeros(8)] if case == "jet" else []))
    return ShallowWater(sphere, beginning, step_s=step, diffusion_hours=diffusion_hours), beginning


def default_step(truncation: int) -> int:
    """The longest step in seconds with a margin to what stayed stable."""
    return next((step for step in STEPS if step * truncation <= SAFE), STEPS[-1])


class ShallowWater:
    """The equations on one sphere, for any number of members at once.

    A state is complex (order, degree - order, 3 members): the columns of vorticity, then of divergence, then of
    geopotential (gravity times depth).

    Args:
        case: gives orography, Coriolis parameter and the mean depth whose waves are treated exactly.
        step_s: seconds of one step.
        diffusion_hours: see `run`.
    Source: Hack and Jakob (1992), NCAR/TN-343; Cox and Matthews (2002) for the scheme, here with the exponentials of
        the linear gravity waves, which are diagonal in the degree.
    """

    def __init__(
        self, sphere: SphericalHarmonics, case: Case, *, step_s: float, diffusion_hours: float | None = None
    ) -> None:
        self.sphere, self.step_s = sphere, step_s
        lon, lat = np.meshgrid(sphere.longitudes, sphere.latitudes, indexing="ij")
        self.grid = lat, lon
        self._area = sphere.weights / (2 * sphere.columns)
        self._coriolis = self._field(case.coriolis)
        self._cosine = self._field(np.cos(lat))
        self._over_cosine2 = self._field(1 / np.cos(lat) ** 2)
        self._ground = sphere.analysis(self._field(GRAVITY * case.orography)) * sphere.inside
        self.mean_geopotential = GRAVITY * float(((case.depth + 0 * lat) * self._area).sum())
        self._prepare_derivatives()
        self._prepare_exponentials()
        self._damping = self._diffusion(diffusion_hours)

    def step(self, state: torch.Tensor) -> torch.Tensor:
        """The state one step later (ETDRK4)."""
        half, whole, first, once, twice, last = self._exponentials
        drifted = self._apply(half, state)
        n1 = self.tendency(state)
        a = drifted + self._apply(first, n1)
        n2 = self.tendency(a)
        n3 = self.tendency(drifted + self._apply(first, n2))
        n4 = self.tendency(self._apply(half, a) + self._apply(first, 2 * n3 - n1))
        moved = self._apply(whole, state) + self._apply(once, n1) + self._apply(twice, n2 + n3) + self._apply(last, n4)
        return moved if self._damping is None else moved * self._damping

    def tendency(self, state: torch.Tensor) -> torch.Tensor:
        """Everything but the linear gravity waves of the mean depth."""
        members = state.shape[2] // 3
        vorticity, geopotential, u, v = self._winds(state)
        absolute = (vorticity + self._coriolis) * self._over_cosine2
        mass = geopotential * self._over_cosine2
        kinetic = 0.5 * (u * u + v * v) * self._over_cosine2
        products = self.sphere.analysis(torch.cat((u * absolute, v * absolute, u * mass, v * mass, kinetic), 2))
        a, b, c, d, energy = _split(products, members)
        curl, flux = self._curl(a, b), self._divergence(a, b)
        divergence = state[:, :, members : 2 * members]
        outflow = self._divergence(c, d) - self.mean_geopotential * divergence
        return torch.cat((-flux, curl + self._laplace * (energy + self._ground), -outflow), 2) * self.sphere.inside

    def spectral(self, case: Case) -> torch.Tensor:
        """The state (one member) of fields on the grid."""
        u, v, depth = self._field(case.u), self._field(case.v), self._field(case.depth)
        along = self._cosine * self._over_cosine2
        a, b, geopotential = _split(self.sphere.analysis(torch.cat((u * along, v * along, GRAVITY * depth), 2)), 1)
        return torch.cat((self._curl(a, b), self._divergence(a, b), geopotential), 2) * self.sphere.inside

    def fields(self, state: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
        """Depth (m), u, v (m/s) and vorticity (1/s) on the grid, each (longitude, latitude, members)."""
        vorticity, geopotential, u, v = self._winds(state)
        return geopotential / GRAVITY, u / self._cosine, v / self._cosine, vorticity

    def frame(self, state: torch.Tensor, time_days: float) -> Frame:
        """The first member as it is stored."""
        ground = self.sphere.synthesis(self._ground)[..., 0] / GRAVITY
        depth, u, v, vorticity = (field[..., 0] for field in self.fields(state))
        return Frame(
            time_days, _float32(depth + ground), _float32(vorticity), _float32(u), _float32(v),
            torch.view_as_real(state).cpu().numpy(),
        )  # fmt: skip

    def bump(self, rng: np.random.Generator, spread_m: float) -> torch.Tensor:
        """Smooth random heights as a state to be added; the mass stays as it is."""
        state = torch.zeros(*self.sphere.degree.shape, 3, dtype=_complex(self.sphere.dtype))
        if spread_m:
            chosen = (self.sphere.degree >= 1) & (self.sphere.degree <= 8)
            values = rng.normal(size=(2, *chosen.shape)) * chosen * (GRAVITY * spread_m / math.sqrt(chosen.sum()))
            values[1, 0] = 0  # coefficients of order 0 are real
            state[:, :, 2] = torch.as_tensor(values[0] + 1j * values[1])
        return state

    def invariants(self, state: torch.Tensor) -> dict[str, float]:
        """Means over the sphere of the first member: mass (m), energy (m3/s2), potential enstrophy (1/(m s2))."""
        depth, u, v, vorticity = (field[..., 0].double().cpu().numpy() for field in self.fields(state))
        ground = self.sphere.synthesis(self._ground)[..., 0].double().cpu().numpy() / GRAVITY
        coriolis = self._coriolis[..., 0].double().cpu().numpy()
        energy = 0.5 * depth * (u**2 + v**2) + 0.5 * GRAVITY * ((depth + ground) ** 2 - ground**2)
        values = {"mass": depth, "energy": energy, "potential_enstrophy": 0.5 * (vorticity + coriolis) ** 2 / depth}
        return {name: float((value * self._area).sum()) for name, value in values.items()}

    def _winds(self, state: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Vorticity, geopotential, u cos(lat), v cos(lat) on the grid."""
        members = state.shape[2] // 3
        vorticity, divergence, geopotential = _split(state, members)
        stream, potential = vorticity * self._inverse_laplace, divergence * self._inverse_laplace
        u = (1j * self._order * potential - self._slope(stream)) / RADIUS
        v = (1j * self._order * stream + self._slope(potential)) / RADIUS
        return _split(self.sphere.synthesis(torch.cat((vorticity, geopotential, u, v), 2)), members)

    def _curl(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return (1j * self._order * b + self._by_parts(a)) / RADIUS

    def _divergence(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return (1j * self._order * a - self._by_parts(b)) / RADIUS

    def _slope(self, q: torch.Tensor) -> torch.Tensor:
        """cos(lat) d/dlat of coefficients."""
        return self._above * _next(q) - self._below * _previous(q)

    def _by_parts(self, q: torch.Tensor) -> torch.Tensor:
        """The same of what was divided by cos2(lat), the derivative moved to the harmonics."""
        return self._below_parts * _previous(q) - self._above_parts * _next(q)

    def _prepare_derivatives(self) -> None:
        sphere, degree, order = self.sphere, self.sphere.degree.astype(float), self.sphere.order
        known = degree <= sphere.truncation + 1
        here, above = coupling(order, degree) * known, coupling(order, degree + 1) * known
        self._order = sphere.coefficients(order + 0.0 * degree)
        self._above = sphere.coefficients((degree + 2) * above)
        self._below = sphere.coefficients((degree - 1) * here)
        self._below_parts = sphere.coefficients((degree + 1) * here)
        self._above_parts = sphere.coefficients(degree * above)
        eigenvalues = degree * (degree + 1) / RADIUS**2
        self._laplace = sphere.coefficients(eigenvalues)
        inverse = np.where(eigenvalues > 0, -1 / np.where(eigenvalues > 0, eigenvalues, 1), 0) * known
        self._inverse_laplace = sphere.coefficients(inverse)

    def _prepare_exponentials(self) -> None:
        """Functions f of the step times L, where L couples divergence and geopotential with frequency w: L^2 = -w^2."""
        degree, step = self.sphere.degree, self.step_s
        frequency = np.sqrt(degree * (degree + 1) * self.mean_geopotential) / RADIUS
        z = 1j * frequency * step
        one, two, three = (phi(n, z) for n in (1, 2, 3))
        functions = {
            "half": (1.0, np.exp(z / 2)),
            "whole": (1.0, np.exp(z)),
            "first": (step / 2, step / 2 * phi(1, z / 2)),
            "once": (step / 6, step * (one - 3 * two + 4 * three)),
            "twice": (step / 3, step * (2 * two - 4 * three)),
            "last": (step / 6, step * (4 * three - two)),
        }
        over = np.where(frequency > 0, 1 / np.where(frequency > 0, frequency, 1), 0)
        self._exponentials = [
            (at_rest, self.sphere.coefficients(f.real), self.sphere.coefficients(f.imag * over))
            for at_rest, f in functions.values()
        ]

    def _apply(self, function: tuple[float, torch.Tensor, torch.Tensor], state: torch.Tensor) -> torch.Tensor:
        """f(L) of a state: Re f + Im f / w L."""
        at_rest, even, odd = function
        vorticity, divergence, geopotential = _split(state, state.shape[2] // 3)
        return torch.cat(
            (
                at_rest * vorticity,
                even * divergence + odd * (self._laplace * geopotential),
                even * geopotential - odd * (self.mean_geopotential * divergence),
            ),
            2,
        )

    def _diffusion(self, hours: float | None) -> torch.Tensor | None:
        if hours is None:
            return None
        degree, most = self.sphere.degree, self.sphere.truncation * (self.sphere.truncation + 1)
        decay = np.exp(-((degree * (degree + 1) / most) ** 2) * self.step_s / (3600 * hours))
        return self.sphere.coefficients(decay * (degree <= self.sphere.truncation))

    def _field(self, values: np.ndarray) -> torch.Tensor:
        field = torch.as_tensor(values, dtype=self.sphere.dtype, device=self.sphere.device)
        return field if field.ndim == 3 else field[..., None]


def phi(n: int, z: np.ndarray) -> np.ndarray:
    """phi_n(z) = (exp(z) - sum of its first n Taylor terms) / z^n, by its series near 0."""
    near = np.abs(z) < 1
    found = np.zeros_like(z)
    term = np.full(near.sum(), 1 / math.factorial(n), dtype=z.dtype)
    for j in range(TERMS):
        found[near] += term
        term = term * z[near] / (n + j + 1)
    far = z[~near]
    value = np.exp(far)
    for j in range(n):
        value = (value - 1 / math.factorial(j)) / far
    found[~near] = value
    return found


def _float32(field: torch.Tensor) -> np.ndarray:
    stored: np.ndarray = field.to(torch.float32).cpu().numpy()
    return stored


def _split(columns: torch.Tensor, members: int) -> tuple[torch.Tensor, ...]:
    return tuple(torch.split(columns, members, 2))


def _next(q: torch.Tensor) -> torch.Tensor:
    """Coefficients of degree l + 1 at the place of l."""
    return torch.cat((q[:, 1:], torch.zeros_like(q[:, :1])), 1)


def _previous(q: torch.Tensor) -> torch.Tensor:
    return torch.cat((torch.zeros_like(q[:, :1]), q[:, :-1]), 1)


def _complex(dtype: torch.dtype) -> torch.dtype:
    return torch.complex128 if dtype == torch.float64 else torch.complex64
