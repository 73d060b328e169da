"""Rules on the views of three papers: balances, inner dimension, condition of learning."""

from collections.abc import Iterator

from sigmascope.core import quantities as q
from sigmascope.core.records import Finding, Kind, Profile, Reading, Verdict, rule
from sigmascope.diagnosis.rules.trends import over_depth

LE = "Le & Jegelka 2022"
RANK_ONE = 0.95  # of the squared Frobenius norm in one direction
RATE = "balance-rate"  # the theorem, in `theory.le2022.conservation`
NEAR, APART = 0.8, 0.5  # ratios from which layers should align; alignment that is none


ILL_CONDITIONED_LAYER = Kind(
    "ill-conditioned-layer",
    "the condition of learning in a layer is above 1e4 (view `conditioning`)",
    "Riedi et al. 2022, Sec. 3, corrected",
)


@rule("conditioning", ILL_CONDITIONED_LAYER)
def ill_conditioned(profile: Profile) -> Iterator[Finding]:
    """Layers in which the loss is far flatter in some directions than in others."""
    found = profile.series(q.CONDITION_OF_LEARNING, view="conditioning")
    bad = [r for r in found if r.estimate.low > 1e4]
    if not bad:
        return
    worst = max(bad, key=lambda r: r.estimate.value)
    factors = (*profile.series(q.LAYER_FACTOR), *profile.series(q.DATA_FACTOR))
    known = [r for r in factors if r.site == worst.site]
    larger = max(known, key=lambda r: r.estimate.value) if known else None
    cause = "" if larger is None else f"; most of it is the {larger.quantity}"
    yield ILL_CONDITIONED_LAYER.finding(
        worst.site,
        "warning",
        (worst, *known),
        f"{len(bad)} layers are ill conditioned, worst {worst.site} ({worst.estimate.value:.2g}"
        f"{cause}): gradient descent needs about that number squared of steps in the slowest "
        "direction.",
        (
            "Whiten what the layer reads where the data factor is large; give layers their own "
            "rates where the layer factor is (`sigmascope landscape MODEL`).",
        ),
    )


RANK_OVERESTIMATED = Kind(
    "rank-overestimated",
    "every layer passes more dimensions than the inner dimension of the function (view "
    "`bottleneck`; a note)",
    "Jacot 2023, Theorem 3 and Sec. 3",
)


@rule("bottleneck", RANK_OVERESTIMATED)
def overestimated_rank(profile: Profile) -> Iterator[Finding]:
    """A trained network that passes more dimensions everywhere than its function uses."""
    used = profile.series(q.INNER_DIMENSION, view="bottleneck")
    passed = over_depth(profile, q.REPRESENTATION_RANK).readings[1:]
    if not used or len(passed) < 3:
        return
    narrow = min(passed, key=lambda r: r.estimate.value)
    if narrow.estimate.low > used[0].estimate.high:
        yield RANK_OVERESTIMATED.finding(
            narrow.site,
            "note",
            (used[0], narrow),
            f"The function uses {used[0].estimate.value:.0f} dimensions, and every layer passes "
            f"{narrow.estimate.value:.0f} or more ({narrow.site} the fewest): training has kept "
            "directions that the function does not need.",
            ("Train deeper, longer or with more weight decay if the true dimension matters.",),
        )


RANK_ONE_LAYER = Kind(
    "rank-one-layer",
    "one direction holds at least 0.95 of the squared Frobenius norm of a weight (view "
    "`balances`; a note)",
    f"{LE}, Theorem 2",
)


@rule("balances", RANK_ONE_LAYER)
def rank_one_layer(profile: Profile) -> Iterator[Finding]:
    """Weights that training has driven to rank one."""
    for r in profile.series(q.OPERATOR_TO_FROBENIUS_RATIO, view="balances"):
        if r.estimate.low >= RANK_ONE:
            yield RANK_ONE_LAYER.finding(
                r.site,
                "note",
                (r,),
                f"{r.site} is nearly of rank one: one direction holds {r.estimate.value:.1%} of "
                "its squared norm. Gradient descent does this to the last linear layers of a "
                "network that classifies with one output; elsewhere it means that little is "
                "passed on.",
                (
                    "Replace the layer by a factorisation of rank one, which computes the same for "
                    "less.",
                    "If more than one direction should pass, shorten the training after everything "
                    "is classified, or use weight decay and normalisation.",
                ),
            )


UNALIGNED_LAYERS = Kind(
    "unaligned-layers",
    "two layers with only linear maps between, both with at least 0.8 of their squared norm in "
    "one direction, have an alignment below 0.5 (view `balances`)",
    f"{LE}, (15)",
)


@rule("balances", UNALIGNED_LAYERS)
def unaligned_layers(profile: Profile) -> Iterator[Finding]:
    """Linear neighbours of nearly rank one whose directions do not meet."""
    ratios = {r.site: r for r in profile.series(q.OPERATOR_TO_FROBENIUS_RATIO, view="balances")}
    for r in profile.series(q.ALIGNMENT, view="balances"):
        names = [n for side in r.site.split(" ~ ") for n in side.split(" + ")]
        near = [ratios[n] for n in names if n in ratios]
        if len(near) == len(names) and r.estimate.high < APART:
            if min(x.estimate.low for x in near) < NEAR:
                continue
            yield UNALIGNED_LAYERS.finding(
                r.site,
                "warning",
                (r, *near),
                f"{r.site} meet with nothing but linear maps between them and are both nearly of "
                f"rank one, but their directions do not meet (alignment {r.estimate.value:.2f}): "
                "what one writes, the other hardly reads. Gradient flow from small weights cannot "
                "do this; something broke their balance.",
                (
                    "Look for what breaks the balance with ss.watch(..., probe_batch=x, "
                    'views=["balances"]): an adaptive optimizer, different learning rates, a '
                    "frozen layer.",
                ),
            )


WRONG_BACKWARD = Kind(
    "wrong-backward",
    "a balance that the forward pass makes constant has a rate along the gradient beyond rounding "
    "and `eps` (view `balances`)",
    f"{LE}, Theorem 1",
    proven=True,
)


@rule("balances", WRONG_BACKWARD)
def wrong_backward(profile: Profile) -> Iterator[Finding]:
    """Balances that the forward pass promises and the gradient does not keep."""
    for check in profile.checks:
        if check.theorem == RATE and check.verdict == Verdict.VIOLATED:
            assert check.measured is not None  # a violated theorem has been asked for it
            rate = Reading(check.site, q.BALANCE_RATE, check.measured, "balances")
            yield WRONG_BACKWARD.finding(
                check.site,
                "error",
                (rate,),
                f"The gradient changes a balance between {check.site} that the forward pass makes "
                f"constant (relative rate {check.measured.value:.2g}): a backward pass there is "
                "not the derivative of its forward pass, or a part is detached.",
                (
                    "Check custom autograd functions with torch.autograd.gradcheck, and look for "
                    "detach() and no_grad() between these layers.",
                ),
            )
