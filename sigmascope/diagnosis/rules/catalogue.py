"""Every rule, listed by hand; each turns a profile into findings, and is silent where all is well.

The thresholds were set on default, He, BatchNorm and LayerNorm networks of depth 4 to 64 on digits
(`docs/findings.md` has the table): a default ReLU network trains at depth 4 and 6, and never at 8.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace

from sigmascope.diagnosis.causes import NO_PROGRESS, grouped
from sigmascope.diagnosis.remedies.catalogue import remedies_for
from sigmascope.diagnosis.rules.balances import rank_one_layer, unaligned_layers, wrong_backward
from sigmascope.diagnosis.rules.collapse import alike_inputs, directional_gradient, rank_collapse
from sigmascope.diagnosis.rules.dependences import (
    heavy_dropout,
    linear_layers,
    mixed_samples,
    stale_statistics,
    unused_layers,
)
from sigmascope.diagnosis.rules.first_steps import (
    layer_gain,
    loud_start,
    tangent_size,
    unrelated_targets,
)
from sigmascope.diagnosis.rules.initialisation import asymmetric_weights
from sigmascope.diagnosis.rules.magnitudes import adjoint_size, dead_units, non_finite, signal_size
from sigmascope.diagnosis.rules.saturation import (
    equal_units,
    hidden_collapse,
    saturated_units,
    sigmoid_stack,
)
from sigmascope.diagnosis.rules.sequences import (
    copied_targets,
    counted_padding,
    later_inputs_seen,
)
from sigmascope.diagnosis.rules.setup import (
    cut_weights,
    denormal_values,
    frozen_layers,
    strong_residual,
    stuck_weights,
    unscaled_inputs,
    untouched_statistics,
    weight_scale,
)
from sigmascope.diagnosis.rules.task import (
    forgotten_targets,
    ill_conditioned,
    no_tangents,
    out_of_reach,
    overestimated_rank,
    unscaled_targets,
)
from sigmascope.diagnosis.trainability.model import EVEN, probability
from sigmascope.records import Finding, Profile, Reading

Rule = Callable[[Profile], Iterator[Finding]]

RULES: tuple[Rule, ...] = (
    non_finite,
    alike_inputs,
    unscaled_inputs,
    unrelated_targets,
    out_of_reach,
    unscaled_targets,
    untouched_statistics,
    stale_statistics,
    mixed_samples,
    later_inputs_seen,
    copied_targets,
    counted_padding,
    heavy_dropout,
    unused_layers,
    linear_layers,
    frozen_layers,
    stuck_weights,
    cut_weights,
    equal_units,
    weight_scale,
    strong_residual,
    layer_gain,
    sigmoid_stack,
    saturated_units,
    rank_collapse,
    hidden_collapse,
    asymmetric_weights,
    directional_gradient,
    forgotten_targets,
    signal_size,
    adjoint_size,
    dead_units,
    denormal_values,
    loud_start,
    no_tangents,
    tangent_size,
    overestimated_rank,
    ill_conditioned,
    wrong_backward,
    unaligned_layers,
    rank_one_layer,
)


MOST = 3  # remedies that a finding names; `sigmascope remedy` tries all
# errors that no progress in the first steps takes back
CERTAIN = ("non-finite", "out-of-reach", "wrong-backward", "frozen-layer", "no-tangents")


def diagnose(profile: Profile) -> tuple[Finding, ...]:
    """Every finding of every rule: causes first, with what follows from them, the severest first.

    A finding that follows from another names it in `follows`. Where the profile holds the
    probability of fitting (`foretold`), findings that would stop training are errors only if its
    interval lies below one half, and a probability below one half is a finding itself.
    """
    found = [_advised(f, profile) for rule in RULES for f in rule(profile)]
    trains = probability(profile)
    return grouped(found if trains is None else _weighed(found, trains))


def _advised(f: Finding, profile: Profile) -> Finding:
    """A finding with the remedies that are there for it, after what no remedy can do."""
    remedies = remedies_for(f, profile)[:MOST]
    told = (f"{r.says[:-1]} (`sigmascope remedy MODEL --apply {r.name}`)." for r in remedies)
    return replace(f, remedies=(*f.remedies, *told))


def _weighed(found: list[Finding], trains: Reading) -> Iterator[Finding]:
    stopped = trains.estimate.high < EVEN
    for f in found:
        eased = not stopped and f.severity == "error" and f.name not in CERTAIN
        yield replace(f, severity="warning") if eased else f
    if trains.estimate.value < EVEN:
        yield Finding(
            NO_PROGRESS,
            trains.site,
            "error" if stopped else "warning",
            (trains,),
            "Of four learning rates none made progress worth the name in its first steps: plain "
            f"training fits these data with a probability of {trains.estimate.value:.2g}.",
            "Fitted to trained networks, docs/trainability.md",
            ("Try the remedies on copies: `sigmascope remedy MODEL`.",),
        )
