"""Shallow water on the rotating sphere: vorticity, divergence and geopotential in spherical harmonics.

    for frame in run(Start(), seed=1, case="galewsky", days=6): frame.vorticity, frame.height, ...
    for frames in run_members(starts, seeds=seeds, case="stirred", days=1): ...  # cheaper for each

The step is one function state -> state: an exponential Runge-Kutta scheme of fourth order that treats gravity waves of
the mean depth exactly, so a run goes on bit for bit from one stored state.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from steersman.apps.errors import SimulationUnstable, wrong_start
from steersman.apps.shallow_water.cases import GRAVITY, RADIUS, Case, named
from steersman.apps.shallow_water.derivatives import Derivatives
from steersman.apps.shallow_water.forcing import Forcing
from steersman.apps.shallow_water.scheme import Scheme
from steersman.apps.shallow_water.transport import Transport
from steersman.models.device import best
from steersman.models.sphere.harmonics import SphericalHarmonics, fewest_rows
from steersman.stages.segment import Segment
from steersman.stages.start import Start
from steersman.store import Variable
from steersman.system.errors import BadInput, BadValue, UnknownName

if TYPE_CHECKING:
    from steersman.models.networks.corrector import Corrector

STEPS = (3600, 2400, 1800, 1200, 900, 720, 600, 450, 300, 240, 150, 120)  # seconds, parts of a day
# Step x truncation: what is taken by default, and beyond which nothing is stable. In between the smallest waves may
# grow by some 3 % a step: at 102,000 Rossby-Haurwitz waves blew up on day 3 at T170, on day 7 at T85; not at 76,500.
SAFE, LARGEST = 82_000, 150_000
FORGOTTEN_DAYS = 120  # in which a flow with a climate forgets its start: twice the slowest time of its forcing
COURANT = 2.8  # wind x step x truncation / radius: on the imaginary axis, Runge-Kutta of fourth order is stable to 2.83


def latitudes(rows: int) -> np.ndarray:
    """(rows,) float64, degrees: the Gaussian latitudes of a grid, from the north."""
    return np.degrees(np.arcsin(np.polynomial.legendre.leggauss(rows)[0][::-1]))


def longitudes(columns: int) -> np.ndarray:
    """(columns,) float64, degrees east, evenly spaced from 0."""
    return np.arange(columns) * 360 / columns


FIELDS = {
    "time": Variable((), "d", "time"),
    "height": Variable(("lat", "lon"), "m", "height of the free surface"),
    "vorticity": Variable(("lat", "lon"), "s-1", "relative vorticity"),
    "u": Variable(("lat", "lon"), "m s-1", "eastward wind"),
    "v": Variable(("lat", "lon"), "m s-1", "northward wind"),
    "tracer": Variable(("lat", "lon"), "1", "concentration of a passive tracer"),
    "state": Variable(("order", "degree", "field", "part"), "1", "coefficients of vorticity, divergence, geopotential"),
}
VARIABLES = {
    **FIELDS,
    "lat": Variable((), "degrees_north", "latitude", latitudes),
    "lon": Variable((), "degrees_east", "longitude", longitudes),
}


@dataclass(frozen=True)
class Frame:
    """One moment: fields (latitude from the north, longitude), float32, SI units; coefficients to go on from exactly.

    Args:
        state: (order, degree - order, 3, 2) of vorticity, divergence, geopotential; real and imaginary part. A tracer
            is a fourth field (see ShallowWater); a prescribed wind leaves two, tracer and clock (see Transport).
        tracer: None unless one is carried.
    """

    time_days: float
    height: np.ndarray
    vorticity: np.ndarray
    u: np.ndarray
    v: np.ndarray
    state: np.ndarray
    tracer: np.ndarray | None = None

    @property
    def stored(self) -> dict[str, np.ndarray]:
        """All but the time, by the names of FIELDS."""
        fields = {name: getattr(self, name) for name in FIELDS if name != "time"}
        return {name: values for name, values in fields.items() if values is not None}


def run(start: Start, *, seed: int, parameters: np.ndarray | None = None, **settings: Any) -> Iterator[Frame]:
    """Simulate from a case, or where a `state` is given, in the start's state or frame, and no parameters, on from it.

    From then on torch and numpy's matrix products take one thread in this process: more are slower here.

    Args:
        parameters: (8,) of the case `jet`, for which a standard normal distribution is meant; None draws them from the
            seed.
        settings: `days=`, and others of `run_members`.
    Raises:
        BadInput, UnknownName (a case or device, or the frame has no `state`): raised before the first step.
        SimulationUnstable: NaN, no water left, or a wind too strong for the step; the frames before that have been
            given.
    """
    for (frame,) in run_members([start], seeds=[seed], parameters=[parameters], **settings):
        if isinstance(frame, Exception):
            raise frame
        yield frame


def run_members(
    starts: Sequence[Start],
    *,
    seeds: Sequence[int],
    days: float,
    case: str = "jet",
    parameters: Sequence[np.ndarray | None] | None = None,
    truncation: int = 42,
    report_hours: float = 6.0,
    step_s: float | None = None,
    diffusion_hours: float | None = 12.0,
    perturbation_m: float = 0.0,
    tracer: bool = False,
    rows: int | None = None,
    dtype: torch.dtype = torch.float32,
    device: str = "cpu",
    corrector: Corrector | None = None,
) -> Iterator[list[Frame | Exception]]:
    """Simulate several members at once, each from its start with its seed: a cheap solver takes half the time for each.

    A member's frames are those of any other time that the same members stand at the same places, bit for bit; among
    others, or alone, they differ by rounding.

    Args:
        days: a multiple of report_hours.
        parameters: of each member, see `run`.
        step_s: rounded down to a part of report_hours; None takes a safe one for truncation and wind.
        diffusion_hours: time in which the smallest waves decay to 1/e (fourth-order diffusion); None: not at all.
        perturbation_m: spread of smooth random heights added to a stored frame, so that a restart becomes another.
        tracer: carry one that begins as (1 + sin(latitude)) / 2, unless the case has its own.
        rows: latitudes of the grid, half as many as longitudes; None takes the fewest for the truncation.
        device: "cpu", or where there is a GPU "cuda", "cuda:1", "xpu".
        corrector: network that corrects the state at each report, as it was trained to with this solver, see `Coarse`.
    Returns: for each report a frame of every member; in place of one that was no start or has become unstable, why.
    Raises: BadInput, UnknownName: as `run`, of what is the same for all.
    """
    if not 0 <= perturbation_m < math.inf:
        raise BadValue("perturbation_m", perturbation_m, "give 0 or more")
    given = [None] * len(starts) if parameters is None else list(parameters)
    for each in given or [None]:
        _check(days, report_hours, diffusion_hours, case, each)
    rows = rows_for_networks(truncation) if rows is None and corrector else rows
    model, beginning = solver_of(case, truncation, report_hours, step_s, diffusion_hours, tracer, rows, dtype, device)
    if beginning.climate and truncation < (last := beginning.climate.degrees[1]):
        raise BadValue("truncation", truncation, f"give {last} or more, up to which this climate is stirred")
    if isinstance(model, Transport) and len(starts) > 1:
        raise BadValue("starts", len(starts), "give one where the wind is prescribed")
    if corrector and (made := made_of(model, case, report_hours)) != (meant := corrector.config.get("solver")):
        raise BadValue("the solver of corrector=", made, f"it corrects {meant}")
    generators = [np.random.default_rng(seed) for seed in seeds]
    drawn = zip(starts, generators, given, strict=True)
    states, failed = [], dict[int, Exception]()
    for i, (start, rng, each) in enumerate(drawn):
        try:
            states.append(_begun(model, beginning, case, start, rng, each, perturbation_m))
        except BadInput as error:  # the others go on, beside one that is at rest
            failed[i] = error
            states.append(model.spectral(beginning))
    state = torch.stack(states, 3).flatten(2)
    steps = round(report_hours * 3600 / model.step_s)
    for report in range(1, round(days * 24 / report_hours) + 1):
        for _ in range(steps):
            state = model.forced(model.step(state), generators)
        state = model.corrected(state, corrector) if corrector and isinstance(model, ShallowWater) else state
        time_days, shown, packed = report * report_hours / 24, model.shown(state), _packed(state, len(states))
        frames = list[Frame | Exception]()
        for i, seed in enumerate(seeds):
            fields = {name: field[i] for name, field in shown.items()}
            if i not in failed and (cause := _trouble(model, fields)):
                failed[i] = SimulationUnstable(f"day {time_days:g}", seed, cause)
            if i in failed:
                frames.append(failed[i])
                continue
            kept = {name: field.to(torch.float32).cpu().numpy() for name, field in fields.items() if name != "depth"}
            frames.append(Frame(time_days, state=packed[i], **kept))
        yield frames


def run_batch(
    starts: Sequence[Start], outs: Sequence[Segment], **settings: Any
) -> Iterator[tuple[Start, Segment, Frame]]:
    """Simulate what a function of `@wf.simulate(batch=...)` is given: each report gives every member with its frame.

    A start without a state begins in the archive that was prepared, if one was, see `of_archive`. A member that is no
    start, or becomes unstable, fails and comes no more; the others go on.

    Args:
        settings: see `run_members`.
    """
    begun = [
        start if start.prepared is None else of_archive(start, out.seed)
        for start, out in zip(starts, outs, strict=True)
    ]
    for frames in run_members(begun, seeds=[out.seed for out in outs], **settings):
        for start, out, frame in zip(starts, outs, frames, strict=True):
            if isinstance(frame, Exception):
                out.fail(frame)
            else:
                yield start, out, frame


def stationary(members: int, days: int, *, seed: int = 0, every_days: int = 5, **settings: Any) -> np.ndarray:
    """States of a flow with a climate, to begin from: of its stationary distribution, once it has forgotten its start.

    The first `FORGOTTEN_DAYS` of each member are left out.

    Args:
        days: of each member after that; every `every_days` of them give a state.
        settings: of `run_members`; the case is "stirred" if none is given.
    Returns: (states, order, degree - order, 3, 2) float32, members side by side, a frame's `state` each.
    Raises: SimulationUnstable: a member is.
    """
    given: dict[str, Any] = {"case": "stirred", "report_hours": 24.0} | settings
    states, seeds = [], [int(each) for each in np.random.SeedSequence(seed).generate_state(members, np.uint64)]
    whole = run_members([Start()] * members, seeds=seeds, days=FORGOTTEN_DAYS + days, **given)
    for day, frames in enumerate(whole, 1):
        for frame in frames:
            if isinstance(frame, Exception):
                raise frame
            if day > FORGOTTEN_DAYS and not (day - FORGOTTEN_DAYS) % every_days:
                states.append(frame.state)
    return np.stack(states)


def of_archive(start: Start, seed: int) -> Start:
    """A start that goes on from its state, or its frame; without one it begins at a state of `start.prepared`, see
    `stationary`, that `start.point(1, seed)` picks."""
    if "state" in start.state or "state" in start.frame:
        return start
    archive = start.prepared
    return replace(start, frame={"state": archive[int(start.point(1, seed)[0] * len(archive))]})


def box(field: np.ndarray, latitude: tuple[float, float], longitude: tuple[float, float]) -> np.ndarray:
    """(...) mean of fields (..., latitude, longitude) on a whole grid over a box, degrees; by area, inside its edges.

    A box over longitude 0 has a first longitude below 0.
    Raises: BadValue: no point of the grid is inside.
    """
    north, east = latitudes(field.shape[-2]), longitudes(field.shape[-1])
    inside = (north > latitude[0]) & (north < latitude[1])
    along = (east - longitude[0]) % 360 < longitude[1] - longitude[0]
    if not inside.any() or not along.any():
        raise BadValue("latitude, longitude", (latitude, longitude), "give a box with points of the grid in it")
    area = np.cos(np.radians(north[inside]))
    return np.asarray((field[..., inside, :][..., along].mean(-1) * area).sum(-1) / area.sum())


def _begun(
    model: ShallowWater | Transport, beginning: Case, case: str, start: Start, rng: np.random.Generator,
    parameters: np.ndarray | None, perturbation_m: float,
) -> torch.Tensor:  # fmt: skip
    """The state of one member to begin with. Raises: BadInput: it is none."""
    stored = None
    if parameters is None:
        stored = start.state["state"] if "state" in start.state else start.frame.get("state")
    if stored is not None:
        state = _stored(model, stored)
        state = state + model.bump(rng, perturbation_m) if perturbation_m else state
    elif case == "jet":
        jet = rng.standard_normal(8) if parameters is None else parameters
        state = model.spectral(replace(named(case)(*model.grid, jet), tracer=beginning.tracer))
    else:
        state = model.spectral(beginning)
    if cause := _trouble(model, {name: field[0] for name, field in model.shown(state).items()}):
        raise wrong_start("state", tuple(torch.view_as_real(state).shape), cause)
    return state


def _packed(state: torch.Tensor, members: int) -> np.ndarray:
    """(members, order, degree - order, columns, 2) of the state of all."""
    each = torch.unflatten(torch.view_as_real(state), 2, (-1, members)).movedim(3, 0)
    return np.asarray(each.contiguous().cpu().numpy())


def _check(
    days: float, report_hours: float, diffusion_hours: float | None, case: str, parameters: np.ndarray | None
) -> None:
    """Raise BadValue for what no run can have."""
    for name, hours in (("report_hours", report_hours), ("diffusion_hours", diffusion_hours)):
        if hours is not None and not 0 < hours < math.inf:
            raise BadValue(name, hours, "give more than 0")
    reports = days * 24 / report_hours
    if not 0.5 < reports < math.inf or abs(reports - round(reports)) > 1e-6 * reports:
        raise BadValue("days", days, f"give a multiple of report_hours, which is {report_hours / 24:g} days")
    if parameters is not None and (case != "jet" or np.shape(parameters) != (8,) or not np.isfinite(parameters).all()):
        finite = int(np.isfinite(parameters).sum())
        raise BadValue("the number of finite parameters", finite, "give 8 of 8, and none in cases other than 'jet'")


@functools.lru_cache(maxsize=4)
def solver_of(
    case: str,
    truncation: int,
    report_hours: float,
    step_s: float | None = None,
    diffusion_hours: float | None = 12.0,
    tracer: bool = False,
    rows: int | None = None,
    dtype: torch.dtype = torch.float32,
    device: str = "cpu",
    scheme: Callable[..., Any] = Scheme,
) -> tuple[ShallowWater | Transport, Case]:
    """Solver and beginning of a run, see `run_members`; kept warm between the segments of a process."""
    if truncation not in range(5, 342):
        raise BadValue("truncation", truncation, "give 5 to 341, a whole number")
    if device.split(":")[0] not in (here := ("cpu", best().type)):
        raise UnknownName("device", device, tuple(dict.fromkeys(here)))
    torch.set_num_threads(1)
    sphere = SphericalHarmonics(truncation, rows=rows, dtype=dtype, device=device)
    lon, lat = np.meshgrid(sphere.longitudes, sphere.latitudes)
    beginning = named(case)(lat, lon, *([np.zeros(8)] if case == "jet" else []))
    if tracer and beginning.tracer is None:
        beginning = replace(beginning, tracer=(1 + np.sin(lat)) / 2)
    speed = float(np.hypot(beginning.u, beginning.v).max())
    largest = min(LARGEST / truncation, largest_step(truncation, speed))
    wanted = min(default_step(truncation), largest) if step_s is None else step_s
    if not 0 < wanted <= largest:
        raise BadValue(
            "step_s", wanted, f"give more than 0 and at most {int(largest)} s at T{truncation}: longer is unstable"
        )
    step = report_hours * 3600 / math.ceil(report_hours * 3600 / wanted)
    if beginning.wind is not None:
        return Transport(sphere, beginning, step_s=step), beginning
    return ShallowWater(sphere, beginning, step_s=step, diffusion_hours=diffusion_hours, scheme=scheme), beginning


def made_of(model: ShallowWater | Transport, case: str, report_hours: float) -> dict[str, Any]:
    """What decides how a solver errs until its next report."""
    numbers = {"truncation": model.sphere.truncation, "step_s": model.step_s, "report_hours": report_hours}
    return {"case": case, "columns": model.columns, "diffusion_hours": model.diffusion_hours, **numbers}


def default_step(truncation: int) -> int:
    """The longest step in seconds with a margin to what stayed stable."""
    return next((step for step in STEPS if step * truncation <= SAFE), STEPS[-1])


def rows_for_networks(truncation: int) -> int:
    """Latitudes of the smallest grid for a truncation that networks take, which halve it three times."""
    return fewest_rows(truncation, multiple_of=8)


def largest_step(truncation: int, speed: float) -> float:
    """The longest step, s, that is stable while the wind stays below `speed`, m/s."""
    return COURANT * RADIUS / (truncation * max(speed, 1e-3))


def _stored(model: ShallowWater | Transport, values: np.ndarray) -> torch.Tensor:
    expected = (*model.sphere.degree.shape, model.columns, 2)
    if np.shape(values) != expected:
        raise wrong_start("state", expected, f"it has shape {np.shape(values)}: another truncation, or another tracer")
    return torch.view_as_complex(
        torch.as_tensor(np.array(values), dtype=model.sphere.dtype, device=model.sphere.device)
    )


def _trouble(model: ShallowWater | Transport, shown: dict[str, torch.Tensor]) -> str:
    """Why a run cannot go on from these fields, or ""."""
    if not all(bool(field.isfinite().all()) for field in shown.values()):
        return "NaN"
    depth, speed = float(shown["depth"].min()), float(torch.hypot(shown["u"], shown["v"]).max())
    if depth <= 0:
        return f"the depth is {depth:.4g} m somewhere"
    largest = largest_step(model.sphere.truncation, speed)
    too_long = f"a wind of {speed:.0f} m/s allows steps of at most {largest:.0f} s, not {model.step_s:g} s"
    return too_long if model.step_s > largest else ""


class ShallowWater:
    """The equations on one sphere, for any number of members at once.

    A state is complex (order, degree - order, columns x members): the columns of vorticity, then of divergence, then
    of geopotential (gravity times depth), then, when the case has a tracer, of geopotential times concentration.

    Args:
        case: gives orography, Coriolis parameter, the mean depth whose waves are treated exactly, and whether there is
            a tracer.
        step_s: seconds of one step.
        diffusion_hours: see `run_members`.
        scheme: makes the step, as Scheme does; through that of PlainScheme gradients go.
    Source: Hack and Jakob (1992), NCAR/TN-343; the scheme is in apps/shallow_water/scheme.py.
    """

    def __init__(
        self, sphere: SphericalHarmonics, case: Case, *, step_s: float, diffusion_hours: float | None = None,
        scheme: Callable[..., Any] = Scheme,
    ) -> None:  # fmt: skip
        self.sphere, self.step_s, self.diffusion_hours = sphere, step_s, diffusion_hours
        self.columns = 3 if case.tracer is None else 4
        lon, lat = np.meshgrid(sphere.longitudes, sphere.latitudes)
        self.grid = lat, lon
        self._cosine = self._field(np.cos(sphere.latitudes)[:, None])
        self.ground = sphere.analysis(self._field(GRAVITY * case.orography)) * sphere.inside
        self._calculus = Derivatives(sphere, RADIUS)
        area = sphere.weights[:, None] / (2 * sphere.columns)
        depth = float(((case.depth + 0 * lat) * area).sum())
        decay = 0.0 if diffusion_hours is None else step_s / (3600 * diffusion_hours)
        degree, most = sphere.degree, sphere.truncation * (sphere.truncation + 1)
        self.scheme = scheme(
            sphere, self.columns, step_s=step_s, mean_geopotential=GRAVITY * depth,
            damping=np.exp(-((degree * (degree + 1) / most) ** 2) * decay) * (degree <= sphere.truncation),
            ground=self.ground if np.any(case.orography) else None,
            planetary=sphere.analysis(self._field(case.coriolis)) * sphere.coefficients(degree == 1),
        )  # fmt: skip
        self._forcing = Forcing(sphere, case.climate, self.spectral(case), step_s) if case.climate else None

    def step(self, state: torch.Tensor) -> torch.Tensor:
        """The state one step later (ETDRK4)."""
        later: torch.Tensor = self.scheme.step(state)
        return later

    def forced(self, state: torch.Tensor, generators: Sequence[np.random.Generator]) -> torch.Tensor:
        """The state after what drives and damps a climate has acted for a step, with random numbers of each member."""
        return self._forcing(state, generators) if self._forcing else state

    def spectral(self, case: Case) -> torch.Tensor:
        """The state (one member) of fields on the grid."""
        geopotential = GRAVITY * self._field(case.depth)
        amount = [] if case.tracer is None else [geopotential * self._field(case.tracer)]
        return self.of_fields(self._field(case.u), self._field(case.v), geopotential, *amount)

    def of_fields(self, u: torch.Tensor, v: torch.Tensor, *carried: torch.Tensor) -> torch.Tensor:
        """The state of winds and of geopotential and what else is carried, (members, latitude, longitude) each."""
        spectra = self.sphere.analysis(torch.cat((u / self._cosine, v / self._cosine, *carried)))
        a, b, *amounts = torch.split(spectra, len(u), 2)
        return torch.cat((self._calculus.curl(a, b), self._calculus.divergence(a, b), *amounts), 2) * self.sphere.inside

    def fields(self, state: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Depth (m), u, v (m/s), vorticity (1/s), tracer if carried, on the grid: (members, latitude, longitude)."""
        vorticity, u, v, geopotential, *amount = self._on_grid(state)
        tracer = [each / geopotential for each in amount]
        return geopotential / GRAVITY, u / self._cosine, v / self._cosine, vorticity, *tracer

    def shown(self, state: torch.Tensor) -> dict[str, torch.Tensor]:
        """Fields by the names of FIELDS, and the depth: (members, latitude, longitude)."""
        ground = self.sphere.synthesis(self.ground) / GRAVITY
        depth, u, v, vorticity, *tracer = self.fields(state)
        fields = {"depth": depth, "height": depth + ground, "vorticity": vorticity, "u": u, "v": v}
        return fields | dict(zip(["tracer"], tracer, strict=False))

    def together(self, state: torch.Tensor) -> torch.Tensor:
        """Height, u and v, (members, 3, latitude, longitude): what networks see."""
        shown = self.shown(state)
        return torch.stack([shown[name] for name in ("height", "u", "v")], 1)

    def of_together(self, fields: torch.Tensor) -> torch.Tensor:
        """The state of such fields."""
        height, u, v = fields.unbind(1)
        return self.of_fields(u, v, GRAVITY * height - self.sphere.synthesis(self.ground))

    @torch.no_grad()
    def corrected(self, state: torch.Tensor, corrector: Corrector) -> torch.Tensor:
        """The state as a network corrects it; the mass stays the same to the last bit."""
        before = self.together(state)
        later = self.of_together(corrector.to(before.device)(before.float()).to(before))
        mass = torch.split(state, len(before), 2)[2][0, 0]
        torch.split(later, len(before), 2)[2][0, 0] = mass
        return later

    def bump(self, rng: np.random.Generator, spread_m: float) -> torch.Tensor:
        """Smooth random heights as a state to be added; the mass stays as it is."""
        state = torch.zeros(
            *self.sphere.degree.shape, self.columns, dtype=self.sphere.dtype.to_complex(), device=self.sphere.device
        )
        spread = GRAVITY * spread_m * self.sphere.noise(1, min(8, self.sphere.truncation))
        values = rng.normal(size=spread.shape) * spread
        state[:, :, 2] = torch.as_tensor(values[0] + 1j * values[1], device=state.device)
        return state

    def _on_grid(self, state: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Vorticity, u cos(lat), v cos(lat), geopotential and what else is carried, on the grid."""
        vorticity, divergence, *carried = self._split(state)
        wind = self._calculus.wind(vorticity, divergence)
        columns = torch.cat((vorticity, *wind, *carried), 2)
        return torch.split(self.sphere.synthesis(columns), vorticity.shape[2])

    def _split(self, state: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return torch.split(state, state.shape[2] // self.columns, 2)

    def _field(self, values: np.ndarray) -> torch.Tensor:
        field = torch.as_tensor(values, dtype=self.sphere.dtype, device=self.sphere.device)
        return field if field.ndim == 3 else field[None]
