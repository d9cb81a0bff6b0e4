"""Networks, how they are fitted and how they are kept. torch is only imported when one of them is asked for."""

from typing import TYPE_CHECKING

from steersman.system.lazy import lazy

if TYPE_CHECKING:
    from steersman.models.fitting.memory import largest_batch as largest_batch
    from steersman.models.fitting.reservoir import Reservoir as Reservoir
    from steersman.models.fitting.schedule import Schedule as Schedule
    from steersman.models.model import Model as Model
    from steersman.models.networks.autoencoder import Autoencoder as Autoencoder
    from steersman.models.networks.committee import Committee as Committee
    from steersman.models.networks.committor import Committor as Committor
    from steersman.models.networks.corrector import Corrector as Corrector
    from steersman.models.networks.cosmoflow import CosmoFlow as CosmoFlow
    from steersman.models.networks.cvae import CVAE as CVAE
    from steersman.models.networks.deep_tica import DeepTICA as DeepTICA
    from steersman.models.networks.deeplab import DeepLab as DeepLab
    from steersman.models.networks.image_regressors import ImageRegressors as ImageRegressors
    from steersman.models.networks.outlook import Outlook as Outlook
    from steersman.models.networks.pca import PCA as PCA
    from steersman.models.networks.perceptron import Perceptron as Perceptron
    from steersman.models.networks.perceptron import from_mlcolvar as from_mlcolvar
    from steersman.models.networks.potential import Potential as Potential
    from steersman.models.networks.regressors import Regressors as Regressors
    from steersman.models.networks.resnet import ResNet50 as ResNet50
    from steersman.models.networks.spherical_fourier import SphericalFourier as SphericalFourier
    from steersman.models.networks.tica import TICA as TICA
    from steersman.models.networks.tica import autocorrelation as autocorrelation
    from steersman.models.networks.tica import forgotten as forgotten
    from steersman.models.networks.tica import slowness as slowness
    from steersman.models.networks.tiramisu import Tiramisu as Tiramisu
    from steersman.models.networks.unet import SphericalUNet as SphericalUNet
    from steersman.models.networks.vectors import Vectors as Vectors
    from steersman.models.ranks.staging import staged as staged
else:
    __all__, __getattr__, __dir__ = lazy(__name__, "steersman.models")
