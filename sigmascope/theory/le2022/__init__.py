"""Le & Jegelka 2022, training invariances and the low-rank phenomenon."""

from sigmascope.theory.le2022.invariants import (
    Conserved,
    Invariant,
    conserved,
    equal_pattern_mask,
    gram_balance,
    invariants,
    neuron_balance,
)

__all__ = [
    "Conserved",
    "Invariant",
    "conserved",
    "equal_pattern_mask",
    "gram_balance",
    "invariants",
    "neuron_balance",
]
