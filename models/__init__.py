"""Networks, how they are fitted and how they are kept. torch is only imported when one of them is asked for."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from steersman.models.fitting.memory import largest_batch as largest_batch
    from steersman.models.fitting.reservoir import Reservoir as Reservoir
    from steersman.models.fitting.schedule import Schedule as Schedule
    from steersman.models.model import Model as Model
    from steersman.models.networks.autoencoder import Autoencoder as Autoencoder
    from steersman.models.networks.committee import Committee as Committee
    from steersman.models.networks.cosmoflow import CosmoFlow as CosmoFlow
    from steersman.models.networks.cvae import CVAE as CVAE
    from steersman.models.networks.deep_tica import DeepTICA as DeepTICA
    from steersman.models.networks.deeplab import DeepLab as DeepLab
    from steersman.models.networks.image_regressors import ImageRegressors as ImageRegressors
    from steersman.models.networks.pca import PCA as PCA
    from steersman.models.networks.regressors import Regressors as Regressors
    from steersman.models.networks.resnet import ResNet50 as ResNet50
    from steersman.models.networks.spherical_fourier import SphericalFourier as SphericalFourier
    from steersman.models.networks.tica import TICA as TICA
    from steersman.models.networks.tica import slowness as slowness
    from steersman.models.networks.tiramisu import Tiramisu as Tiramisu
    from steersman.models.networks.unet import SphericalUNet as SphericalUNet
    from steersman.models.networks.vectors import Vectors as Vectors
    from steersman.models.ranks.staging import staged as staged

_HOMES = {
    "Autoencoder": "steersman.models.networks.autoencoder",
    "CVAE": "steersman.models.networks.cvae",
    "Committee": "steersman.models.networks.committee",
    "CosmoFlow": "steersman.models.networks.cosmoflow",
    "DeepLab": "steersman.models.networks.deeplab",
    "DeepTICA": "steersman.models.networks.deep_tica",
    "ImageRegressors": "steersman.models.networks.image_regressors",
    "Model": "steersman.models.model",
    "PCA": "steersman.models.networks.pca",
    "Regressors": "steersman.models.networks.regressors",
    "Reservoir": "steersman.models.fitting.reservoir",
    "ResNet50": "steersman.models.networks.resnet",
    "Schedule": "steersman.models.fitting.schedule",
    "SphericalFourier": "steersman.models.networks.spherical_fourier",
    "SphericalUNet": "steersman.models.networks.unet",
    "TICA": "steersman.models.networks.tica",
    "Vectors": "steersman.models.networks.vectors",
    "Tiramisu": "steersman.models.networks.tiramisu",
    "largest_batch": "steersman.models.fitting.memory",
    "slowness": "steersman.models.networks.tica",
    "staged": "steersman.models.ranks.staging",
}

__all__ = [
    "CVAE",
    "PCA",
    "TICA",
    "Autoencoder",
    "Committee",
    "CosmoFlow",
    "DeepLab",
    "DeepTICA",
    "ImageRegressors",
    "Model",
    "Regressors",
    "ResNet50",
    "Reservoir",
    "Schedule",
    "SphericalFourier",
    "SphericalUNet",
    "Tiramisu",
    "largest_batch",
    "slowness",
    "staged",
]


def __getattr__(name: str) -> Any:
    """Import a name when it is first asked for: a workflow file is read in milliseconds, torch in seconds."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
