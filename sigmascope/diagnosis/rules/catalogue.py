"""Every rule, listed by hand; each turns a profile into findings, and is silent where all is well.

The thresholds were set on default, He, BatchNorm and LayerNorm networks of depth 4 to 64 on digits
(`docs/findings.md` has the table): a default ReLU network trains at depth 4 and 6, and never at 8.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from sigmascope.diagnosis.causes import NO_PROGRESS, grouped
from sigmascope.diagnosis.remedies.catalogue import remedies_for
from sigmascope.diagnosis.rules.balances import rank_one_layer, unaligned_layers, wrong_backward
from sigmascope.diagnosis.rules.collapse import (
    alike_inputs,
    directional_gradient,
    lost_inputs,
    rank_collapse,
)
from sigmascope.diagnosis.rules.dependences import (
    heavy_dropout,
    linear_layers,
    mixed_samples,
    stale_statistics,
    unused_layers,
)
from sigmascope.diagnosis.rules.first_steps import (
    layer_gain,
    loud_output,
    no_tangents,
    tangent_size,
    unrelated_targets,
)
from sigmascope.diagnosis.rules.fit import (
    classes_on_one_output,
    constant_output,
    heard_elsewhere,
    indifferent_loss,
    omitted_class,
    out_of_reach,
    raw_output,
    reversed_loss,
    shared_classes,
    single_target,
    softmax_in_the_loss,
    spread_targets,
    squared_error_for_classes,
    too_narrow,
    unfit_targets,
    unpaired_loss,
    unsuited_closing,
)
from sigmascope.diagnosis.rules.initialisation import asymmetric_weights
from sigmascope.diagnosis.rules.linearity import linear_network
from sigmascope.diagnosis.rules.magnitudes import adjoint_size, dead_units, non_finite, signal_size
from sigmascope.diagnosis.rules.saturation import (
    equal_units,
    hidden_collapse,
    saturated_units,
    sigmoid_stack,
    silent_samples,
)
from sigmascope.diagnosis.rules.sequences import (
    copied_targets,
    counted_padding,
    exploding_through_time,
    later_inputs_seen,
    vanishing_through_time,
)
from sigmascope.diagnosis.rules.setup import (
    cut_weights,
    denormal_values,
    frozen_layers,
    offset_inputs,
    strong_residual,
    stuck_weights,
    unscaled_inputs,
    untouched_statistics,
    weight_scale,
)
from sigmascope.diagnosis.rules.steps import (
    failing_training,
    left_out,
    outweighed,
    sorted_samples,
    unregistered,
)
from sigmascope.diagnosis.rules.task import (
    forgotten_targets,
    ill_conditioned,
    overestimated_rank,
    repeated_inputs,
    unscaled_targets,
)
from sigmascope.diagnosis.rules.training import (
    few_steps,
    large_batch,
    learns,
    other_optimiser,
    rate_too_high,
    rate_too_low,
    strong_options,
    stuck,
)
from sigmascope.diagnosis.trainability.model import EVEN, probability
from sigmascope.records import Finding, Profile, Reading

Rule = Callable[[Profile], Iterator[Finding]]

RULES: tuple[Rule, ...] = (
    non_finite,
    alike_inputs,
    lost_inputs,
    unscaled_inputs,
    offset_inputs,
    repeated_inputs,
    unrelated_targets,
    unfit_targets,
    constant_output,
    indifferent_loss,
    unpaired_loss,
    reversed_loss,
    omitted_class,
    single_target,
    classes_on_one_output,
    spread_targets,
    shared_classes,
    raw_output,
    unsuited_closing,
    softmax_in_the_loss,
    out_of_reach,
    too_narrow,
    squared_error_for_classes,
    unscaled_targets,
    untouched_statistics,
    stale_statistics,
    mixed_samples,
    later_inputs_seen,
    copied_targets,
    counted_padding,
    exploding_through_time,
    vanishing_through_time,
    heavy_dropout,
    unused_layers,
    linear_layers,
    frozen_layers,
    stuck_weights,
    cut_weights,
    equal_units,
    linear_network,
    weight_scale,
    strong_residual,
    silent_samples,
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
    loud_output,
    no_tangents,
    tangent_size,
    overestimated_rank,
    ill_conditioned,
    wrong_backward,
    unaligned_layers,
    rank_one_layer,
    failing_training,
    sorted_samples,
    left_out,
    unregistered,
    outweighed,
    strong_options,
    rate_too_high,
    rate_too_low,
    few_steps,
    other_optimiser,
    large_batch,
    stuck,
)


MOST = 3  # remedies that a finding names; `sigmascope remedy` tries all
# what is an error by arithmetic, or because a change to a copy cured it, whatever is foretold
CERTAIN = (
    "non-finite", "out-of-reach", "wrong-backward", "frozen-layer", "no-tangents",
    "constant-output", "indifferent-loss", "unpaired-loss", "spread-targets", "failing-training",
    "foreign-optimiser", "reversed-loss", "unfit-targets",
    "unregistered-weights", "outweighed-error", "offset-inputs", "unscaled-inputs",
)  # fmt: skip
# what a loss that falls takes nothing of: the task is another one than is meant
STANDS = (
    *CERTAIN, "classes-on-one-output", "shared-classes", "raw-output", "unsuited-closing",
    "double-softmax", "softmax-in-the-loss", "out-of-reach", "single-target",
    "unrelated-targets", "alike-inputs", "lost-inputs", "repeated-inputs",
    "later-inputs-seen", "copied-targets", "counted-padding", "mixed-samples", "heavy-dropout",
    "unused-layers", "stale-statistics", "untouched-statistics", "sorted-samples",
    "omitted-class", "unregistered-weights", "outweighed-error",
)  # fmt: skip


def diagnose(profile: Profile, *, rules: Sequence[Rule] = RULES) -> tuple[Finding, ...]:
    """Every finding of every rule: causes first, with what follows from them, the severest first.

    A finding that follows from another names it in `follows`. Where the profile holds the
    probability of fitting (`foretold`), findings that would stop training are errors only if its
    interval lies below one half, and a probability below one half is a finding itself.

    Args:
        profile: What was measured.
        rules: Which there are; the catalogue's, to which you may add your own.
    """
    findings = [_advised(f, profile) for rule in rules for f in rule(profile)]
    if learns(profile):
        return grouped(map(_borne, findings))
    chance = None if heard_elsewhere(profile) else probability(profile)  # which copies told
    return grouped(findings if chance is None else _weighed(findings, chance))


def _borne(f: Finding) -> Finding:
    """What a program that learns is told: no error, and no warning of what it overcomes."""
    if f.name not in STANDS:
        return replace(f, severity="note")
    return replace(f, severity="warning") if f.severity == "error" else f


def _advised(f: Finding, profile: Profile) -> Finding:
    """A finding with the remedies that are there for it, after what no remedy can do."""
    remedies = remedies_for(f, profile)[:MOST]
    told = (f"{r.says[:-1]} (`sigmascope remedy MODEL --apply {r.name}`)." for r in remedies)
    return replace(f, remedies=(*f.remedies, *told))


def _weighed(findings: list[Finding], chance: Reading) -> Iterator[Finding]:
    stopped = chance.estimate.high < EVEN
    for f in findings:
        eased = not stopped and f.severity == "error" and f.name not in CERTAIN
        yield replace(f, severity="warning") if eased else f
    if chance.estimate.value < EVEN:
        yield Finding(
            NO_PROGRESS,
            chance.site,
            "error" if stopped and any(f.severity != "note" for f in findings) else "warning",
            (chance,),
            "Of four learning rates none made progress worth the name in its first steps: plain "
            f"training fits these data with a probability of {chance.estimate.value:.2g}.",
            "Fitted to trained networks, docs/trainability.md",
            ("Try the remedies on copies: `sigmascope remedy MODEL`.",),
        )
