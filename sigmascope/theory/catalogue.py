"""Every theorem, listed by hand."""

from collections.abc import Collection, Iterator

from sigmascope.core.guard import Refusal, door, on_cpu
from sigmascope.core.records import Assumption, Check, Verdict
from sigmascope.models import Subject
from sigmascope.theory import daneshmand2020, jacot2023, le2022, riedi2022
from sigmascope.theory.bounds import Bound, OfFacts, OfModels
from sigmascope.theory.random_chains import ChainStatistics

OF_MODELS: tuple[type[OfModels], ...] = (
    daneshmand2020.RankParticipation,
    daneshmand2020.SoftRank,
    daneshmand2020.SoftRankAnyScale,
    daneshmand2020.Regularity,
    daneshmand2020.GradientCollinearity,
    le2022.conservation.BalanceRate,
    le2022.Alignment,
    le2022.RankOne,
    le2022.RankOnePrinted,
    *jacot2023.THEOREMS,
    riedi2022.CurvatureFactors,
)

OF_CHAINS: tuple[type[OfFacts], ...] = (
    daneshmand2020.ChainRank,
    daneshmand2020.ChainParticipation,
    daneshmand2020.ChainSize,
    daneshmand2020.ChainSizeSharp,
    daneshmand2020.ChainRegularity,
    daneshmand2020.StationaryDrift,
)

THEOREMS: tuple[type[Bound], ...] = (
    *OF_MODELS,
    *OF_CHAINS,
    daneshmand2020.RankOneProducts,
    daneshmand2020.LayerDrift,
    le2022.conservation.Drift,
    *riedi2022.THEOREMS,
)


@door
def check(
    subject: Subject,
    *,
    only: Collection[str] | None = None,
    theorems: Collection[type[OfModels]] = OF_MODELS,
) -> Iterator[Check]:
    """Check every theorem that has something to say about the subject.

    Args:
        subject: What the facts are measured on.
        only: Names of the theorems wanted; all when None.
        theorems: Which there are; the catalogue's, to which you may add your own.

    Returns:
        Check by check, as they are asked for; `sigmascope.text` shows them all. A theorem whose
        facts are refused, as what is conserved is of complex weights, is inapplicable for that
        reason, behind the others.

    Raises:
        Refusal: If a name is not in the catalogue, or of a theorem that is not about models; if
            facts are refused and theorems were named, or there are no others to tell of.

    Example:
        >>> import torch
        >>> from sigmascope import text
        >>> net = torch.nn.Sequential(torch.nn.Linear(2, 2))
        >>> shown = text(check(Subject(net, torch.eye(2)), only=["rank-participation"]))
        >>> shown.splitlines()[0]
        'rank-participation: 2 holds'
    """
    names = [theorem.name for theorem in theorems]
    unknown = sorted(set(only or ()) - set(names))
    if unknown:
        raise Refusal(
            f"`only` must name theorems about models, got {unknown}. There are: {', '.join(names)}."
        )
    asked = [theorem for theorem in theorems if only is None or theorem.name in only]
    return _checks(asked, subject, named=only is not None)


def _checks(asked: Collection[type[OfModels]], subject: Subject, *, named: bool) -> Iterator[Check]:
    told, refused = 0, list[tuple[type[OfModels], Refusal]]()
    for theorem in asked:
        try:
            found = _checked(theorem, subject)
        except Refusal as refusal:
            if named:
                raise
            refused.append((theorem, refusal))
        else:
            told += len(found)
            yield from found
    if refused and not told:
        raise refused[0][1]
    for theorem, why in refused:
        words = theorem.name, theorem.source, theorem.statement, "(model)"
        needed = (Assumption(f"the facts can be measured: {why}", met=False),)
        yield Check(*words, None, None, theorem.sense, needed, Verdict.INAPPLICABLE)


@on_cpu()
def _checked(theorem: type[OfModels], subject: Subject) -> list[Check]:
    return [bound.check() for bound in theorem.facts(subject)]


def check_chain(chain: ChainStatistics) -> Iterator[Check]:
    """Check every theorem about the layers of a random chain with batch normalisation.

    Args:
        chain: From `theory.random_chains.BatchNormChain.run`.
    """
    return (bound.check() for theorem in OF_CHAINS for bound in theorem.facts(chain))
