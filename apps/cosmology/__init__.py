"""Universes of dark matter by particle mesh, and what can be read from them without a network."""

from importlib.util import find_spec

from steersman.system.errors import MissingExtra

if find_spec("jaxpm") is None:  # to import it takes seconds, which only walkers need to spend
    raise MissingExtra("jaxpm", "cosmology")
if find_spec("pkg_resources") is None:  # jax-cosmo needs it; setuptools has it until version 81
    raise MissingExtra("pkg_resources", "cosmology")

from steersman.apps.cosmology.judgement import NULL_ERROR, errors_of_summary, judgement
from steersman.apps.cosmology.simulation import SCALE_FACTORS, VARIABLES, VOXEL_MPC_H, density, evolved, linear
from steersman.apps.cosmology.summaries import CROPS, crops, stored, summary
from steersman.apps.cosmology.universe import DIMENSIONS, NAMES, Universe, physical, targets

__all__ = [
    "CROPS",
    "DIMENSIONS",
    "NAMES",
    "NULL_ERROR",
    "SCALE_FACTORS",
    "VARIABLES",
    "VOXEL_MPC_H",
    "Universe",
    "crops",
    "density",
    "errors_of_summary",
    "evolved",
    "judgement",
    "linear",
    "physical",
    "stored",
    "summary",
    "targets",
]
