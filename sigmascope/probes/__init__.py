"""Models in, matrices and operators out."""

from sigmascope.probes.additions import Branch, branches
from sigmascope.probes.adjoints import Adjoint
from sigmascope.probes.affine import AffineMap, jacobian, local_affine
from sigmascope.probes.batches import Batch, as_tensor, chosen, prepared, sample_count
from sigmascope.probes.batches import call as run
from sigmascope.probes.conditioning import Conditioned, Conditioning
from sigmascope.probes.convolutions import convolution_operator
from sigmascope.probes.copies import duplicate
from sigmascope.probes.curvatures import Curvature
from sigmascope.probes.dags import Dag, Edge, dag_forward, dag_of
from sigmascope.probes.differences import SelfCheck
from sigmascope.probes.endings import closing_operation
from sigmascope.probes.failures import in_words
from sigmascope.probes.gradients import Collinearity, Loss
from sigmascope.probes.graphs import Graph
from sigmascope.probes.jacobians import Jacobians
from sigmascope.probes.layers import layers, normalisers
from sigmascope.probes.losses import losses_at
from sigmascope.probes.moves import Direction
from sigmascope.probes.parameters import Weight, as_matrix, weight_spectra, weights
from sigmascope.probes.partitions import Partition, partition
from sigmascope.probes.passes import called
from sigmascope.probes.paths import (
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
from sigmascope.probes.patterns import activation_patterns
from sigmascope.probes.plain_stacks import stack_of
from sigmascope.probes.refusals import Refusal, plain, require_real
from sigmascope.probes.regions import Crossings, region_distance, regions_along
from sigmascope.probes.representations import Spectra
from sigmascope.probes.rows import Rows
from sigmascope.probes.scalings.families import Fixed, Part, Symmetry
from sigmascope.probes.scalings.gradients import Pull, trial_gradients
from sigmascope.probes.scalings.symmetries import StillSum, Symmetries, symmetries
from sigmascope.probes.scalings.treatments import Passed
from sigmascope.probes.squashes import Squash, squashes
from sigmascope.probes.stacks import Point, Stack
from sigmascope.probes.stillness import ALONE, apart, still
from sigmascope.probes.subjects import OUTPUT, Subject
from sigmascope.probes.sweeps import Sweep
from sigmascope.probes.tapes import Call, is_repeated, module_name, recording
from sigmascope.probes.targets import require_finite_targets, require_task
from sigmascope.probes.uses import is_matrix

__all__ = [
    "ALONE",
    "OUTPUT",
    "Adjoint",
    "AffineMap",
    "Batch",
    "Branch",
    "Call",
    "Collinearity",
    "Conditioned",
    "Conditioning",
    "Crossings",
    "Curvature",
    "Dag",
    "Direction",
    "Edge",
    "Fixed",
    "Graph",
    "Jacobians",
    "Loss",
    "Part",
    "Partition",
    "Passed",
    "PathCount",
    "Point",
    "Pull",
    "Refusal",
    "Rows",
    "SelfCheck",
    "Spectra",
    "Squash",
    "Stack",
    "StillSum",
    "Subject",
    "Sweep",
    "Symmetries",
    "Symmetry",
    "Tree",
    "TreeNetwork",
    "Weight",
    "activation_patterns",
    "apart",
    "as_matrix",
    "as_tensor",
    "branches",
    "called",
    "chosen",
    "closing_operation",
    "convolution_operator",
    "count_paths",
    "dag_forward",
    "dag_of",
    "duplicate",
    "in_words",
    "is_matrix",
    "is_repeated",
    "jacobian",
    "layers",
    "leaf_inputs",
    "local_affine",
    "losses_at",
    "module_name",
    "normalisers",
    "partition",
    "path_enumeration",
    "plain",
    "prepared",
    "pull_back",
    "recording",
    "region_distance",
    "regions_along",
    "require_finite_targets",
    "require_real",
    "require_task",
    "run",
    "sample_count",
    "signed",
    "squashes",
    "stack_of",
    "still",
    "symmetries",
    "tree_forward",
    "tree_network",
    "trial_gradients",
    "unroll",
    "weight_spectra",
    "weights",
]
