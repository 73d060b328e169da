"""Le & Jegelka 2022, training invariances and the low-rank phenomenon."""

from sigmascope.theory.le2022.drifts import Drift, endpoint_drifts
from sigmascope.theory.le2022.invariants import (
    Conserved,
    Invariant,
    conserved,
    equal_pattern_mask,
    gram_balance,
    invariants,
    neuron_balance,
)
from sigmascope.theory.le2022.ledgers import Ledger

__all__ = [
    "Conserved",
    "Drift",
    "Invariant",
    "Ledger",
    "conserved",
    "endpoint_drifts",
    "equal_pattern_mask",
    "gram_balance",
    "invariants",
    "neuron_balance",
]
