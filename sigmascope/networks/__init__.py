"""Reference networks of the four papers."""

from sigmascope.networks.chains import BatchNormChain, forgetting
from sigmascope.networks.counterexamples import counterexample_excess, lipschitz_counterexample
from sigmascope.networks.draws import Weights, random_numbers, random_weights
from sigmascope.networks.layers import Abs, Activation, Init, activation_layer, is_activation
from sigmascope.networks.mlps import MLP, Block, mlp
from sigmascope.networks.norms import Norm, UncentredBatchNorm
from sigmascope.networks.products import LinearChain
from sigmascope.networks.queries import NETWORKS, build, options
from sigmascope.networks.resnets import ResidualBlock, ResNet, resnet
from sigmascope.networks.statistics import ChainStatistics
from sigmascope.networks.vggs import VGG, vgg

__all__ = [
    "MLP",
    "NETWORKS",
    "VGG",
    "Abs",
    "Activation",
    "BatchNormChain",
    "Block",
    "ChainStatistics",
    "Init",
    "LinearChain",
    "Norm",
    "ResNet",
    "ResidualBlock",
    "UncentredBatchNorm",
    "Weights",
    "activation_layer",
    "build",
    "counterexample_excess",
    "forgetting",
    "is_activation",
    "lipschitz_counterexample",
    "mlp",
    "options",
    "random_numbers",
    "random_weights",
    "resnet",
    "vgg",
]
