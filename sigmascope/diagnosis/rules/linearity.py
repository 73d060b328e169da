"""Rules on layers with nothing between them."""

from collections.abc import Iterator

from sigmascope.diagnosis.rules.training import trains
from sigmascope.diagnosis.trainability.model import EVEN, probability
from sigmascope.records import Finding, Profile

WIDE = 1.0  # width between two linear layers, over what lets everything through
GOODFELLOW = "Goodfellow et al. 2016, Sec. 6.1"


def linear_network(profile: Profile) -> Iterator[Finding]:
    """Several layers that compute an affine function of the inputs."""
    chance = probability(profile)
    doubtful = chance is not None and chance.estimate.value < EVEN and not trains(profile)
    for r in profile.series("affine network"):
        yield Finding(
            "linear-network",
            r.site,
            "warning" if doubtful else "note",
            (r,),
            f"All {len(profile.layers)} layers together are one linear map: there is no activation "
            "between them, and more layers can do no more than one.",
            GOODFELLOW,
            ("Put an activation behind every layer but the last, as `nn.ReLU()`.",),
        )


def linear_pair(profile: Profile) -> Iterator[Finding]:
    """A linear layer that reads what another wrote, with no narrow width between to be meant."""
    if any(linear_network(profile)):
        return
    pairs = [r for r in profile.series("linear pair") if r.estimate.value >= WIDE]
    if pairs:
        more = f" (and {len(pairs) - 1} more)" if len(pairs) > 1 else ""
        yield Finding(
            "linear-pair",
            pairs[0].site,
            "note",
            tuple(pairs[:4]),
            f"{pairs[0].site} reads what a linear layer writes, with no activation between{more}: "
            "the two can do no more than one.",
            GOODFELLOW,
            ("Put an activation between them, or leave one out.",),
        )
