"""What training conserves, whether it did, and why not."""

from sigmascope.theory.le2022.conservation.broken import BALANCE_BROKEN, broken_balances
from sigmascope.theory.le2022.conservation.invariants import (
    Invariant,
    equal_pattern_mask,
    formula,
    reason,
    shown,
)
from sigmascope.theory.le2022.conservation.ledger import Drift, Ledger, endpoint_drifts
from sigmascope.theory.le2022.conservation.rates import (
    BalanceRate,
    Conserved,
    conserved,
    invariants,
)

__all__ = [
    "BALANCE_BROKEN",
    "BalanceRate",
    "Conserved",
    "Drift",
    "Invariant",
    "Ledger",
    "broken_balances",
    "conserved",
    "endpoint_drifts",
    "equal_pattern_mask",
    "formula",
    "invariants",
    "reason",
    "shown",
]
