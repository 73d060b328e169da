"""A trial tries everything that applies, ranks it by what it leaves, and says the rest."""

import itertools
from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from sigmascope import diagnosis, report, sources
from sigmascope.core.guard import Budget, Refusal, listed
from sigmascope.diagnosis import treatments
from sigmascope.models import networks

KINDS = (
    diagnosis.remedies.RescaleResidual,
    diagnosis.remedies.BatchNormalisation,
    diagnosis.remedies.RecentreWeights,
)


def tried(*kinds, depth=12, **options):
    data = sources.open_data("digits", samples=48)
    g = torch.Generator().manual_seed(0)
    model = networks.mlp(inputs=64, outputs=10, depth=depth, width=24, generator=g)
    before = {k: v.clone() for k, v in model.state_dict().items()}
    found = diagnosis.trial(
        model,
        data.inputs,
        remedies=[kind() for kind in kinds],
        targets=data.targets,
        loss=F.cross_entropy,
        **options,
    )
    assert all(torch.equal(v, before[k]) for k, v in model.state_dict().items())
    return found


@pytest.fixture(scope="module")
def several():
    return tried(diagnosis.remedies.LayerNormalisation, *KINDS, depth=20)


def test_what_applies_is_ranked_and_the_rest_is_said(several):
    found, declined = several
    assert found[0].remedy.name in ("batch-norm", "layer-norm")  # either makes it train
    chances = [diagnosis.trainability.probability(t.after).estimate.value for t in found]
    assert chances[0] > 0.9 > diagnosis.trainability.probability(found[0].before).estimate.value
    assert set(declined) == {"rescale-residual", "recentre-weights"}
    assert all(t.before is found[0].before for t in found)


@pytest.mark.slow
def test_pairs_follow_where_no_single_one_is_enough():
    kinds = ("LayerNormalisation", "QuietOutput", "SkipConnections")
    kinds = [getattr(diagnosis.remedies, kind) for kind in kinds]
    found, _ = tried(*kinds, depth=40, optimizer="sgd")
    singles = [t for t in found if "+" not in t.remedy.name]
    best = max(diagnosis.probability(t.after).estimate.value for t in singles)
    assert len(singles) >= 2
    assert (len(found) > len(singles)) == (best < 0.9)


def test_probes_share_a_budget():
    found, _ = tried(diagnosis.remedies.LayerNormalisation, budget=1e-6)
    for measured in (found[0].before, found[0].after):
        assert diagnosis.trainability.probability(measured) is None
        assert "allow more, `--budget 1min`" in measured.skipped[-1].why


def test_of_a_single_remedy_no_pairs_are_made():
    told = []
    found, _ = tried(diagnosis.remedies.Reinitialise, depth=2, progress=lambda *at: told.append(at))
    assert told == [("as it is", 0, 2), ("reinitialise", 1, 2)]
    assert [t.remedy.name for t in found] == ["reinitialise"]
    assert set(found[0].cured).isdisjoint(found[0].new)


def test_a_remedy_goes_by_its_name():
    x = sources.open_data("digits", samples=32).inputs
    model = networks.mlp(inputs=64, outputs=10, depth=3, norm="none")
    named = diagnosis.treat(model, x, "batch-norm", budget=None)
    assert named.remedy == diagnosis.remedies.BatchNormalisation()
    both, _ = diagnosis.trial(model, x, remedies=["layer-norm+quiet-output"], budget=None)
    assert [t.remedy.name for t in both] == ["layer-norm+quiet-output"]
    with pytest.raises(Refusal, match=r"no remedy `batchnorm`; there are .* mean `batch-norm`"):
        diagnosis.treat(nn.Linear(2, 2), torch.ones(3, 2), "batchnorm")


def test_without_a_new_probability_nothing_that_rests_on_it_is_cured(several):
    (one, *_), _ = several
    assert "no-progress" in one.cured
    rest = tuple(r for r in one.after.readings if r.quantity != "probability of fitting")
    blind = replace(one, after=replace(one.after, readings=rest))
    assert set(blind.cured) == set(one.cured) - {"no-progress"}
    assert "not measured again" in report.text(blind)
    assert "not measured again" not in report.text(one)


def test_what_was_tried_unpacks_and_shows_itself(several):
    treatments, declined = several
    assert several.treatments is treatments
    assert several.declined is declined
    said = report.text(several)
    assert repr(several) == said.rstrip()
    assert all(t.remedy.name in said for t in treatments)
    assert len(report.table(several)["remedy"]) == len(treatments)
    assert report.json_form(several)["declined"] == dict(declined)


@pytest.mark.parametrize(("seconds", "made", "needed"), [(25, 1, 40), (29, 1, 40), (30, 2, 55)])
def test_a_remedy_is_begun_while_measuring_fits_into_what_is_left(
    seconds, made, needed, monkeypatch
):
    passed = [0.0]

    def slow(plain):
        def taking(*args, **named):
            passed[0] += 10.0
            return plain(*args, **named)

        return taking

    for name in ("assess", "treat"):
        monkeypatch.setattr(treatments, name, slow(getattr(treatments, name)))
    budget = Budget(seconds, clock=lambda: passed[0])
    found = tried(*KINDS[:3], depth=3, budget=budget, views=["setup"])
    assert len(found.untried) == 3 - made
    assert found.needed == needed  # the second is measured again, which takes ten more


def test_no_remedy_is_begun_for_which_the_budget_has_no_time(several):
    assert (several.untried, several.needed) == ((), 0.0)
    ticks = itertools.count()
    budget = Budget(2.0, clock=lambda: float(next(ticks)))
    found = tried(*KINDS, depth=3, budget=budget, views=["setup"])
    made = len(found.treatments) + len(found.declined)
    assert 1 <= made < len(KINDS)  # the first is always tried
    assert found.untried == tuple(kind.name for kind in KINDS[made:])
    assert found.needed > budget.seconds
    said = " ".join(report.text(found).split())
    assert f"had no time left: {listed(found.untried)}. All need about" in said
    assert "`--budget` (`budget=` in Python)" in said
    assert report.json_form(found)["untried"] == list(found.untried)
