"""The rule on networks without an activation."""

from collections.abc import Iterator

from sigmascope.diagnosis.rules.training import trains
from sigmascope.diagnosis.trainability.model import EVEN, probability
from sigmascope.records import Finding, Profile

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
