"""Reference networks of the four papers."""

from sigmascope.models.networks.convolutional import (
    VGG,
    ResidualBlock,
    ResNet,
    resnet,
    resnet50,
    vgg,
    vgg19,
)
from sigmascope.models.networks.layers import (
    Abs,
    Activation,
    Init,
    Norm,
    UncentredBatchNorm,
    activation_layer,
    is_activation,
)
from sigmascope.models.networks.mlps import MLP, Block, mlp
from sigmascope.models.networks.queries import NETWORKS, build, options

__all__ = [
    "MLP",
    "NETWORKS",
    "VGG",
    "Abs",
    "Activation",
    "Block",
    "Init",
    "Norm",
    "ResNet",
    "ResidualBlock",
    "UncentredBatchNorm",
    "activation_layer",
    "build",
    "is_activation",
    "mlp",
    "options",
    "resnet",
    "resnet50",
    "vgg",
    "vgg19",
]
