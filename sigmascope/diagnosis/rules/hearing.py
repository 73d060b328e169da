"""Which rules could speak of a profile, and why others could not: silence must mean "looked"."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from sigmascope.records import Profile

# what a rule reads, without which it is silent whatever is there; others read what is always there
NEEDS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "representations": (
            "non_finite", "alike_inputs", "lost_inputs", "rank_collapse", "hidden_collapse",
            "signal_size", "dead_units", "layer_gain",
        ),
        "features": ("adjoint_size", "no_tangents", "tangent_size"),
        "gradients": ("directional_gradient",),
        "setup": (
            "unscaled_inputs", "offset_inputs",
            "untouched_statistics", "frozen_layers", "equal_units",
            "linear_network", "linear_layers", "weight_scale", "stale_statistics",
            "mixed_samples", "heavy_dropout", "unused_layers", "strong_residual", "silent_samples",
            "sigmoid_stack", "saturated_units", "denormal_values", "sorted_samples",
            "exploding_through_time", "vanishing_through_time",
        ),
        "task": (
            "unfit_targets", "constant_output", "indifferent_loss", "single_target",
            "unpaired_loss", "reversed_loss", "omitted_class",
            "classes_on_one_output", "spread_targets", "shared_classes", "raw_output",
            "unsuited_closing", "softmax_in_the_loss", "out_of_reach", "too_narrow",
            "squared_error_for_classes",
            "unscaled_targets", "unrelated_targets", "repeated_inputs", "loud_output",
            "forgotten_targets",
            "later_inputs_seen", "copied_targets", "counted_padding",
            "stuck_weights", "cut_weights",
        ),
        "weights": ("asymmetric_weights",),
        "balances": ("wrong_backward", "unaligned_layers", "rank_one_layer"),
        "bottleneck": ("overestimated_rank",),
        "conditioning": ("ill_conditioned",),
        "training": (
            "failing_training", "strong_options", "left_out", "rate_too_high", "rate_too_low",
            "few_steps", "other_optimiser", "large_batch", "stuck", "unregistered", "outweighed",
        ),
    }
)  # fmt: skip
TASK = "loss of probabilities"  # read wherever a task was looked at
SPEAKS = {"task": "outputs, targets and loss", "training": "how the program trains"}


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
    """The rules that could not speak, by what they would have read."""
    silent = ((need, rules, _why(profile, need)) for need, rules in NEEDS.items())
    return tuple(Unheard(need, rules, why) for need, rules, why in silent if why)


def _why(profile: Profile, need: str) -> str:
    if need == "task":
        asked = "setup" in profile.views
        if not asked or any(r.quantity == TASK for r in profile.readings):
            return "" if asked else "the view `setup` was not asked for"
        return _reason(profile, "the task", "no targets and loss were given that could be compared")
    if any(r.view == need for r in profile.readings):
        return ""
    if need == "training" and need not in profile.views:
        return "no optimiser was given"
    if need not in profile.views:
        return f"the view `{need}` was not asked for"
    return _reason(profile, need, "nothing of it could be read")


def _reason(profile: Profile, what: str, otherwise: str) -> str:
    return next((s.why.rstrip(".") for s in profile.skipped if s.what == what), otherwise)
