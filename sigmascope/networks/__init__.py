"""Reference networks of the four papers."""

from sigmascope.networks import chains
from sigmascope.networks.layers import Abs, Activation, Init, activation_layer, is_activation
from sigmascope.networks.mlps import MLP, Block, mlp
from sigmascope.networks.norms import Norm, UncentredBatchNorm
from sigmascope.networks.queries import NETWORKS, build, options
from sigmascope.networks.resnets import ResidualBlock, ResNet, resnet
from sigmascope.networks.vggs import VGG, vgg

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
    "chains",
    "is_activation",
    "mlp",
    "options",
    "resnet",
    "vgg",
]
