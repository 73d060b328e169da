"""What is told of balances that training broke."""

from collections.abc import Iterable

from sigmascope.core import quantities as q
from sigmascope.core.records import Estimate, Finding, Kind, Reading, Verdict
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
    findings: list[Finding] = []
    for d in drifts:
        if d.verdict == Verdict.VIOLATED:
            evidence = Reading(
                d.site, q.BALANCE_DRIFT, Estimate.rounded(d.drift, ulps=64), "balances"
            )
            since = "" if d.since is None else f" (first seen after step {d.since})"
            why = (
                f"Seen: {'; '.join(d.suspects)}."
                if d.suspects
                else "Gradients were changed between backward and step (clipping, scaling), or a "
                "backward pass is not the derivative of its forward pass."
            )
            findings.append(
                BALANCE_BROKEN.finding(
                    d.site,
                    "warning",
                    (evidence,),
                    f"The balance between {d.site} is off by {d.residual:.2g} from where its steps "
                    f"should have taken it, of which rounding explains {d.allowed:.1g}{since}. "
                    f"{why}",
                    (
                        "Give both sides one learning rate, train both or none, and clip the "
                        "gradient of all parameters together; or accept that the balance is gone.",
                    ),
                )
            )
    return tuple(findings)


KINDS = (BALANCE_BROKEN,)
RULES = ()  # none reads a profile
