"""What training conserves, whether it did, and why not."""

from sigmascope.theory.le2022.conservation.conserved_quantities import (
    Conserved,
    conserved,
    invariants,
)
from sigmascope.theory.le2022.conservation.drifts import Drift, endpoint_drifts
from sigmascope.theory.le2022.conservation.invariants import Invariant
from sigmascope.theory.le2022.conservation.ledger import Ledger
from sigmascope.theory.le2022.conservation.rates import BalanceRate
from sigmascope.theory.le2022.conservation.weight_balances import (
    equal_pattern_mask,
    gram_balance,
    neuron_balance,
)
from sigmascope.theory.le2022.conservation.words import formula, reason, shown

__all__ = [
    "BalanceRate",
    "Conserved",
    "Drift",
    "Invariant",
    "Ledger",
    "conserved",
    "endpoint_drifts",
    "equal_pattern_mask",
    "formula",
    "gram_balance",
    "invariants",
    "neuron_balance",
    "reason",
    "shown",
]
