"""What is told of balances that training broke."""

from collections.abc import Iterable

from sigmascope import quantities as q
from sigmascope.records import Estimate, Finding, Kind, Reading, Verdict
from sigmascope.theory.le2022.conservation.ledger import Drift

BALANCE_BROKEN = Kind(
    "balance-broken",
    "a balance drifted otherwise than its recorded steps say, or further than the fall of the "
    "loss allows (`theory.le2022.conservation.broken_balances`)",
    "Le & Jegelka 2022, Theorem 1, in discrete time",
)


def broken_balances(drifts: Iterable[Drift]) -> tuple[Finding, ...]:
    """A finding for every balance that training broke, with the reason where it was seen.

    Args:
        drifts: From a ledger, a watch or a comparison.

    Source:
        Le & Jegelka 2022, Theorem 1, in discrete time.
    """
    return tuple(_broken(d) for d in drifts if d.verdict == Verdict.VIOLATED)


def _broken(drift: Drift) -> Finding:
    evidence = Reading(
        drift.site, q.BALANCE_DRIFT, Estimate.rounded(drift.drift, ulps=64), "balances"
    )
    since = "" if drift.since is None else f" (first seen after step {drift.since})"
    why = (
        f"Seen: {'; '.join(drift.suspects)}."
        if drift.suspects
        else "Gradients were changed between backward and step (clipping, scaling), or a backward "
        "pass is not the derivative of its forward pass."
    )
    return BALANCE_BROKEN.finding(
        drift.site,
        "warning",
        (evidence,),
        f"The balance between {drift.site} is off by {drift.residual:.2g} from where its steps "
        f"should have taken it, of which rounding explains {drift.allowed:.1g}{since}. {why}",
        (
            "Give both sides one learning rate, train both or none, and clip the gradient of all "
            "parameters together; or accept that the balance is gone.",
        ),
    )


KINDS = (BALANCE_BROKEN,)
RULES = ()  # none reads a profile
