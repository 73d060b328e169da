"""Le & Jegelka 2022, training invariances and the low-rank phenomenon."""

from sigmascope.theory.le2022.alignments import (
    Alignment,
    Pair,
    alignment,
    alignment_lower_bound,
    linear_pairs,
)
from sigmascope.theory.le2022.conserved import Conserved, conserved, invariants
from sigmascope.theory.le2022.drifts import Drift, endpoint_drifts
from sigmascope.theory.le2022.grams import equal_pattern_mask, gram_balance, neuron_balance
from sigmascope.theory.le2022.invariants import Invariant
from sigmascope.theory.le2022.ledgers import Ledger
from sigmascope.theory.le2022.rank_ones import RankOne, RankOnePrinted
from sigmascope.theory.le2022.ranks import Layer, RankOneBound, rank_one_bound
from sigmascope.theory.le2022.rates import BalanceRate
from sigmascope.theory.le2022.signs import SignRecord, Stability
from sigmascope.theory.le2022.tails import Tail
from sigmascope.theory.le2022.words import formula, reason, shown

__all__ = [
    "Alignment",
    "BalanceRate",
    "Conserved",
    "Drift",
    "Invariant",
    "Layer",
    "Ledger",
    "Pair",
    "RankOne",
    "RankOneBound",
    "RankOnePrinted",
    "SignRecord",
    "Stability",
    "Tail",
    "alignment",
    "alignment_lower_bound",
    "conserved",
    "endpoint_drifts",
    "equal_pattern_mask",
    "formula",
    "gram_balance",
    "invariants",
    "linear_pairs",
    "neuron_balance",
    "rank_one_bound",
    "reason",
    "shown",
]
