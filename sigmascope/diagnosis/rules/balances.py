"""Rules on balances: broken ones, layers of rank one, linear layers that do not align."""

from collections.abc import Iterable, Iterator

from sigmascope.records import Estimate, Finding, Profile, Reading, Verdict
from sigmascope.theory import le2022

LE = "Le & Jegelka 2022"
RANK_ONE = 0.95  # of the squared Frobenius norm in one direction
NEAR, APART = 0.8, 0.5  # ratios from which layers should align; alignment that is none


def rank_one_layer(profile: Profile) -> Iterator[Finding]:
    """Weights that training has driven to rank one."""
    for r in profile.series("operator-to-Frobenius ratio", view="balances"):
        if r.estimate.low >= RANK_ONE:
            yield Finding(
                "rank-one-layer",
                r.site,
                "note",
                (r,),
                f"{r.site} is nearly of rank one: one direction holds {r.estimate.value:.1%} of "
                "its squared norm. Gradient descent does this to the last linear layers of a "
                "network that classifies with one output; elsewhere it means that little is "
                "passed on.",
                f"{LE}, Theorem 2",
                (
                    "Replace the layer by a factorisation of rank one, which computes the same for "
                    "less.",
                    "If more than one direction should pass, shorten the training after everything "
                    "is classified, or use weight decay and normalisation.",
                ),
            )


def unaligned_layers(profile: Profile) -> Iterator[Finding]:
    """Linear neighbours of nearly rank one whose directions do not meet."""
    ratios = {r.site: r for r in profile.series("operator-to-Frobenius ratio", view="balances")}
    for r in profile.series("alignment", view="balances"):
        names = [n for side in r.site.split(" ~ ") for n in side.split(" + ")]
        near = [ratios[n] for n in names if n in ratios]
        if len(near) == len(names) and r.estimate.high < APART:
            if min(x.estimate.low for x in near) < NEAR:
                continue
            yield Finding(
                "unaligned-layers",
                r.site,
                "warning",
                (r, *near),
                f"{r.site} meet with nothing but linear maps between them and are both nearly of "
                f"rank one, but their directions do not meet (alignment {r.estimate.value:.2f}): "
                "what one writes, the other hardly reads. Gradient flow from small weights cannot "
                "do this; something broke their balance.",
                f"{LE}, (15)",
                (
                    "Look for what breaks the balance with survey.Monitor: an adaptive optimiser, "
                    "different learning rates, a frozen layer.",
                ),
            )


def wrong_backward(profile: Profile) -> Iterator[Finding]:
    """Balances that the forward pass promises and the gradient does not keep."""
    for check in profile.checks:
        if (
            check.theorem == le2022.conservation.BalanceRate.name
            and check.verdict == Verdict.VIOLATED
        ):
            assert check.measured is not None  # a violated theorem has been asked for it
            rate = Reading(check.site, "balance rate", check.measured, "balances")
            yield Finding(
                "wrong-backward",
                check.site,
                "error",
                (rate,),
                f"The gradient changes a balance between {check.site} that the forward pass makes "
                f"constant (relative rate {check.measured.value:.2g}): a backward pass there is "
                "not the derivative of its forward pass, or a part is detached.",
                f"{LE}, Theorem 1",
                (
                    "Check custom autograd functions with torch.autograd.gradcheck, and look for "
                    "detach() and no_grad() between these layers.",
                ),
            )


def broken_balances(drifts: Iterable[le2022.conservation.Drift]) -> tuple[Finding, ...]:
    """A finding for every balance that training broke, with the reason where it was seen.

    Args:
        drifts: From a ledger, a monitor or a comparison.

    Source:
        Le & Jegelka 2022, Theorem 1, in discrete time.
    """
    return tuple(_broken(d) for d in drifts if d.verdict == Verdict.VIOLATED)


def _broken(drift: le2022.conservation.Drift) -> Finding:
    evidence = Reading(
        drift.site, "balance drift", Estimate.rounded(drift.drift, ulps=64), "balances"
    )
    since = "" if drift.since is None else f" (first seen after step {drift.since})"
    why = (
        f"Seen: {'; '.join(drift.suspects)}."
        if drift.suspects
        else "Gradients were changed between backward and step (clipping, scaling), or a backward "
        "pass is not the derivative of its forward pass."
    )
    return Finding(
        "balance-broken",
        drift.site,
        "warning",
        (evidence,),
        f"The balance between {drift.site} is off by {drift.residual:.2g} from where its steps "
        f"should have taken it, of which rounding explains {drift.allowed:.1g}{since}. {why}",
        f"{LE}, Theorem 1, in discrete time",
        (
            "Give both sides one learning rate, train both or none, and clip the gradient of all "
            "parameters together; or accept that the balance is gone.",
        ),
    )
