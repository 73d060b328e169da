"""Le & Jegelka 2022, training invariances and the low-rank phenomenon."""

from sigmascope.theory.le2022 import conservation
from sigmascope.theory.le2022.alignments import (
    Alignment,
    LinearTail,
    Pair,
    RankOne,
    RankOnePrinted,
    alignment,
    alignment_lower_bound,
    linear_pairs,
)
from sigmascope.theory.le2022.ranks import (
    InnerLayer,
    RankOneBound,
    SignRecord,
    Stability,
    rank_one_bound,
)

__all__ = [
    "Alignment",
    "InnerLayer",
    "LinearTail",
    "Pair",
    "RankOne",
    "RankOneBound",
    "RankOnePrinted",
    "SignRecord",
    "Stability",
    "alignment",
    "alignment_lower_bound",
    "conservation",
    "linear_pairs",
    "rank_one_bound",
]
