"""Networks built by hand, and what they cost: examples that make statements sharp."""

from sigmascope.theory.jacot2023.constructions.linear_maps import (
    balanced_factors,
    corrections,
    linear_cost,
)
from sigmascope.theory.jacot2023.constructions.positivity import (
    CompletePositivity,
    complete_positivity,
)
from sigmascope.theory.jacot2023.constructions.rank_one_fit import RankOneFit, rank_one_fit_scaling
from sigmascope.theory.jacot2023.constructions.relu_stacks import identity_stack, linear_stack
from sigmascope.theory.jacot2023.constructions.symmetric_tasks import (
    SymmetryTask,
    statistics_moved,
    symmetry_task,
)

__all__ = [
    "CompletePositivity",
    "RankOneFit",
    "SymmetryTask",
    "balanced_factors",
    "complete_positivity",
    "corrections",
    "identity_stack",
    "linear_cost",
    "linear_stack",
    "rank_one_fit_scaling",
    "statistics_moved",
    "symmetry_task",
]
