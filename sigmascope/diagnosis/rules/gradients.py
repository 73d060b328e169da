"""Rules on derivatives: those that are zero, and those that shrink or grow over the depth."""

from collections.abc import Iterator
from statistics import median

from sigmascope.core import quantities as q
from sigmascope.core.records import Finding, Kind, Profile, Reading, Severity, rule
from sigmascope.diagnosis.rules.training import STUCK, RunsTold
from sigmascope.diagnosis.rules.trends import can_part, over_depth
from sigmascope.diagnosis.trainability.model import likely_to_fit
from sigmascope.survey.views.zeros import BEHIND_ZEROS, BESIDE, OFF_TAPE

ZERO = q.GRADIENT_OF_A_ZERO_WEIGHT
JACOT_NTK = "Jacot, Gabriel & Hongler 2018, Sec. 4"
SMALL_TANGENTS, LARGE_TANGENTS = 1e-6, 1e9  # trace of the tangent kernel; healthy nets 1e2 to 1e5
FAST, SLOW = 1e-4, 1e3  # learning rates below and above which nothing usual is
ADJOINT_ERROR, ADJOINT_WARNING = 1e6, 1e4  # of the norm, over the whole depth
JUMPS = 100.0  # of the gradient over the weight, from the last layers to the first


TANGENT_SIZE = Kind(
    "tangent-size",
    "the trace of the tangent kernel is below 1e-6 or above 1e9 a sample, and the rate at which a "
    "plain step would take the whole loss away (the Polyak step, from the loss's own gradient) is "
    "above 1e3 or below 1e-4, where it was measured; a note where the probability of fitting is "
    "one half or more",
    JACOT_NTK,
)


@rule("features", TANGENT_SIZE)
def tangent_size(profile: Profile) -> Iterator[Finding]:
    """A tangent kernel out of all proportion, where the gradient of the loss is so too.

    The kernel is taken with the statistics of batch normalisers held constant. In training they
    move with the weights, which takes most of the derivative away: the loss's own gradient tells.
    """
    found, total = _tangents(profile)
    if len(found) < 3 or total == 0 or SMALL_TANGENTS < total < LARGE_TANGENTS:
        return
    if any(FAST < r.estimate.value < SLOW for r in profile.series(q.POLYAK_STEP)):
        return
    moves = "hardly move the outputs" if total < 1 else "throw the outputs far off"
    share = found[0].estimate.value / total
    yield TANGENT_SIZE.finding(
        found[0].site,
        "note" if likely_to_fit(profile) else "warning",
        tuple(found[:4]),
        f"The trace of the tangent kernel is {total:.2g} a sample, {share:.0%} of it from "
        f"{found[0].site}: gradient steps of usual size {moves}.",
        ("Scale inputs, weights and outputs to unit size.",),
    )


NO_TANGENTS = Kind(
    "no-tangents",
    "the tangent kernel is zero",
    JACOT_NTK,
    proven=True,
)


@rule("features", NO_TANGENTS)
def no_tangents(profile: Profile) -> Iterator[Finding]:
    """A tangent kernel that is zero."""
    found, total = _tangents(profile)
    if len(found) >= 3 and total == 0:
        yield NO_TANGENTS.finding(
            found[0].site,
            "error",
            tuple(found[:4]),
            "The tangent kernel is zero: no small change of any weight changes the output.",
            ("Draw the weights again; look for a zero that multiplies everything.",),
        )


def _tangents(profile: Profile) -> tuple[list[Reading], float]:
    """Shares of the tangent kernel's trace, the largest first, and their sum."""
    shares = sorted(profile.series(q.NTK_TRACE, view="features"), key=lambda r: -r.estimate.value)
    return shares, sum(r.estimate.value for r in shares)


NO_GRADIENT = Kind(
    "no-gradient",
    "a weight that is not zero gets no gradient, and would get none if no weight were zero; of "
    "all weights (error) where training was seen to learn nothing, or where in training mode "
    "autograd finds no way back from the loss to any; a note where they act on "
    "outputs beside the one that is studied",
    "Arithmetic: what has no gradient takes no step",
)


@rule("task", NO_GRADIENT)
def cut_weights(profile: Profile) -> Iterator[Finding]:
    """Weights that get no gradient though they are not zero: a path that is cut."""
    names = {name for layer in profile.layers for name in layer.parameters}
    moved = profile.series(q.RELATIVE_GRADIENT)
    # behind a weight that starts at zero, and moves, nothing is cut off for long
    apart = [r for r in moved if r.estimate.value == 0 and r.form != BEHIND_ZEROS]
    cut = [r for r in apart if r.site in names]
    whole = len(cut) == len([r for r in moved if r.site in names])
    untaped = bool(cut) and all(r.form == OFF_TAPE for r in cut)  # whatever fits already
    runs = RunsTold.of(profile)
    # steps were seen to change nothing: where all fits, there is no gradient either
    learns_nothing = runs.steps > 0 and not runs.left() < STUCK
    if whole and not (learns_nothing or untaped):
        return
    lost = cut if whole else [r for r in cut if r.form != BESIDE]
    if lost:
        some = "1 weight gets" if len(lost) == 1 else f"{len(lost)} weights get"
        count = f"None of the {len(lost)} weights gets a" if whole else f"{some} no"
        why = "what they write does not reach the loss, is cut off from the gradient (`detach`, "
        why += "`no_grad`, `.data`, NumPy), or meets units that are off for every sample"
        if untaped:
            why = "autograd finds no way back to any of them from the loss. `no_grad`, `detach`, "
            why += "`.data` or NumPy cuts it off, in the forward pass or in the loss"
        yield NO_GRADIENT.finding(
            lost[0].site,
            "error" if whole else "warning",
            tuple(lost[:4]),
            f"{count} gradient on this batch, the first {lost[0].site}: {why}.",
            ("Follow the output of this layer to the loss, and look for what cuts it off.",),
        )
    elif cut:
        yield NO_GRADIENT.finding(
            cut[0].site,
            "note",
            tuple(cut[:4]),
            f"What {cut[0].site}{f' and {len(cut) - 1} more act' if cut[1:] else ' acts'} on "
            "is returned beside the output that is studied "
            "here, and has no part in its loss.",
            ("See that the loss which trains the model reads those outputs too.",),
        )


EXPLODING_ADJOINTS = Kind(
    "exploding-adjoints",
    "the adjoint norm at the first layer is more than 1e4 (warning) or 1e6 (error) times that at "
    "the last; where statistics of a batch were held constant, only if the gradient of the loss "
    "over the weight is 100 times as large in the first third of the layers as in the last; one "
    "degree less where the probability of fitting is one half or more",
    "Glorot & Bengio 2010, Sec. 4.2.1",
)


VANISHING_ADJOINTS = Kind(
    "vanishing-adjoints",
    "the adjoint norm at the first layer is less than 1e-4 (warning) or 1e-6 (error) times that "
    "at the last; not where it is zero behind a weight that starts at zero; one degree less where "
    "the probability of fitting is one half or more, no error where a step of all weights parts "
    "samples that are alike",
    "Glorot & Bengio 2010, Sec. 4.2.1",
    brings=(NO_GRADIENT,),
)


@rule("features", EXPLODING_ADJOINTS, VANISHING_ADJOINTS)
def adjoint_size(profile: Profile) -> Iterator[Finding]:
    """Derivatives of the output that shrink or grow by orders of magnitude on the way back."""
    size = over_depth(profile, q.ADJOINT_NORM)
    if len(size.readings) < 3 or size.values()[-1] <= 0:
        return
    ratio = size.values()[0] / size.values()[-1]
    moves = any(r.estimate.value > 0 for r in profile.series(ZERO, form=""))
    blank = any(r.estimate.value == 0 for r in profile.series(q.SPECTRAL_NORM, view="weights"))
    if ratio == 0 and (moves or blank):
        return  # behind a weight that starts at zero, and moves
    if ratio > 1:
        # derivatives are taken with the statistics of batch normalisers held constant, which they
        # are not in training: whether the first layers move far more than the last is asked of the
        # gradient of the loss itself, where it was read
        names = [name for layer in profile.layers for name in layer.parameters]
        moves_by = {r.site: r.estimate.value for r in profile.series(q.RELATIVE_GRADIENT)}
        moved = [moves_by[n] for n in dict.fromkeys(names) if moves_by.get(n, 0.0) > 0]
        third, held = len(moved) // 3, profile.series(q.BATCH_STATISTICS)
        if held and third and not median(moved[:third]) > JUMPS * median(moved[-third:]):
            return
    first, last = size.readings[0], size.readings[-1]
    fits = likely_to_fit(profile)
    usual: Severity = "note" if fits else "warning"
    for kind, how, beyond, extreme in (
        (VANISHING_ADJOINTS, "nothing", ratio < 1 / ADJOINT_WARNING, ratio < 1 / ADJOINT_ERROR),
        (EXPLODING_ADJOINTS, "in jumps", ratio > ADJOINT_WARNING, ratio > ADJOINT_ERROR),
    ):
        if beyond:
            fit = size.trend()
            pace = f", by a factor {fit.says()} from each layer to the next" if fit else ""
            yield kind.finding(
                first.site,
                usual if not extreme else "warning" if fits or can_part(profile) else "error",
                (first, last),
                f"The derivative of the output with respect to what layer {first.site} writes has "
                f"norm {first.estimate.value:.2g}, against {last.estimate.value:.2g} at "
                f"{last.site}{pace}: at a step that suits the last layers, the first learn {how}.",
            )
