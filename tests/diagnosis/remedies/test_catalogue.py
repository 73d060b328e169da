"""Each remedy cures what it claims and leaves the given model alone; all are found by name."""

from pathlib import Path

import pytest
import torch

import sigmascope
from sigmascope import diagnosis, sources, survey
from sigmascope.core.guard import Refusal
from sigmascope.diagnosis.remedies import REMEDIES, RankPretraining
from sigmascope.diagnosis.remedies.catalogue import informed
from tests.diagnosis.remedies.networks import network, treated

ROOT = Path(__file__).parents[3]
CURES = {
    "standardise-inputs": {"shift": 100.0, "depth": 3},
    "unit-scale": {},
    "layer-norm": {"bias": False, "depth": 16},
    "skip-connections": {},
    "zero-branches": {"residual": 3.0, "depth": 16, "activation": "linear"},
    "quiet-output": {"loud": 1000.0, "depth": 2},
    "rank-pretraining": {},
    "batch-norm": {},
    "reinitialise": {},
    "recentre-weights": {"norm": "batch", "init": "asymmetric"},
    "rescale-residual": {"residual": 3.0, "depth": 16},
}
# test_closings, test_long_memory
ELSEWHERE = {"end-in-sigmoid", "end-in-softmax", "end-in-linear", "standardise-targets",
             "long-memory"}  # fmt: skip


def test_each_has_a_network_that_it_cures():
    assert {k.name for k in REMEDIES} == {*CURES} | ELSEWHERE


@pytest.mark.parametrize("kind", [k for k in REMEDIES if k.name in CURES], ids=lambda k: k.name)
def test_each_cures_what_it_claims_and_leaves_the_model_alone(digits, kind):
    options = dict(CURES[kind.name])
    shift, loud = options.pop("shift", 0.0), options.pop("loud", 1.0)
    model = network(**{"width": 24, "depth": 12, **options})
    model.readout.weight.data.mul_(loud)
    digits = sources.Data(digits.inputs[:64] + shift, digits.targets[:64], "digits", 10)
    before = {k: v.clone() for k, v in model.state_dict().items()}
    state = torch.random.get_rng_state()
    t = treated(model, digits, kind())
    assert t.found_before
    claimed = {f.name for f in t.found_before} & {cured.name for cured in kind.cures}
    assert claimed
    assert claimed <= set(t.cured)
    assert not t.new
    assert t.model is not model
    assert torch.equal(torch.random.get_rng_state(), state)
    assert model.training
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name]), name
    assert all(p.requires_grad and p.grad is None for p in t.model.parameters())


def test_remedies_are_found_by_name_and_by_finding(digits):
    assert diagnosis.remedies.remedy("rank-pretraining", steps=3) == RankPretraining(steps=3)
    with pytest.raises(ValueError, match="Did you mean `batch-norm`"):
        diagnosis.remedies.remedy("batchnorm")
    for options, why in (
        ({"step": "a"}, "`step` must be a number, got the text 'a'"),
        ({"setps": 3}, "has no option `setps`; it takes `steps`, .* Did you mean `steps`"),
    ):
        with pytest.raises(Refusal, match=why):
            diagnosis.remedies.remedy("rank-pretraining", **options)
    with pytest.raises(Refusal, match="Options go with one remedy, got `steps`"):
        diagnosis.remedies.remedy("batch-norm+rank-pretraining", steps=3)
    profile = survey.profile(network(32), digits.inputs, views=["representations"])
    (found,) = (f for f in diagnosis.judge(profile) if f.name == "rank-collapse")
    names = [r.name for r in diagnosis.remedies.remedies_for(found)]
    assert names[:2] == ["batch-norm", "rank-pretraining"]


OPTIONS = [
    RankPretraining(steps=3),
    RankPretraining(end_to_end=True, step=0.1),
    diagnosis.remedies.BatchNormalisation(centred=False),
    diagnosis.remedies.RescaleResidual(c=0.5),
    diagnosis.remedies.Reinitialise("he"),
    diagnosis.remedies.remedy("unit-scale+layer-norm"),
    diagnosis.remedies.Together(
        (diagnosis.remedies.UnitScale(), diagnosis.remedies.BatchNormalisation(centred=False))
    ),
    *(kind() for kind in diagnosis.remedies.REMEDIES),
]


@pytest.mark.parametrize("made", OPTIONS, ids=lambda made: made.name)
def test_the_code_of_a_remedy_makes_the_same_one(made):
    code = diagnosis.remedies.in_code(made)
    assert eval(code, {"ss": sigmascope}) == made


class Own(diagnosis.remedies.Remedy):
    name = "own"

    def change(self, model, batches):
        pass


def test_what_cannot_be_written_goes_by_its_name_and_ones_own_has_no_code():
    targets, draw = torch.zeros(3, 1), torch.Generator()
    aware = informed(diagnosis.remedies.remedy("standardise-targets"), targets)
    assert aware.targets is targets
    code = diagnosis.remedies.in_code
    drawn = diagnosis.remedies.UnitScale(draw)
    assert code(drawn) == "ss.remedy('unit-scale', generator=generator)"
    assert code(aware) == "ss.remedy('standardise-targets', targets=targets)"
    assert code(Own()) == ""


def test_a_remedy_that_is_named_gets_the_targets_of_the_task():
    draw = torch.Generator().manual_seed(0)
    net, x = torch.nn.Linear(4, 1), torch.randn(32, 4, generator=draw)
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh(), net)
    task = {"targets": 500 + 90 * x[:, :1], "loss": torch.nn.functional.mse_loss, "budget": 5.0}
    named = diagnosis.remedies.remedy("standardise-targets")
    new = diagnosis.treat(model, x, named, **task)
    assert abs(float(new.model(x).detach().mean()) - 500) < 100
    ((one,), declined) = diagnosis.trial(model, x, remedies=[named], **task)
    assert one.remedy.name == "standardise-targets"
    assert declined == {}


@pytest.mark.parametrize("kind", REMEDIES, ids=lambda kind: kind.name)
def test_each_says_where_it_does_nothing_and_is_on_its_page(kind):
    assert kind.unless
    page = (ROOT / "docs/remedies.md").read_text("utf-8")
    assert f"| `{kind.name}` | {kind.says} | {kind.unless} |" in page
