"""How a model is put together: residual branches, saturating units, what is adjacent."""

from sigmascope.models.structure.attention import AttentionWeights, attentions
from sigmascope.models.structure.linear import LinearPair, Point, Stack, linear_pairs
from sigmascope.models.structure.operations import Branch, Squash, branches
from sigmascope.models.trace import Tail, tail

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
