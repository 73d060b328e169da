"""Small networks as graphs of neurons, and the paths through them."""

from sigmascope.probes.neuron_graph.dense_networks import dag_of
from sigmascope.probes.neuron_graph.graph import Dag, Edge, dag_forward
from sigmascope.probes.neuron_graph.paths import (
    PathCount,
    Tree,
    TreeNetwork,
    count_paths,
    leaf_inputs,
    path_enumeration,
    pull_back,
    signed,
    tree_forward,
    tree_network,
    unroll,
)

__all__ = [
    "Dag",
    "Edge",
    "PathCount",
    "Tree",
    "TreeNetwork",
    "count_paths",
    "dag_forward",
    "dag_of",
    "leaf_inputs",
    "path_enumeration",
    "pull_back",
    "signed",
    "tree_forward",
    "tree_network",
    "unroll",
]
