"""Chains of random layers that are never built."""

from sigmascope.networks.chains.batch_norm_chain import BatchNormChain
from sigmascope.networks.chains.chain_steps import forgetting
from sigmascope.networks.chains.counterexamples import (
    counterexample_excess,
    lipschitz_counterexample,
)
from sigmascope.networks.chains.draws import Weights, random_numbers, random_weights
from sigmascope.networks.chains.linear_chain import LinearChain
from sigmascope.networks.chains.statistics import ChainStatistics

__all__ = [
    "BatchNormChain",
    "ChainStatistics",
    "LinearChain",
    "Weights",
    "counterexample_excess",
    "forgetting",
    "lipschitz_counterexample",
    "random_numbers",
    "random_weights",
]
