"""Every rule, listed by hand; each turns a profile into findings, and is silent where all is well.

Rules stand with the deepest causes first: the order says which of two causes is blamed, and is that
of the table in docs/findings.md. What follows from what, and what is an error whatever is foretold,
is declared with the kinds of findings, beside their rules.

The thresholds were set on default, He, BatchNorm and LayerNorm networks of depth 4 to 64 on digits
(`docs/findings.md` has the table): a default ReLU network trains at depth 4 and 6, and never at 8.
"""

from dataclasses import dataclass

from sigmascope.core import quantities as q
from sigmascope.core.records import SPEAKS, Kind, Profile, Rule, kinds_of
from sigmascope.diagnosis.rules import (
    data,
    dependences,
    gradients,
    outputs,
    representations,
    sequences,
    steps,
    theorems,
    training,
    weights,
)

RULES: tuple[Rule[Profile], ...] = (
    steps.foreign_optimizer,
    data.alike_inputs,
    data.repeated_inputs,
    outputs.constant_output,
    outputs.indifferent_loss,
    outputs.unpaired_loss,
    outputs.unbounded_loss,
    outputs.reversed_loss,
    outputs.misplaced_masks,
    outputs.omitted_class,
    outputs.single_target,
    outputs.classes_on_one_output,
    outputs.spread_targets,
    outputs.shared_classes,
    outputs.raw_output,
    outputs.unsuited_closing,
    outputs.softmax_in_the_loss,
    outputs.out_of_reach,
    outputs.too_narrow,
    data.unscaled_targets,
    weights.stuck_weights,
    weights.equal_units,
    representations.lost_inputs,
    dependences.untouched_statistics,
    dependences.stale_statistics,
    dependences.shared_normaliser,
    dependences.random_evaluation,
    dependences.mixed_samples,
    dependences.unnormalised_attention,
    dependences.unread_inputs,
    sequences.later_inputs_seen,
    sequences.unseen_order,
    sequences.copied_targets,
    sequences.skipped_inputs,
    sequences.counted_padding,
    dependences.heavy_dropout,
    weights.unused_layers,
    data.offset_inputs,
    data.unscaled_inputs,
    weights.asymmetric_weights,
    sequences.exploding_through_time,
    sequences.read_padding,
    sequences.vanishing_through_time,
    weights.strong_residual,
    weights.weight_scale,
    representations.layer_gain,
    representations.sigmoid_stack,
    weights.linear_network,
    representations.dead_units,
    representations.silent_samples,
    representations.saturated_units,
    weights.frozen_layers,
    steps.unregistered,
    steps.outweighed,
    steps.untrained_weights,
    gradients.cut_weights,
    weights.linear_layers,
    training.maximised_loss,
    training.strong_options,
    training.unusual_options,
    representations.signal_size,
    representations.rank_collapse,
    gradients.adjoint_size,
    representations.non_finite,
    representations.unrelated_targets,
    outputs.unfit_targets,
    outputs.squared_error_for_classes,
    representations.hidden_collapse,
    representations.directional_gradient,
    representations.forgotten_targets,
    representations.denormal_values,
    representations.loud_output,
    gradients.no_tangents,
    gradients.tangent_size,
    theorems.overestimated_rank,
    theorems.ill_conditioned,
    theorems.wrong_backward,
    theorems.unaligned_layers,
    theorems.rank_one_layer,
    steps.failing_training,
    data.sorted_samples,
    training.rate_too_high,
    training.rate_too_low,
    training.few_steps,
    training.other_optimizer,
    training.large_batch,
    training.stuck,
)
NO_PROGRESS = Kind(
    "no-progress",
    "the probability of fitting is below one half; stands under the likeliest cause. An error "
    "beside another finding if its interval is below 0.1, and a note by itself if that reaches "
    "one half",
    "Fitted to trained networks, docs/trainability.md",
    of_any=True,
)
KINDS: tuple[Kind, ...] = (*kinds_of(RULES), NO_PROGRESS)


@dataclass(frozen=True, slots=True)
class Unheard:
    """Rules that could not speak, for one reason.

    Attributes:
        need: The view that they read, or `"task"`.
        rules: Their names.
        why: In words.
    """

    need: str
    rules: tuple[str, ...]
    why: str

    @property
    def says(self) -> str:
        """One line, for example "6 rules on how the program trains could not speak: ..."."""
        count = len(self.rules)
        many = f"{count} rules" if count > 1 else "1 rule"
        return f"{many} on {SPEAKS.get(self.need, self.need)} could not speak: {self.why}"


def unheard(profile: Profile) -> tuple[Unheard, ...]:
    """The rules that could not speak, by what they would have read: silence must mean "looked"."""
    reading: dict[str, list[str]] = {view: [] for view in (*q.ALL, "task", *q.EVERY, "training")}
    for rule in RULES:
        reading[rule.reads].append(rule.name)
    views, found = profile.views, list[Unheard]()
    reasons = {s.what: s.why.rstrip(".") for s in reversed(profile.skipped)}
    for need, names in reading.items():
        why = f"the view `{need}` was not asked for"
        if need == "task" and "setup" not in views:
            why = "the view `setup` was not asked for"
        elif need == "task" and profile.fact(q.TAKEN_BY_THE_LOSS):  # read of every task
            why = ""
        elif need == "task":
            otherwise = "no targets with a loss were given that could be compared"
            why = reasons.get("the task", otherwise)
        elif any(r.view == need for r in profile.readings):
            why = ""
        elif need in views:
            why = reasons.get(need, "nothing of it could be read")
        elif need == "training":
            why = reasons.get(need, "no optimizer was given")
        if why:
            found.append(Unheard(need, tuple(names), why))
    return tuple(found)
