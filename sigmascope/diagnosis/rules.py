"""Every rule, listed by hand; each turns a profile into findings, and is silent where all is well.

The thresholds were set on default, He, BatchNorm and LayerNorm networks of depth 4 to 64 on digits
(`docs/findings.md` has the table): a default ReLU network trains at depth 4 and 6, and never at 8.
"""

from collections.abc import Callable, Iterator

from sigmascope.diagnosis.balances import rank_one_layer, unaligned_layers, wrong_backward
from sigmascope.diagnosis.collapse import alike_inputs, directional_gradient, rank_collapse
from sigmascope.diagnosis.findings import Finding, Severity
from sigmascope.diagnosis.initialisation import asymmetric_weights
from sigmascope.diagnosis.magnitudes import adjoint_size, dead_units, non_finite, signal_size
from sigmascope.survey import Profile

Rule = Callable[[Profile], Iterator[Finding]]

RULES: tuple[Rule, ...] = (
    non_finite,
    alike_inputs,
    rank_collapse,
    asymmetric_weights,
    directional_gradient,
    signal_size,
    adjoint_size,
    dead_units,
    wrong_backward,
    unaligned_layers,
    rank_one_layer,
)

ORDER: tuple[Severity, ...] = ("error", "warning", "note")


def diagnose(profile: Profile) -> tuple[Finding, ...]:
    """Every finding of every rule, the severest first."""
    found = [f for rule in RULES for f in rule(profile)]
    return tuple(sorted(found, key=lambda f: ORDER.index(f.severity)))
