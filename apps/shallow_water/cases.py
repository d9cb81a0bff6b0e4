"""Named beginnings of shallow-water runs: the tests that the field compares solvers with, and a family of jets."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from steersman.system.errors import UnknownName

RADIUS, OMEGA, GRAVITY, DAY = 6.37122e6, 7.292e-5, 9.80616, 86400.0  # m, 1/s, m/s^2, s, as Williamson et al. (1992)
JET_SOUTH, JET_NORTH, JET_SPEED = np.pi / 7, np.pi / 2 - np.pi / 7, 80.0
MEAN_DEPTH, BUMP = 1e4, 120.0  # m
STIRRED_SPEED, STIRRED_WIDTH = 95.0, 8.0  # m/s, degrees
CARRIED = 2 * np.pi / (12 * DAY)  # 1/s, around the sphere in 12 days
CENTRE = np.array([0.0, -1.0, 0.0])  # where bell and vortices begin: longitude 270 degrees on the equator
PANEL = np.polynomial.legendre.leggauss(32)
SPHERE = np.polynomial.legendre.leggauss(512)


@dataclass(frozen=True)
class Climate:
    """What drives and damps a flow, so that it forgets how it began and goes on for ever with the same statistics.

    Args:
        mean_days: time in which the zonal mean of every field goes back to that of the case, to 1/e.
        eddy_days: and what is left of it, which is the drag of the eddies.
        divergence_hours: time in which divergence decays: gravity waves are no part of the climate.
        degrees: first and last total wavenumber of the noise.
        stirring: spread of the vorticity that noise adds in a day, 1/s; it grows with the square root of time.
    """

    mean_days: float = 5.0
    eddy_days: float = 60.0
    divergence_hours: float = 6.0
    degrees: tuple[int, int] = (8, 12)
    stirring: float = 0.5e-5


@dataclass(frozen=True)
class Case:
    """Fields (latitude, longitude): wind and depth at the beginning; orography and Coriolis parameter forever.

    Args:
        u, v: eastward and northward wind, m/s.
        depth: of the fluid, m.
        orography: height of the ground, m.
        coriolis: 1/s; that of a sphere which turns around some axis, so of degree 1.
        tracer: concentration of a passive tracer; None: there is none.
        wind: eastward and northward wind at a time in s, m/s, free of divergence; with it, only the tracer changes.
        climate: what drives and damps the flow, towards these fields; None: nothing does.
    """

    u: np.ndarray
    v: np.ndarray
    depth: np.ndarray
    orography: np.ndarray
    coriolis: np.ndarray
    tracer: np.ndarray | None = None
    wind: Callable[[float], tuple[np.ndarray, np.ndarray]] | None = None
    climate: Climate | None = None


def cosine_bell(lat: np.ndarray, lon: np.ndarray, *, alpha: float = 0.0, time_s: float = 0.0) -> Case:
    """A tracer shaped as a bell, carried around the sphere in 12 days along a circle tilted by alpha.

    The case of a later time is the exact solution. Williamson et al. (1992), case 1, its height divided by 1000 m.
    """
    flow = zonal_flow(lat, lon, alpha=alpha)
    distance = np.arccos(np.clip(_in_carried_frame(lat, lon, alpha, time_s) @ CENTRE, -1, 1))
    bell = np.where(distance < 1 / 3, (1 + np.cos(3 * np.pi * distance)) / 2, 0.0)
    return replace(flow, depth=np.full_like(bell, 1000.0), tracer=bell, wind=lambda time_s: (flow.u, flow.v))


def moving_vortices(lat: np.ndarray, lon: np.ndarray, *, alpha: float = 0.0, time_s: float = 0.0) -> Case:
    """A tracer wound up by two opposite vortices, which are themselves carried around the sphere in 12 days.

    The case of a later time is the exact solution. Nair and Jablonowski (2008), Moving vortices on the sphere.
    """
    flow = zonal_flow(lat, lon, alpha=alpha)
    east, north = _directions(lat, lon)

    def wind(time_s: float) -> tuple[np.ndarray, np.ndarray]:
        position = _in_carried_frame(lat, lon, alpha, time_s)
        around = RADIUS * _spin(position)[..., None] * np.cross(CENTRE, position)
        velocity = around @ _rotation(alpha, time_s).T
        return flow.u + (velocity * east).sum(-1), flow.v + (velocity * north).sum(-1)

    position = _in_carried_frame(lat, lon, alpha, time_s)
    first, second = np.array([0.0, 0.0, -1.0]), np.cross([0.0, 0.0, 1.0], CENTRE)
    angle = np.arctan2(position @ second, position @ first) - _spin(position) * time_s
    tracer = 1 - np.tanh(_rho(position) / 5 * np.sin(angle))
    u, v = wind(time_s)
    return replace(flow, u=u, v=v, depth=np.full_like(tracer, 1000.0), tracer=tracer, wind=wind)


def zonal_flow(
    lat: np.ndarray, lon: np.ndarray, *, alpha: float = 0.0, u0: float | None = None, depth: float | None = None
) -> Case:
    """Steady geostrophic flow around an axis tilted by alpha: an exact solution. Williamson et al. (1992), case 2."""
    u0 = RADIUS * CARRIED if u0 is None else u0
    depth = 2.94e4 / GRAVITY if depth is None else depth
    axis = -np.cos(lon) * np.cos(lat) * np.sin(alpha) + np.sin(lat) * np.cos(alpha)
    u = u0 * (np.cos(lat) * np.cos(alpha) + np.cos(lon) * np.sin(lat) * np.sin(alpha))
    v = -u0 * np.sin(lon) * np.sin(alpha)
    height = depth - (RADIUS * OMEGA * u0 + u0**2 / 2) * axis**2 / GRAVITY
    return Case(u, v, height, np.zeros_like(u), 2 * OMEGA * axis)


def mountain(lat: np.ndarray, lon: np.ndarray) -> Case:
    """Zonal flow over an isolated mountain of 2 km. Williamson et al. (1992), case 5."""
    flow = zonal_flow(lat, lon, u0=20.0, depth=5960.0)
    distance = np.sqrt(np.minimum((np.pi / 9) ** 2, (lon - 1.5 * np.pi) ** 2 + (lat - np.pi / 6) ** 2))
    ground = 2000.0 * (1 - distance / (np.pi / 9))
    return Case(flow.u, flow.v, flow.depth - ground, ground, flow.coriolis)


def rossby_haurwitz(lat: np.ndarray, lon: np.ndarray) -> Case:
    """A wave of wavenumber 4 that moves east nearly without change. Williamson et al. (1992), case 6."""
    w = k = 7.848e-6
    r = 4
    c, s = np.cos(lat), np.sin(lat)
    u = RADIUS * w * c + RADIUS * k * c ** (r - 1) * (r * s**2 - c**2) * np.cos(r * lon)
    v = -RADIUS * k * r * c ** (r - 1) * s * np.sin(r * lon)
    steady = 0.5 * w * (2 * OMEGA + w) * c**2 + 0.25 * k**2 * c ** (2 * r) * (
        (r + 1) * c**2 + (2 * r**2 - r - 2) - 2 * r**2 / c**2
    )
    once = 2 * (OMEGA + w) * k / ((r + 1) * (r + 2)) * c**r * ((r**2 + 2 * r + 2) - (r + 1) ** 2 * c**2)
    twice = 0.25 * k**2 * c ** (2 * r) * ((r + 1) * c**2 - (r + 2))
    waves = steady + once * np.cos(r * lon) + twice * np.cos(2 * r * lon)
    return Case(u, v, 8e3 + RADIUS**2 * waves / GRAVITY, np.zeros_like(u), 2 * OMEGA * s)


def galewsky(lat: np.ndarray, lon: np.ndarray, *, perturbed: bool = True) -> Case:
    """A jet that rolls up within six days once it is perturbed. Galewsky, Scott and Polvani (2004)."""
    balanced = jet(lat, lon, np.zeros(8), bump=0.0)
    hill = np.cos(lat) * np.exp(-((3 * _east(lon)) ** 2) - (15 * (np.pi / 4 - lat)) ** 2)
    return replace(balanced, depth=balanced.depth + BUMP * hill) if perturbed else balanced


def jet(lat: np.ndarray, lon: np.ndarray, parameters: np.ndarray, *, bump: float = BUMP) -> Case:
    """A family around the jet of Galewsky et al., for ensembles.

    Args:
        parameters: 8 numbers of spread one: speed, latitude and width of the jet; height, latitude and width of the
            bump; amplitudes of waves of wavenumber 5 and 6. All zero is that jet, its bump four times as wide in
            latitude.
        bump: height of the bump in m.
    """
    speed, place, width, height, bump_place, bump_width, wave5, wave6 = np.asarray(parameters, float)
    maximum = np.clip(JET_SPEED + 8 * speed, 40, 110)
    half = (JET_NORTH - JET_SOUTH) / 2 * np.exp(0.12 * width)
    middle = np.pi / 4 + np.radians(4) * place
    wind = _jet_wind(maximum, middle - half, min(middle + half, np.pi / 2 - 1e-3))
    depth = MEAN_DEPTH + _balanced(wind, lat[:, 0])[:, None]
    sharp = 3 * np.exp(-0.3 * bump_width)
    hill = np.cos(lat) * np.exp(-((sharp * _east(lon)) ** 2))
    hill *= np.exp(-15 * (np.pi / 4 + np.radians(5) * bump_place - lat) ** 2)
    waves = 100 * (wave5 * np.cos(5 * lon) + wave6 * np.cos(6 * lon + 1)) * np.cos(lat) ** 4 * np.sin(lat) ** 2
    u = np.broadcast_to(wind(lat[:, 0])[:, None], lat.shape).copy()
    depth = depth + bump * np.exp(0.5 * height) * hill + waves
    return Case(u, np.zeros_like(u), depth, np.zeros_like(u), 2 * OMEGA * np.sin(lat))


def stirred(lat: np.ndarray, lon: np.ndarray, *, mountains_m: float = 0.0) -> Case:
    """A jet in each hemisphere that noise stirs to travelling waves: a flow with a climate, see Climate.

    Args:
        mountains_m: height of four equal mountains in each hemisphere, 90 degrees apart, on the jet; the first stands
            at longitude 0. With them longitudes differ, and eight boxes behind mountains are alike.
    Source: stochastically stirred barotropic jets, Vallis, Gerber, Kushner and Cash (2004).
    """
    wind = _stirred_wind
    u = np.broadcast_to(wind(lat[:, 0])[:, None], lat.shape).copy()
    depth = MEAN_DEPTH + np.broadcast_to(_balanced(wind, lat[:, 0])[:, None], lat.shape)
    east = np.degrees(((lon + np.pi / 4) % (np.pi / 2)) - np.pi / 4)
    ground = mountains_m * np.exp(-((east / 15) ** 2) - ((np.abs(np.degrees(lat)) - 45) / 10) ** 2)
    return Case(u, np.zeros_like(u), depth - ground, ground, 2 * OMEGA * np.sin(lat), climate=Climate())


def _stirred_wind(lat: np.ndarray) -> np.ndarray:
    return np.asarray(STIRRED_SPEED * np.exp(-0.5 * ((np.abs(np.degrees(lat)) - 45) / STIRRED_WIDTH) ** 2))


CASES: dict[str, Callable[..., Case]] = {
    "cosine_bell": cosine_bell,
    "moving_vortices": moving_vortices,
    "zonal_flow": zonal_flow,
    "mountain": mountain,
    "rossby_haurwitz": rossby_haurwitz,
    "galewsky": galewsky,
    "jet": jet,
    "stirred": stirred,
    "stirred_mountains": functools.partial(stirred, mountains_m=800.0),
}


def named(name: str) -> Callable[..., Case]:
    """The constructor of a case: (latitudes, longitudes, ...) -> Case.

    Raises: UnknownName: with the nearest that exists.
    """
    if name not in CASES:
        raise UnknownName("case", name, CASES)
    return CASES[name]


def _directions(lat: np.ndarray, lon: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Unit vectors to the east and to the north, (..., 3)."""
    east = np.stack([-np.sin(lon), np.cos(lon), np.zeros_like(lon)], -1)
    north = np.stack([-np.sin(lat) * np.cos(lon), -np.sin(lat) * np.sin(lon), np.cos(lat)], -1)
    return east, north


def _rotation(alpha: float, time_s: float) -> np.ndarray:
    """(3, 3): how the flow of case 1 has turned the sphere; its axis lies alpha away from the pole (Rodrigues)."""
    axis = np.array([-np.sin(alpha), 0.0, np.cos(alpha)])
    cross = np.cross(np.eye(3), axis)
    angle = CARRIED * time_s
    return np.asarray(np.eye(3) + np.sin(angle) * cross + (1 - np.cos(angle)) * cross @ cross)


def _in_carried_frame(lat: np.ndarray, lon: np.ndarray, alpha: float, time_s: float) -> np.ndarray:
    """Unit vectors (..., 3) of points as seen from what is carried along."""
    points = np.stack([np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)], -1)
    return np.asarray(points @ _rotation(alpha, time_s))


def _rho(position: np.ndarray) -> np.ndarray:
    """Distance from the axis of the vortices, 3 at most."""
    return np.asarray(3 * np.sqrt(np.maximum(1 - (position @ CENTRE) ** 2, 0)))


def _spin(position: np.ndarray) -> np.ndarray:
    """Angular velocity around the vortices, 1/s."""
    rho = np.maximum(_rho(position), 1e-12)
    return np.asarray(CARRIED * 1.5 * np.sqrt(3) * np.tanh(rho) / np.cosh(rho) ** 2 / rho)


def _east(lon: np.ndarray) -> np.ndarray:
    """Longitudes from -pi to pi."""
    return (lon + np.pi) % (2 * np.pi) - np.pi


def _jet_wind(maximum: float, south: float, north: float) -> Callable[[np.ndarray], np.ndarray]:
    scale = maximum / np.exp(-4 / (north - south) ** 2)

    def wind(lat: np.ndarray) -> np.ndarray:
        inside = (lat > south) & (lat < north)
        speed = np.zeros_like(lat)
        speed[inside] = scale * np.exp(1 / ((lat[inside] - south) * (lat[inside] - north)))
        return speed

    return wind


def _balanced(wind: Callable[[np.ndarray], np.ndarray], lat: np.ndarray) -> np.ndarray:
    """Height whose slope balances a zonal wind, its mean over the sphere zero; by quadrature between the latitudes."""
    nodes = np.arcsin(SPHERE[0])
    everywhere = np.sort(np.concatenate([lat, nodes, np.linspace(-np.pi / 2, np.pi / 2, 257)]))
    middle, half = (everywhere[1:] + everywhere[:-1]) / 2, np.diff(everywhere) / 2
    points = middle[:, None] + half[:, None] * PANEL[0]
    u = wind(points)
    slope = -RADIUS * u * (2 * OMEGA * np.sin(points) + np.tan(points) * u / RADIUS) / GRAVITY
    height = np.concatenate([[0.0], np.cumsum((slope * PANEL[1]).sum(axis=1) * half)])
    mean = height[np.searchsorted(everywhere, nodes)] @ SPHERE[1] / 2
    found: np.ndarray = height[np.searchsorted(everywhere, lat)] - mean
    return found
