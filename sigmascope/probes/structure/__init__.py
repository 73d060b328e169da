"""How a model is put together: residual branches, saturating units, what is adjacent."""

from sigmascope.probes.execution.trace import Tail, tail
from sigmascope.probes.structure.attention import AttentionWeights, attentions
from sigmascope.probes.structure.linear import LinearPair, Point, Stack, linear_pairs
from sigmascope.probes.structure.operations import Branch, Squash, branches

__all__ = [
    "AttentionWeights",
    "Branch",
    "LinearPair",
    "Point",
    "Squash",
    "Stack",
    "Tail",
    "attentions",
    "branches",
    "linear_pairs",
    "tail",
]
